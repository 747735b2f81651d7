# SPDX-License-Identifier: GPL-2.0-only
#
# The program of the verbs tests, from the repository's root: make -f selftests/verbs/verbs.mk
#
# It runs in a virtual machine (scripts/vm-check hostile), with the shared libraries of this one; the
# codecs of xdr/ are compiled into it as they are for the module's unit tests on the host.
#
# For a machine of another architecture CXX is a cross compiler, SYSROOT has rdma-core for it, and TRIPLET is its name.

CXX := $(if $(filter default,$(origin CXX)),g++-12,$(CXX))
BUILD ?= build/verbs
SYSROOT ?=
TRIPLET ?=
comma := ,
libraries := $(SYSROOT)/usr/lib/$(TRIPLET)

flags := -std=gnu++17 -O1 -g -I. -Wall -Wextra -Werror -Wno-psabi -MMD -MP $(if $(SYSROOT),-idirafter $(SYSROOT)/usr/include)
ours := -fno-exceptions -fno-rtti -fno-strict-aliasing
objects := $(patsubst %.cc,$(BUILD)/%.o,$(wildcard selftests/verbs/*.cc xdr/*.cc))

.DEFAULT_GOAL := $(BUILD)/verbspeer
.DELETE_ON_ERROR:

$(BUILD)/verbspeer: $(objects)
	@echo "  LINK    $@"
	@$(CXX) -static-libstdc++ -static-libgcc -pthread -o $@ $^ \
		$(if $(SYSROOT),-L$(libraries) -Wl$(comma)-rpath-link$(comma)$(libraries)) -lrdmacm -libverbs

$(BUILD)/xdr/%.o: xdr/%.cc
	@echo "  CXX     $<"
	@mkdir -p $(@D) && $(CXX) $(flags) $(ours) -c -o $@ $<

$(BUILD)/selftests/verbs/%.o: selftests/verbs/%.cc | rdma-core
	@echo "  CXX     $<"
	@mkdir -p $(@D) && $(CXX) $(flags) -c -o $@ $<

.PHONY: rdma-core
rdma-core:
	@[ -e $(SYSROOT)/usr/include/rdma/rdma_cma.h ] && [ -e $(SYSROOT)/usr/include/infiniband/verbs.h ] || \
		{ echo "librdmacm-dev and libibverbs-dev are missing: run scripts/setup vm" >&2; exit 1; }

-include $(objects:.o=.d)
