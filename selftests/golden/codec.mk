# SPDX-License-Identifier: GPL-2.0-only
#
# The program that holds the project's xdr/, and what module/ has for placed items, against the golden messages, under ASan and UBSan; selftests/golden/check
# runs it.
#
#	make -f selftests/golden/codec.mk	build/golden-codec/codec
#	make -f selftests/golden/codec.mk BIG_ENDIAN=1	build/golden-codec/codec-big-endian, for scripts/big-endian
#	make -f selftests/golden/codec.mk print	how a file of xdr/ is compiled for it, and its objects: two lines

.DEFAULT_GOAL := build
# As those of the unit tests are, in a folder of their own: they are built beside these.
override objects = build/golden-codec/$(cxx-name)
include kunit/objects.mk

codec-objects := $(patsubst %.cc,$(objects)/%.o,selftests/golden/codec.cc $(filter xdr/%,$(unit-code)) \
	module/chunk/placement.cc)
program := build/golden-codec/codec$(if $(BIG_ENDIAN),-big-endian)

.PHONY: build print

build: $(program)

$(program): $(codec-objects)
	@$(CXX) $(sanitize) $(if $(BIG_ENDIAN),-static) -o $@ $^

$(objects)/selftests/golden/%.o: selftests/golden/%.cc kunit/objects.mk
	$(call compile)

print:
	@echo $(CXX) $(common) $(ours)
	@echo $(codec-objects)

-include $(codec-objects:.o=.d)
