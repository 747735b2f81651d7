# SPDX-License-Identifier: GPL-2.0-only
#
# What every fuzz target is linked with, besides itself, the module's code and what calls it: fuzz.mk, and
# selftests/coverage/coverage.mk.

# The simulation, without its own cast.
fuzz-helpers := kunit/testing.cc kunit/host_text.cc \
	$(filter-out selftests/sim/main.cc selftests/sim/scenario.cc,$(sort $(wildcard selftests/sim/*.cc)))
