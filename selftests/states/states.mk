# SPDX-License-Identifier: GPL-2.0-only
#
# All states of the protocol's machines, from the repository's root; Documentation/simulation.rst says what it is.
#
#	make -f selftests/states/states.mk		explore all worlds
#	make -f selftests/states/states.mk build	the program alone: build/states/states
#
# The last line of a run is "N passed, N failed, N skipped". selftests/states/self-test plants bugs, and compiles the
# worlds that look for them with these flags.

CXX := $(if $(filter default,$(origin CXX)),g++-12,$(CXX))
OPTIMIZE ?= -O2
flags := -std=gnu++17 -g $(OPTIMIZE) $(INCLUDE) -I. -Wall -Wextra -Werror -Wno-psabi -fno-strict-aliasing
objects := build/states
sources := $(sort $(wildcard selftests/states/*.cc)) $(sort $(wildcard xdr/*.cc))
states-objects := $(patsubst %.cc,$(objects)/%.o,$(sources))

.DEFAULT_GOAL := run
.DELETE_ON_ERROR:
.PHONY: run build flags

run: build
	@$(objects)/states

build: $(objects)/states

# How a world is compiled.
flags:
	@echo $(CXX) $(flags)

$(objects)/states: $(states-objects)
	@$(CXX) -o $@ $^

$(objects)/%.o: %.cc selftests/states/states.mk
	@echo "  CXX     $<"
	@mkdir -p $(@D)
	@$(CXX) $(flags) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

-include $(states-objects:.o=.d)
