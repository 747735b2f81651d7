# SPDX-License-Identifier: GPL-2.0-only
#
# The simulation, from the repository's root; Documentation/simulation.rst says what it is.
#
#	make -f selftests/sim/sim.mk			SEEDS seeds, from FIRST on, under ASan and UBSan
#	make -f selftests/sim/sim.mk build		the program alone: build/sim/sim
#
# The last line of a run is "N passed, N failed, N skipped".

CXX := $(if $(filter default,$(origin CXX)),g++-12,$(CXX))
BUILD ?= build/sim
SEEDS ?= 10000
FIRST ?= 1

sanitize := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# vptr checks need RTTI, which the module's code has not.
sanitize += -fno-sanitize=vptr
common := -std=gnu++17 -g -I. -Wall -Wextra -Werror -MMD -MP
# The module's code is compiled as in the kernel.
module := -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-strict-aliasing

# Not runtime.cc: the host has a C++ runtime of its own.
module-sources := $(sort $(wildcard xdr/*.cc module/base/*.cc module/chunk/*.cc module/rdma/*.cc \
	module/client/*.cc module/server/*.cc))
sim-sources := $(sort $(wildcard selftests/sim/*.cc))
objects := $(patsubst %.cc,$(BUILD)/%.o,$(module-sources) $(sim-sources))

.DEFAULT_GOAL := run
.DELETE_ON_ERROR:
.PHONY: run build

build: $(BUILD)/sim

run: build
	@$(BUILD)/sim --first $(FIRST) --seeds $(SEEDS)

$(BUILD)/sim: $(objects)
	@echo "  LINK    $@"
	@$(CXX) $(sanitize) -o $@ $^

$(BUILD)/selftests/%.o: selftests/%.cc
	@echo "  CXX     $<"
	@mkdir -p $(@D) && $(CXX) $(common) -fno-strict-aliasing $(sanitize) -O1 -c -o $@ $<

$(BUILD)/%.o: %.cc
	@echo "  CXX     $<"
	@mkdir -p $(@D) && $(CXX) $(common) $(module) $(sanitize) -O1 -c -o $@ $<

-include $(objects:.o=.d)
