# SPDX-License-Identifier: GPL-2.0-only
#
# The simulation, from the repository's root; Documentation/simulation.rst says what it is.
#
#	make -f selftests/sim/sim.mk			SEEDS seeds, from FIRST on, under ASan and UBSan
#	make -f selftests/sim/sim.mk build		the program alone: build/sim/sim
#	make -f selftests/sim/sim.mk SEAMS=1		with the version that exists in tests alone, at both ends
#
# The last line of a run is "N passed, N failed, N skipped".

SEEDS ?= 10000
FIRST ?= 1

.DEFAULT_GOAL := run
# The module's objects are those of the unit tests.
include kunit/objects.mk

sim-objects := $(patsubst %.cc,$(objects)/%.o,$(unit-code) $(sort $(wildcard selftests/sim/*.cc)))

.PHONY: run build FORCE

program := build/sim/$(if $(SEAMS),seams,sim)$(if $(BIG_ENDIAN),-big-endian)

build: $(program)

run: build
	@$(if $(BIG_ENDIAN),qemu-s390x-static) $(program) --first $(FIRST) --seeds $(SEEDS)

$(objects)/sim: $(sim-objects)
	@echo "  LINK    $@"
	@$(CXX) $(sanitize) $(if $(BIG_ENDIAN),-static) -o $@ $^

# The name without the compiler is the one that was built last.
$(program): $(objects)/sim FORCE
	@mkdir -p $(@D) && ln -sfn ../../$< $@

$(objects)/selftests/sim/%.o: selftests/sim/%.cc kunit/objects.mk
	$(call compile,$(seams))

-include $(sim-objects:.o=.d)
