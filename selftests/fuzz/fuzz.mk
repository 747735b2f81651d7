# SPDX-License-Identifier: GPL-2.0-only
#
# The fuzz targets, from the repository's root:
#
#	make -f selftests/fuzz/fuzz.mk			build all
#	make -f selftests/fuzz/fuzz.mk build/fuzz/v1	one of them; it takes libFuzzer's arguments
#	make -f selftests/fuzz/fuzz.mk FAST=1		all without sanitizers, in build/fuzz/fast/: many times the runs
#
# scripts/fuzz runs them. A target is selftests/fuzz/target_NAME.cc; each links what it needs of the same code, and
# of the simulation (selftests/sim/) for the port.

RPCORDMA_ROOT := ./
include kunit/sources.mk

CXX := $(if $(filter default,$(origin CXX)),clang++-19,$(CXX))
BUILD ?= build/fuzz$(if $(FAST),/fast)
targets := $(patsubst selftests/fuzz/target_%.cc,%,$(sort $(wildcard selftests/fuzz/target_*.cc)))
include selftests/fuzz/sources.mk

sanitize := $(if $(FAST),,-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all)
flags := -std=gnu++17 $(if $(FAST),-O2,-O1) -g -I. -I$(BUILD) -Wall -Wextra -Werror -Wno-psabi -MMD -MP
flags += -fno-omit-frame-pointer -fno-strict-aliasing $(sanitize)
# By this name fibers and memory are told of ASan; g++ says it by itself.
flags += $(if $(FAST),,-D__SANITIZE_ADDRESS__)
# The module's code is compiled as in the kernel.
module := -fno-exceptions -fno-rtti -fno-threadsafe-statics
# Only what is fuzzed is instrumented for coverage: what the simulation does is no news. Nor is the depth of
# the stack, as there are many.
instrument := -fsanitize=fuzzer-no-link -fno-sanitize-coverage=stack-depth
# What a header alone has, xdr/rpc.hh, is instrumented where it is compiled: with its target.
header-targets := rpc
$(header-targets:%=$(BUILD)/selftests/fuzz/target_%.o): flags += $(instrument)
covered := $(patsubst %.cc,$(BUILD)/%.o,$(unit-code))
helpers := $(patsubst %.cc,$(BUILD)/%.o,$(fuzz-helpers))
glue := $(BUILD)/selftests/fuzz/glue.o

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.PHONY: all
all: $(targets:%=$(BUILD)/%) $(BUILD)/seeds

# As archives, of which the linker takes the objects that a target needs: after each input libFuzzer looks at the counters
# of all that is linked, and for a decoder those of both peers would take half its time.
$(BUILD)/%: $(BUILD)/selftests/fuzz/target_%.o $(glue) $(BUILD)/covered.a $(BUILD)/helpers.a selftests/fuzz/fuzz.mk
	@echo "  LINK    $@"
	@$(CXX) -fsanitize=fuzzer $(sanitize) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group

$(BUILD)/covered.a: $(covered)
$(BUILD)/helpers.a: $(helpers)
$(BUILD)/%.a:
	@rm -f $@ && ar rcsP $@ $^

# The program that writes the seed corpus.
$(BUILD)/seeds: selftests/fuzz/seeds.cc $(wildcard xdr/*.cc)
	@echo "  CXX     $@"
	@mkdir -p $(@D) && $(CXX) -std=gnu++17 -O1 -g -I. -Wall -Wextra -Werror -o $@ $^

$(covered): $(BUILD)/%.o: %.cc
	@echo "  CXX     $<"
	@mkdir -p $(@D) && $(CXX) $(flags) $(module) $(instrument) -c -o $@ $<

$(BUILD)/%.o: %.cc $(BUILD)/kunit_suites.inc
	@echo "  CXX     $<"
	@mkdir -p $(@D) && $(CXX) $(flags) -c -o $@ $<

# Each program has one suite, of one case.
$(BUILD)/kunit_suites.inc:
	@mkdir -p $(@D) && echo 'RPCORDMA_LIST_SUITE(fuzz)' >$@

.SECONDARY:
-include $(covered:.o=.d) $(helpers:.o=.d) $(glue:.o=.d) $(targets:%=$(BUILD)/selftests/fuzz/target_%.d)
