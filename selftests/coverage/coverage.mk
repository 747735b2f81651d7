# SPDX-License-Identifier: GPL-2.0-only
#
# The unit tests, the simulation and the fuzz targets over one set of objects of module/ and xdr/ that count what
# runs; so their counts add up by themselves. Called by scripts/coverage, with the goal `run`; or with the goal `sim`, for
# what the simulation reaches alone.

RPCORDMA_ROOT := ./
include kunit/sources.mk
include selftests/fuzz/sources.mk

CXX := $(if $(filter default,$(origin CXX)),g++-12,$(CXX))
BUILD ?= build/coverage
FIRST ?= 1
SEEDS ?= 3000

common := -std=gnu++17 -g -I. -Wall -Wextra -Werror -Wno-psabi -MMD -MP -fno-strict-aliasing
# The module's code is compiled as in the kernel, but for the optimiser, which would move lines.
module := -fno-exceptions -fno-rtti -fno-threadsafe-statics -O0 --coverage

counted := $(patsubst %.cc,$(BUILD)/%.o,$(unit-code))
targets := $(patsubst selftests/fuzz/target_%.cc,%,$(sort $(wildcard selftests/fuzz/target_*.cc)))
unit-objects := $(patsubst %.cc,$(BUILD)/unit/%.o,kunit/testing.cc kunit/host_glue.cc kunit/host_text.cc $(unit-tests))
sim-objects := $(patsubst %.cc,$(BUILD)/fuzz/%.o,$(sort $(wildcard selftests/sim/*.cc)))
fuzz-objects := $(patsubst %.cc,$(BUILD)/fuzz/%.o,$(fuzz-helpers) selftests/fuzz/glue.cc selftests/fuzz/replay.cc)
programs := $(BUILD)/unit-tests $(BUILD)/sim $(targets:%=$(BUILD)/fuzz-%)

.DEFAULT_GOAL := run
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: run sim FORCE

# One after the other: they write to the same files. Traced seeds run the trace points.
run: $(programs)
	@find $(BUILD) -name '*.gcda' -delete
	@$(BUILD)/unit-tests >$(BUILD)/unit.log 2>&1 || { cat $(BUILD)/unit.log; exit 1; }
	@$(BUILD)/sim --first $(FIRST) --seeds $(SEEDS) >$(BUILD)/sim.log 2>&1 || { cat $(BUILD)/sim.log; exit 1; }
	@$(BUILD)/sim --first 1 --seeds 10 --trace >$(BUILD)/trace.log 2>&1 || { tail $(BUILD)/trace.log; exit 1; }
	@set -e; for target in $(targets); do \
		$(BUILD)/fuzz-$$target selftests/fuzz/*/$$target >$(BUILD)/fuzz.log 2>&1 || \
			{ cat $(BUILD)/fuzz.log; exit 1; }; \
	done

sim: $(BUILD)/sim
	@find $(BUILD) -name '*.gcda' -delete
	@$(BUILD)/sim --first $(FIRST) --seeds $(SEEDS) >$(BUILD)/sim.log 2>&1 || { cat $(BUILD)/sim.log; exit 1; }
	@$(BUILD)/sim --first $(FIRST) --seeds 100 --trace >$(BUILD)/trace.log 2>&1 || { tail $(BUILD)/trace.log; exit 1; }

# Of an inline function that is not inlined the linker takes the first one: it has to be one that counts.
$(BUILD)/unit-tests: $(counted) $(unit-objects)
	@echo "  LINK    $@"
	@$(CXX) --coverage -o $@ $^ -lgtest -lpthread

$(BUILD)/sim: $(counted) $(sim-objects)
	@echo "  LINK    $@"
	@$(CXX) --coverage -o $@ $^

$(BUILD)/fuzz-%: $(counted) $(BUILD)/fuzz/selftests/fuzz/target_%.o $(fuzz-objects)
	@echo "  LINK    $@"
	@$(CXX) --coverage -o $@ $^

$(counted): $(BUILD)/%.o: %.cc
	@echo "  CXX     $< (counted)"
	@mkdir -p $(@D) && $(CXX) $(common) $(module) -c -o $@ $<

# Two lists of suites, so two of each object that might see one. Of the unit tests, what they use of headers
# counts as well.
$(BUILD)/unit/%.o: %.cc $(BUILD)/unit/kunit_suites.inc
	@echo "  CXX     $<"
	@mkdir -p $(@D) && $(CXX) $(common) -I$(BUILD)/unit -O0 --coverage -c -o $@ $<

$(BUILD)/fuzz/%.o: %.cc $(BUILD)/fuzz/kunit_suites.inc
	@echo "  CXX     $<"
	@mkdir -p $(@D) && $(CXX) $(common) -I$(BUILD)/fuzz -O1 -c -o $@ $<

$(BUILD)/unit/kunit_suites.inc: FORCE
	@mkdir -p $(@D)
	@sed -n '$(unit-suites-sed)' $(unit-tests) >$@.new
	@cmp -s $@.new $@ || cp $@.new $@
	@rm -f $@.new

$(BUILD)/fuzz/kunit_suites.inc:
	@mkdir -p $(@D) && echo 'RPCORDMA_LIST_SUITE(fuzz)' >$@

-include $(counted:.o=.d) $(unit-objects:.o=.d) $(sim-objects:.o=.d) $(fuzz-objects:.o=.d)
-include $(targets:%=$(BUILD)/fuzz/selftests/fuzz/target_%.d)
