# SPDX-License-Identifier: GPL-2.0-only
#
# The unit tests on the host, from the repository's root:
#
#	make -f kunit/host.mk			build and run, under ASan and UBSan
#	make -f kunit/host.mk FILTER='xdr_*'	only these (a GoogleTest filter)
#	make -f kunit/host.mk self-test		shows that each class of failure is caught
#	make -f kunit/host.mk CXX=clang++	the same with clang
#
# The last line of a run is "N passed, N failed, N skipped". The kernel's side of the same tests
# is kunit/Kbuild. How things are compiled, and the objects of the code under test, are objects.mk's.

FILTER ?= *

.DEFAULT_GOAL := run
include kunit/objects.mk

test-objects := $(patsubst %.cc,$(objects)/%.o,kunit/testing.cc kunit/host_glue.cc \
	kunit/host_text.cc $(unit-tests) $(unit-code))

.PHONY: run build self-test FORCE

build: build/host/unit-tests

run: build/host/unit-tests
	@ASAN_OPTIONS=detect_leaks=1:strict_init_order=1 timeout 600 $< --gtest_filter='$(FILTER)'

$(objects)/unit-tests: $(test-objects)
	@echo "  LINK    $@"
	@$(CXX) $(sanitize) -o $@ $^ -lgtest -lpthread

# The name without the compiler is the one that was built last.
build/host/unit-tests: $(objects)/unit-tests FORCE
	@ln -sfn $(cxx-name)/unit-tests $@

$(objects)/kunit/host_glue.o: kunit/host_glue.cc kunit/objects.mk | gtest
	$(call compile)

$(objects)/kunit/%.o: kunit/%.cc kunit/objects.mk
	$(call compile,$(ours) -Ibuild/host)

# --- the list of suites; rewritten only when it changed ---

build/host/kunit_suites.inc: FORCE
	@mkdir -p $(@D)
	@sed -n '$(unit-suites-sed)' $(unit-tests) >$@.new
	@cmp -s $@.new $@ || cp $@.new $@
	@rm -f $@.new
$(objects)/kunit/testing.o: build/host/kunit_suites.inc

.PHONY: gtest
gtest:
	@[ -e /usr/include/gtest/gtest.h ] || \
		{ echo "GoogleTest is missing: apt-get install libgtest-dev" >&2; exit 1; }

# --- does it catch anything? ---

self-test: build/host/self-test/broken
	@kunit/host-self-test $<

build/host/self-test/broken: kunit/selftest/broken.cc kunit/selftest/misdeeds_host.cc \
		kunit/testing.cc kunit/host_glue.cc kunit/host_text.cc \
		kunit/testing.hh kunit/port.h kunit/host.mk kunit/objects.mk | gtest
	@echo "  CXX     $@"
	@mkdir -p $(@D)
	@echo 'RPCORDMA_LIST_SUITE(broken)' >$(@D)/kunit_suites.inc
	@$(CXX) $(common) -I$(@D) -o $@ $(filter %.cc,$^) \
		-lgtest -lpthread

-include $(test-objects:.o=.d)
