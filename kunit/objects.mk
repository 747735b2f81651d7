# SPDX-License-Identifier: GPL-2.0-only
#
# How tests on the host are compiled, and the code under test with them: once, under ASan and UBSan, for the unit
# tests (host.mk) and for the simulation (selftests/sim/sim.mk). Read from the repository's root.
#
#	$(objects)/FILE.o	comes from FILE.cc, for xdr/ and module/; others have rules of their own
#	CXX=clang++		another compiler, with objects of its own
#	SEAMS=1			with a version of the protocol that is there for tests alone (kunit/seams/version.hh), and that
#				both ends prefer; with objects of its own
#	FAST=1			with the optimiser and without sanitizers, several times as fast; with objects of its own
#	PREEMPT=1		with the module under calls at each access to memory, which selftests/sim/preempt.cc takes; with objects
#				of its own
#	PAGE=65536		with pages of so many bytes, where a test makes them itself; with objects of its own
#	GUIDED=1		with marks that say which code has run, for libFuzzer (clang++); with objects of its own
#	BIG_ENDIAN=1		for s390x, a machine with the other order of bytes, without sanitizers (scripts/big-endian);
#				with objects of its own
#
# As many compilations at a time as there are CPUs, unless make is told with -j.

RPCORDMA_ROOT := ./
include kunit/sources.mk

ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif

CXX := $(if $(filter default,$(origin CXX)),$(if $(BIG_ENDIAN),s390x-linux-gnu-)g++-12,$(CXX))
cxx-name := $(notdir $(CXX))
# One folder for each way to compile, so that changing the way rebuilds nothing else.
objects := build/host/$(cxx-name)$(if $(SEAMS),-seams)$(if $(FAST),-fast)$(if $(PREEMPT),-preempt)$(if $(PAGE),-$(PAGE))$(if $(GUIDED),-guided)

sanitize := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# vptr checks need RTTI, which our code has not.
sanitize += -fno-sanitize=vptr
# Under qemu-user there is no room for ASan's shadow.
sanitize := $(if $(BIG_ENDIAN)$(FAST),,$(sanitize))
common := -std=gnu++17 $(if $(BIG_ENDIAN),-g0,-g) $(if $(FAST)$(PREEMPT),-O2,-O1) -I. -Wall -Wextra -Werror -fno-strict-aliasing $(sanitize)
# Our own code is compiled as in the kernel: no exceptions, no RTTI, no static constructors to rely on.
seams := $(if $(SEAMS),-DRPCORDMA_TEST_VERSION='"kunit/seams/version.hh"')
interruptible := $(if $(PREEMPT),-fno-sanitize=all -fsanitize=thread --param tsan-instrument-func-entry-exit=0 -Wno-tsan)
ours := $(seams) $(interruptible) -fno-exceptions -fno-rtti -fno-threadsafe-statics $(if $(findstring clang,$(cxx-name)),,-Wno-psabi)

# $(call compile,FLAGS): two builds at once may make the same object; either sees it whole.
define compile
@echo "  CXX     $<"
@mkdir -p $(@D) && $(CXX) $(common) -MMD -MP -MF $(@:.o=.d) -MT $@ $(1) -c -o $@.$$$$ $< && \
	mv $@.$$$$ $@ || { rm -f $@.$$$$; exit 1; }
endef

# A failed recipe leaves no half-made target behind.
.DELETE_ON_ERROR:

# Made anew when the way to compile changes, as are those of the tests.
$(objects)/xdr/%.o: xdr/%.cc kunit/objects.mk
	$(call compile,$(ours))

$(objects)/module/%.o: module/%.cc kunit/objects.mk
	$(call compile,$(ours))

# For scripts/compile-commands: of our own code, and of other C++.
.PHONY: our-flags other-flags
our-flags other-flags:
	@echo $(filter-out $(sanitize) -Werror,$(common) $(if $(filter our-%,$@),$(ours)))
