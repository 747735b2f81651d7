# SPDX-License-Identifier: GPL-2.0-only
#
# The front door: every task of the project by one name. `make help` lists them. What a task does is
# in scripts/; how the module is compiled is in Kbuild.
#
# This is no kbuild file: kbuild reads Kbuild, in a mirror of this tree under build/.

# Which kernel: 6.12 and 6.1 are Debian's newest of that series, fetched when missing; an exact
# release works too; KDIR names any other build folder.
KVER ?= 6.12
# Compiler of the C++ half. The C half is compiled by the kernel's own.
KCXX ?= g++-12
# Where install puts its files; for packages and tests.
DESTDIR ?=

MAKEFLAGS += --no-print-directory
SHELL := /bin/bash

kdir = $(if $(KDIR),$(KDIR),$$(scripts/kernels headers $(KVER)))
# One folder for each kernel and compiler: two builds never share a product.
out = build/$(if $(KDIR),$(subst /,_,$(patsubst /%,%,$(KDIR))),$(KVER))-$(notdir $(KCXX))

.PHONY: help
help: ## this list
	@echo "make TARGET [KVER=6.12|6.1|RELEASE] [KDIR=FOLDER] [KCXX=g++-12|clang++-19]"
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: module
module: ## rpcordma.ko for KVER (or KDIR), compiled by KCXX
	@scripts/setup build
	@scripts/build-module . "$(kdir)" $(out) KCXX=$(KCXX) $(if $(V),V=$(V))

.PHONY: clean
clean: ## removes what was built; keeps fetched kernels (clean-all removes those too)
	@if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name kernels -exec rm -rf {} +; fi

.PHONY: clean-all
clean-all: ## removes build/ altogether
	rm -rf build
