# SPDX-License-Identifier: GPL-2.0-only
#
# The simulation, from the repository's root; Documentation/simulation.rst says what it is.
#
#	make -f selftests/sim/sim.mk			SEEDS seeds, from FIRST on, under ASan and UBSan; then RANDOM seeds of
#							the fast build, from RANDOM_FIRST on, which is drawn and printed
#	make -f selftests/sim/sim.mk build		the program alone: build/sim/sim
#	make -f selftests/sim/sim.mk FAST=1 build	without sanitizers, ten times as fast: build/sim/sim-fast
#	make -f selftests/sim/sim.mk long HOURS=8	seeds of the fast build for so long (selftests/sim/seeds)
#	make -f selftests/sim/sim.mk PAGE=65536		with pages of 64 KiB
#	make -f selftests/sim/sim.mk PREEMPT=1		the module is interrupted anywhere, not at calls of the port alone (preempt.cc)
#	make -f selftests/sim/sim.mk SEAMS=1		with the version that exists in tests alone, at both ends
#	make -f selftests/sim/sim.mk guided TIME=60	seconds; coverage says what to try next (guided/guided.cc, selftests/sim/guide)
#
# The last line of a run is "N passed, N failed, N skipped".

SEEDS ?= 10000
FIRST ?= 1
RANDOM ?= 20000
HOURS ?= 1

.DEFAULT_GOAL := run
# The module's objects are those of the unit tests.
include kunit/objects.mk

sim-code := $(sort $(wildcard selftests/sim/*.cc))
# libFuzzer's own main() calls it. Only the module is instrumented: what the simulation does is no news.
ifdef GUIDED
sim-code := $(filter-out selftests/sim/main.cc,$(sim-code)) selftests/sim/guided/guided.cc
instrument := -fsanitize=fuzzer-no-link -fno-sanitize-coverage=stack-depth
fuzzer := -fsanitize=fuzzer
endif
# The fast build takes the module as the kernel does: as one translation unit, compiled as a whole.
sim-objects := $(patsubst %.cc,$(objects)/%.o,$(if $(FAST)$(PREEMPT),$(objects)/unity.cc,$(unit-code)) $(sim-code))
sim-objects := $(patsubst $(objects)/$(objects)/%,$(objects)/%,$(sim-objects))

.PHONY: run build both long guided FORCE

program := build/sim/$(if $(SEAMS),seams,$(if $(GUIDED),guided,sim))$(if $(FAST),$(if $(GUIDED),,-fast))$(if $(PREEMPT),-preempt)$(if $(PAGE),-$(PAGE))$(if $(BIG_ENDIAN),-big-endian)
# Both builds are there for what is shipped; of the others one is enough.
alone := $(SEAMS)$(FAST)$(PREEMPT)$(PAGE)$(BIG_ENDIAN)

build: $(program)

both: build
	@MAKEFLAGS= $(MAKE) -s -f selftests/sim/sim.mk CXX=$(CXX) FAST=1 build

ifneq ($(alone)$(filter 0,$(RANDOM)),)
run: build
	@$(if $(BIG_ENDIAN),qemu-s390x-static) $(program) --first $(FIRST) --seeds $(SEEDS)
else
run: both
	@selftests/sim/seeds run --first $(FIRST) --seeds $(SEEDS) --random $(RANDOM) \
		$(if $(RANDOM_FIRST),--random-first $(RANDOM_FIRST))
endif

long: both
	@selftests/sim/seeds long --hours $(HOURS)

guided: both
	@MAKEFLAGS= $(MAKE) -s -f selftests/sim/sim.mk CXX=clang++-19 FAST=1 GUIDED=1 build
	@selftests/sim/guide $(if $(TIME),--seconds $(TIME))

$(objects)/sim: $(sim-objects)
	@echo "  LINK    $@"
	@$(CXX) $(sanitize) $(fuzzer) $(if $(BIG_ENDIAN),-static) -o $@ $^

# The name without the compiler is the one that was built last.
$(program): $(objects)/sim FORCE
	@mkdir -p $(@D) && ln -sfn ../../$< $@

$(objects)/selftests/sim/%.o: selftests/sim/%.cc kunit/objects.mk
	$(call compile,$(seams) $(if $(PAGE),-DSIM_PAGE_SIZE=$(PAGE)) $(if $(PREEMPT),-DSIM_PREEMPT))

$(objects)/unity.cc: $(unit-code) selftests/sim/sim.mk
	@mkdir -p $(@D) && printf '#include "%s"\n' $(unit-code) >$@

$(objects)/unity.o: $(objects)/unity.cc kunit/objects.mk
	$(call compile,$(ours) $(instrument))

-include $(sim-objects:.o=.d)
