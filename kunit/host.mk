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

comma := ,
# Debian's GoogleTest is this machine's own: for another it is compiled from its sources.
gtest-library := $(if $(BIG_ENDIAN),$(objects)/libgtest.a)
gtest-compile := $(if $(BIG_ENDIAN),-isystem /usr/src/googletest/googletest/include)
# It is static, which GoogleTest's streaming of results, used by nobody, has the linker warn of.
gtest-link := $(if $(BIG_ENDIAN),-static -Wl$(comma)--no-warnings -L$(objects))
emulator := $(if $(BIG_ENDIAN),qemu-s390x-static)

# The code under test first: of an inline function that is in several objects the linker takes the first one, and tests are not
# optimised.
test-objects := $(patsubst %.cc,$(objects)/%.o,$(unit-code) kunit/testing.cc kunit/host_glue.cc \
	kunit/host_text.cc $(unit-tests))

.PHONY: run build self-test FORCE

build: build/host/unit-tests

run: build/host/unit-tests
	@ASAN_OPTIONS=detect_leaks=1:strict_init_order=1 timeout $(if $(BIG_ENDIAN),3000,600) $(emulator) $< --gtest_filter='$(FILTER)'

$(objects)/unit-tests: $(test-objects) $(gtest-library)
	@echo "  LINK    $@"
	@$(CXX) $(sanitize) $(gtest-link) -o $@ $(test-objects) -lgtest -lpthread

$(objects)/libgtest.a:
	@[ -e /usr/src/googletest ] || { echo "GoogleTest's sources are missing: apt-get install googletest" >&2; exit 1; }
	@echo "  CXX     $@"
	@mkdir -p $(@D)
	@$(CXX) -std=gnu++17 -O1 -w $(gtest-compile) -I/usr/src/googletest/googletest -c -o $(@D)/gtest-all.o \
		/usr/src/googletest/googletest/src/gtest-all.cc
	@$(AR) rcs $@ $(@D)/gtest-all.o

# The name without the compiler is the one that was built last.
build/host/unit-tests: $(objects)/unit-tests FORCE
	@ln -sfn $(cxx-name)/unit-tests $@

$(objects)/kunit/host_glue.o: kunit/host_glue.cc kunit/objects.mk | gtest
	$(call compile,$(gtest-compile))

$(objects)/kunit/%.o: kunit/%.cc kunit/objects.mk kunit/host.mk
	$(call compile,$(ours) -Ibuild/host $(if $(sanitize),$(if $(filter $<,$(filter-out $(unit-optimised),$(unit-tests))),-O0 -g1)))

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
