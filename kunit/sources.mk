# SPDX-License-Identifier: GPL-2.0-only
#
# What the unit tests are made of, for both builds: host.mk and Kbuild. Paths are relative to the
# repository's root; RPCORDMA_ROOT is where that root is, with a slash at the end.
#
# Everything under test must link against the tests alone: no port function may be needed but those
# that kunit/test_rdma_port*.cc double.
# Whole folders are under test by default; single files of other folders are named.

unit-tests := $(sort $(patsubst $(RPCORDMA_ROOT)%,%,$(wildcard $(RPCORDMA_ROOT)kunit/test_*.cc)))
unit-folders := xdr module/base module/chunk module/protocol module/rdma module/client module/server
unit-files :=
unit-code := $(sort $(patsubst $(RPCORDMA_ROOT)%,%,\
	$(wildcard $(foreach d,$(unit-folders),$(RPCORDMA_ROOT)$(d)/*.cc))) $(unit-files))

# One line for each suite that a test file ends with.
unit-suites-sed := s/^[[:space:]]*RPCORDMA_SUITE(\([A-Za-z0-9_]*\).*/RPCORDMA_LIST_SUITE(\1)/p

# Of what a sanitizer puts into a test of a thousand lines the optimiser takes longer than that test runs, so tests are
# compiled without it. Of use it is for what all tests of an end go through, and where each message of a small world is
# tried.
unit-optimised := $(filter kunit/test_rdma_port% %_sweep.cc %_small.cc,$(unit-tests))
