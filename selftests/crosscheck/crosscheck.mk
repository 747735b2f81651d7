# SPDX-License-Identifier: GPL-2.0-only
#
# The cross-check of the version 2 codec with rpcgen's, from the repository's root: make -f
# selftests/crosscheck/crosscheck.mk builds build/crosscheck/crosscheck. scripts/crosscheck runs it.
# CODE is where xdr/ and module/ are: a copy that something is broken in, for the self-test.

CXX := $(if $(filter default,$(origin CXX)),g++-12,$(CXX))
CC := $(if $(filter default,$(origin CC)),gcc-12,$(CC))
BUILD ?= build/crosscheck
CODE ?= .
here := selftests/crosscheck
texts := selftests/bench/codec
generated := $(BUILD)/rpcgen
program := $(BUILD)/crosscheck
ours := $(patsubst $(CODE)/%.cc,$(BUILD)/%.o,$(wildcard $(CODE)/xdr/*.cc))
names := version-two-03 rtrext-01

# Both with -O2: their speeds are compared. Ours is not held to what a kernel has besides (selftests/bench/codec/).
cxx := -std=gnu++17 -O2 -g -fno-exceptions -fno-rtti -fno-strict-aliasing -Wall -Wextra -Werror -I$(CODE) -MMD -MP
tirpc := -isystem /usr/include/tirpc

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all
all: $(program)

$(program): $(BUILD)/main.o $(ours) $(names:%=$(generated)/%.o)
	@$(CXX) -o $@ $^ -ltirpc

$(BUILD)/xdr/%.o: $(CODE)/xdr/%.cc
	@mkdir -p $(@D) && $(CXX) $(cxx) -c -o $@ $<

# Generated headers are nobody's to warn of.
$(BUILD)/main.o: $(here)/main.cc $(names:%=$(generated)/%.h)
	@mkdir -p $(@D) && $(CXX) $(cxx) -isystem $(generated) $(tirpc) -c -o $@ $<

$(generated)/%.o: $(generated)/%.c $(names:%=$(generated)/%.h)
	@$(CC) -O2 -g -w -I$(generated) $(tirpc) -c -o $@ $<

# rpcgen does not overwrite, and names the header after the path that it is given.
$(generated)/%.h: $(texts)/%.x
	@mkdir -p $(@D) && cp $< $(@D) && rm -f $@ && cd $(@D) && rpcgen -h -o $(@F) $*.x
$(generated)/%.c: $(texts)/%.x
	@mkdir -p $(@D) && cp $< $(@D) && rm -f $@ && cd $(@D) && rpcgen -c -o $(@F) $*.x

-include $(wildcard $(BUILD)/*.d $(BUILD)/xdr/*.d)
