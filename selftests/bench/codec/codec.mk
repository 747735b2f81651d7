# SPDX-License-Identifier: GPL-2.0-only
#
# The benchmark of header codecs, from the repository's root: make -f selftests/bench/codec/codec.mk
# builds build/bench/codec. scripts/bench codec runs it.

CXX := $(if $(filter default,$(origin CXX)),g++-12,$(CXX))
CC := $(if $(filter default,$(origin CC)),gcc-12,$(CC))
BUILD ?= build/bench
here := selftests/bench/codec
# One name for each file, however it is asked for: the dependency files have it.
program := $(abspath $(BUILD)/codec)
made := $(program).d

# Ours: as scripts/kbuild/cxx.mk has it from Debian's 6.12 kernel on x86-64, by name, as a user-space
# program has no kbuild. Not taken: the kernel's code model, which does not link here; -pg, whose calls are
# nops in a kernel that traces nothing; retpolines and return thunks, which are what they stand for where the
# processor does not need them.
ours := -std=gnu++17 -O2 -ffreestanding -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-strict-aliasing \
	-fno-strict-overflow -fno-delete-null-pointer-checks -fno-common -fno-PIE -funsigned-char \
	-fno-asynchronous-unwind-tables -fstack-protector-strong
ours += $(if $(findstring clang,$(CXX)),,-fconserve-stack -fno-allow-store-data-races)
ours += $(if $(filter x86_64,$(shell uname -m)),-mno-sse -mno-mmx -mno-sse2 -mno-3dnow -mno-avx -mno-red-zone \
	-fcf-protection=branch -fno-jump-tables -ftrivial-auto-var-init=zero -falign-functions=16 -mtune=generic)
warn := -Wall -Wextra -Werror
# rpcgen's: as a user-space program is. -i 1 has it put inline whatever it can.
tirpc := -I/usr/include/tirpc

.DELETE_ON_ERROR:
.PHONY: all
all: $(program)

$(program): $(made)/main.o $(made)/ours.o $(made)/rpcgen.o $(made)/rpcrdma_v1.o
	@$(CXX) -no-pie -Wl,-z,now -o $@ $^ -lbenchmark -ltirpc -lpthread

$(made)/ours.o: $(here)/ours.cc
	@mkdir -p $(@D) && $(CXX) $(ours) $(warn) -g -I. -MMD -c -o $@ $<

$(made)/main.o: $(here)/main.cc
	@mkdir -p $(@D) && $(CXX) -std=gnu++17 -O2 -g -fno-PIE $(warn) -I. -MMD -c -o $@ $<

$(made)/rpcgen.o: $(here)/rpcgen.c $(made)/rpcrdma_v1.h
	@$(CC) -std=gnu11 -O2 -g -fno-PIE $(warn) -I. -I$(made) $(tirpc) -MMD -c -o $@ $<

# Generated code has variables that nothing uses.
$(made)/rpcrdma_v1.o: $(made)/rpcrdma_v1.c $(made)/rpcrdma_v1.h
	@$(CC) -O2 -g -fno-PIE -I$(made) $(tirpc) -c -o $@ $<

# rpcgen does not overwrite, and names the header after the path that it is given.
$(made)/rpcrdma_v1.h $(made)/rpcrdma_v1.c: $(made)/rpcrdma_v1.%: $(here)/rpcrdma_v1.x
	@mkdir -p $(@D) && cp $< $(made)/rpcrdma_v1.x && rm -f $@
	@cd $(made) && rpcgen -i 1 $(if $(filter h,$*),-h,-c) -o rpcrdma_v1.$* rpcrdma_v1.x

-include $(wildcard $(made)/*.d)
