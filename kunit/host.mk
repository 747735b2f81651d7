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
# is kunit/Kbuild.

RPCORDMA_ROOT := ./
include kunit/sources.mk

CXX := $(if $(filter default,$(origin CXX)),g++-12,$(CXX))
BUILD ?= build/host
FILTER ?= *

cxx-name := $(notdir $(CXX))
is-clang := $(findstring clang,$(cxx-name))
# One folder for each way to compile, so that changing the way rebuilds nothing else.
sanitized := $(BUILD)/$(cxx-name)

sanitize := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# vptr checks need RTTI, which our code has not.
sanitize += -fno-sanitize=vptr
common := -std=gnu++17 -g -I. -Wall -Wextra -Werror -MMD -MP
# Our own code is compiled as in the kernel: no exceptions, no RTTI, no static constructors to rely on.
ours := -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-strict-aliasing
ours += $(if $(is-clang),,-Wno-psabi)

test-objects = $(patsubst %.cc,$(1)/%.o,kunit/testing.cc kunit/host_glue.cc \
	kunit/host_text.cc $(unit-tests) $(unit-code))

.DEFAULT_GOAL := run
# A failed recipe leaves no half-made target behind.
.DELETE_ON_ERROR:
.PHONY: run build self-test FORCE

build: $(BUILD)/unit-tests

run: $(BUILD)/unit-tests
	@ASAN_OPTIONS=detect_leaks=1:strict_init_order=1 timeout 600 $< --gtest_filter='$(FILTER)'

# --- under the sanitizers ---

$(sanitized)/unit-tests: $(call test-objects,$(sanitized))
	@echo "  LINK    $@"
	@$(CXX) $(sanitize) -o $@ $^ -lgtest -lpthread

# The name without the compiler is the one that was built last.
$(BUILD)/unit-tests: $(sanitized)/unit-tests FORCE
	@ln -sfn $(cxx-name)/unit-tests $@

$(sanitized)/kunit/host_glue.o: kunit/host_glue.cc | gtest
	@echo "  CXX     $<"
	@mkdir -p $(@D) && $(CXX) $(common) $(sanitize) -O1 -c -o $@ $<

$(sanitized)/%.o: %.cc
	@echo "  CXX     $<"
	@mkdir -p $(@D) && $(CXX) $(common) $(ours) $(sanitize) -O1 -I$(BUILD) -c -o $@ $<

# --- the list of suites; rewritten only when it changed ---

$(BUILD)/kunit_suites.inc: FORCE
	@mkdir -p $(@D)
	@sed -n '$(unit-suites-sed)' $(unit-tests) >$@.new
	@cmp -s $@.new $@ || cp $@.new $@
	@rm -f $@.new
$(sanitized)/kunit/testing.o: $(BUILD)/kunit_suites.inc

.PHONY: gtest
gtest:
	@[ -e /usr/include/gtest/gtest.h ] || \
		{ echo "GoogleTest is missing: apt-get install libgtest-dev" >&2; exit 1; }

# --- does it catch anything? ---

self-test: $(BUILD)/self-test/broken
	@kunit/host-self-test $<

$(BUILD)/self-test/broken: kunit/selftest/broken.cc kunit/selftest/misdeeds_host.cc \
		kunit/testing.cc kunit/host_glue.cc kunit/host_text.cc \
		kunit/testing.hh kunit/port.h kunit/host.mk | gtest
	@echo "  CXX     $@"
	@mkdir -p $(@D)
	@echo 'RPCORDMA_LIST_SUITE(broken)' >$(@D)/kunit_suites.inc
	@$(CXX) $(filter-out -MMD -MP,$(common)) $(sanitize) -O1 -I$(@D) -o $@ $(filter %.cc,$^) \
		-lgtest -lpthread

-include $(patsubst %.o,%.d,$(call test-objects,$(sanitized)))
