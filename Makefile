# SPDX-License-Identifier: GPL-2.0-only
#
# The front door: every task of the project by one name. `make help` lists them. What a task does is
# in scripts/; how the module is compiled is in Kbuild.
#
# This is no kbuild file: kbuild reads Kbuild, in a mirror of this tree under build/.

# Which kernel: 6.12, 6.1, and of Debian 13's backports 7.2 and 7.3, are Debian's newest of that series, fetched
# when missing; 6.12+deb13 is Debian 13's own; an exact release works too; KDIR names any other build folder.
KVER ?= 6.12
# Compiler of the C++ half. The C half is compiled by the kernel's own, and this one must not be older:
# for kernels of Debian 13 and its backports, which are built for in its user land, it is g++-14.
kcxx = $(shell scripts/kernels compiler $(KVER))
KCXX ?= $(kcxx)
# What a kernel of another Debian, or of arm64, takes beside.
groups = $(if $(KDIR),,$(if $(filter g++-12,$(kcxx)),,userland))
# Where install puts its files; for packages and tests.
DESTDIR ?=

MAKEFLAGS += --no-print-directory
SHELL := /bin/bash

# One folder for each kernel and compiler: two builds never share a product.
out = build/$(if $(KDIR),$(subst /,_,$(patsubst /%,%,$(abspath $(KDIR)))),$(KVER))-$(notdir $(KCXX))
build = kdir=$(if $(KDIR),$(KDIR),$$(scripts/kernels headers $(KVER))) && \
	scripts/build-module . "$$kdir" $(out) KCXX=$(KCXX) $(if $(V),V=$(V))

.PHONY: help
help: ## this list
	@echo "make TARGET [KVER=6.12|6.1|7.3|RELEASE] [KDIR=FOLDER] [KCXX=g++-12|clang++-19]"
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo; echo "Scripts, and the folders behind them (Documentation/scripts.rst):"
	@sed -nE '/^``(scripts|selftests)/ { s/^/  /; s/``//g; p }' Documentation/scripts.rst

# --- the two commands of the README ---

.PHONY: demo
demo: ## real files over NFS/RDMA between two virtual machines, every byte compared
	@scripts/setup build vm
	@$(build)
	@[ $(KVER) = 6.12 ] || $(MAKE) module KVER=6.12	# the server's
	@scripts/demo --kernel $(KVER)

.PHONY: quick
quick: ## within a minute: unity, host tests, 500 seeds (SEEDS=), style of what is not committed
	@scripts/setup host style
	@scripts/compile-commands 2>/dev/null
	@SEEDS=$(SEEDS) scripts/check --quick

.PHONY: check
check: ## every check; STEPS="host install" runs only these; KVER=7.3 those that depend on the kernel, on that one
	@began=$$(date +%s); \
	scripts/setup build host fuzz uml vm wire golden interop bench style docs deb models $(groups) $(if $(findstring arm64,$(KVER)),arm64) && \
	CHECK_BEGAN=$${CHECK_BEGAN:-$$began} scripts/check $(STEPS)	# what is fetched takes of its time

# --- the module ---

.PHONY: module
module: ## rpcordma.ko for KVER (or KDIR), compiled by KCXX
	@scripts/setup build $(groups)
	@$(build)
	@scripts/compile-commands $(out)

.PHONY: compile-commands
compile-commands: module ## build/compile_commands.json for clangd, of this kernel's C and all C++; module and quick do it, too

.PHONY: check-objects
check-objects: ## builds from nothing for KVER and KCXX, and proves what the kernel demands of objects
	@scripts/setup build $(groups)
	@scripts/check-module $(KVER) $(KCXX)

# Without KVER, KDIR or DESTDIR these mean the kernel that runs. KO= installs one that is built.
ifeq ($(origin KVER)$(KDIR)$(DESTDIR),file)
install uninstall: KDIR := /lib/modules/$(shell uname -r)/build
release = $$(uname -r)
else ifneq ($(KDIR),)
release = $$(env -u MAKEFLAGS make -s --no-print-directory -C $(KDIR) kernelrelease)
else
release = $$(scripts/kernels release $(KVER))
endif

.PHONY: install
install: ## rpcordma.ko, and the in-tree transport's names for it, for the running kernel or KVER (DESTDIR works)
	@scripts/setup build
	@set -e; ko=$(KO); [ -n "$$ko" ] || ko=$$($(build)); \
	scripts/install-module install "$$ko" "$(release)" "$(DESTDIR)"

.PHONY: uninstall
uninstall: ## takes back what install did
	@scripts/install-module uninstall "$(release)" "$(DESTDIR)"

# --- packages ---

.PHONY: deb
deb: ## the Debian package rpcordma-dkms, into build/deb
	@scripts/setup deb
	@set -e; debs=$$(scripts/build-deb); lintian --allow-root --display-info --fail-on error,warning $$debs; echo "$$debs"

.PHONY: deb-check
deb-check: ## the package in clean Debian 13 and 12 systems: installed, upgraded, removed, after failures; SUITES=trixie
	@scripts/setup deb roots
	@scripts/check-deb $(SUITES)

.PHONY: debian-system
debian-system: ## the package as users meet it: two virtual machines with a whole Debian 13, over upgrades and reboots; hours
	@scripts/setup deb roots vm build
	@scripts/debian-system $(if $(COMPILE_INSIDE),--compile-inside)

# Wireshark's own folder of plugins, the user's or with DESTDIR the system's; TO= names any other.
dissector = tools/wireshark/rpcordma2.lua
plugins = $(if $(TO),$(TO),$(if $(DESTDIR),$(DESTDIR)$$(tshark -G folders 2>/dev/null | sed -n 's/^Global Lua Plugins:[[:space:]]*//p'),$\
	$$(tshark -G folders 2>/dev/null | sed -n 's/^Personal Lua Plugins:[[:space:]]*//p')))

.PHONY: install-dissector
install-dissector: ## version 2 for Wireshark and tshark, as a plugin of this user; TO=folder, DESTDIR=root
	@set -e; to="$(plugins)"; [ -n "$$to" ] && [ "$$to" != "$(DESTDIR)" ] || \
		{ echo "install-dissector: tshark does not say where its plugins are; TO=folder does" >&2; exit 1; }; \
	install -D -m 644 $(dissector) "$$to/$(notdir $(dissector))"; \
	echo "installed $$to/$(notdir $(dissector)); make uninstall-dissector, with the same TO= and DESTDIR=, takes it back"

.PHONY: uninstall-dissector
uninstall-dissector: ## takes back what install-dissector did
	@rm -vf "$(plugins)/$(notdir $(dissector))"

# The command rpcordma: its files in a folder of their own, which a link in sbin leads to; scripts for bpftrace beside them.
PREFIX ?= /usr/local
tool_files = rpcordma status.schema.json $(patsubst tools/rpcordma/%,%,$(wildcard tools/rpcordma/rpcordmatool/*.py))
tool_home = $(DESTDIR)$(PREFIX)/share/rpcordma
tool_link = $(DESTDIR)$(PREFIX)/sbin/rpcordma
tool_completion = $(DESTDIR)$(PREFIX)/share/bash-completion/completions/rpcordma
# Sections of the manual: rpcordma(8) is of the command, rpcordma(4) of the module.
MAN_SECTIONS ?= 8 4
man_home = $(DESTDIR)$(PREFIX)/share/man

.PHONY: install-tools
install-tools: install-man ## the command rpcordma, scripts for bpftrace, man pages, completion, for all users; PREFIX=/usr/local, DESTDIR=root
	@set -e; for f in $(tool_files); do \
		mode=644; [ $$f != rpcordma ] || mode=755; install -D -m $$mode tools/rpcordma/$$f "$(tool_home)/$$f"; done
	@set -e; for f in tools/bpftrace/*.bt; do install -D -m 644 $$f "$(tool_home)/bpftrace/$${f##*/}"; done
	@install -D -m 644 tools/rpcordma/rpcordma.bash-completion "$(tool_completion)"
	@mkdir -p "$(dir $(tool_link))"; ln -sfn ../share/rpcordma/rpcordma "$(tool_link)"
	@echo "installed $(tool_link); make uninstall-tools, with the same PREFIX= and DESTDIR=, takes it back"

.PHONY: install-man
install-man:
	@if command -v sphinx-build >/dev/null; then $(MAKE) -s man && for n in $(MAN_SECTIONS); do \
		install -D -m 644 build/man/rpcordma.$$n "$(man_home)/man$$n/rpcordma.$$n" || exit 1; done; \
	else echo "install-tools: without the man pages, as there is no sphinx-build: apt install python3-sphinx" >&2; fi

.PHONY: uninstall-tools
uninstall-tools: ## takes back what install-tools did
	@rm -rf "$(tool_home)"; rm -vf "$(tool_link)" "$(tool_completion)" $(foreach n,$(MAN_SECTIONS),"$(man_home)/man$n/rpcordma.$n")

.PHONY: man
man: build/man/rpcordma.8 build/man/rpcordma.4 ## rpcordma(8) and rpcordma(4), by Sphinx, in build/man

build/man/rpcordma.8 build/man/rpcordma.4 &: $(wildcard Documentation/man/*) Documentation/reference.rst
	@sphinx-build -q -W -b man -c Documentation/man Documentation/man build/man

.PHONY: tools-check
tools-check: ## the command rpcordma over files that kernels printed; a step of check as well
	@scripts/setup docs
	@selftests/tools/check

# --- single checks ---

.PHONY: host-test
host-test: ## unit tests on this machine, under ASan and UBSan; FILTER=glob
	@scripts/setup host
	@$(MAKE) -s -f kunit/host.mk $(if $(FILTER),FILTER='$(FILTER)')

.PHONY: coverage
coverage: ## lines that unit tests, simulation and fuzz corpus run, by file; and those that none runs
	@scripts/setup host
	@scripts/coverage

.PHONY: fuzz
fuzz: ## the fuzz targets, one after the other, for TIME seconds together (300)
	@scripts/setup fuzz
	@scripts/fuzz --seconds $$(($(or $(TIME),300) / $(words $(wildcard selftests/fuzz/target_*.cc))))

.PHONY: fuzz-long
fuzz-long: ## that without sanitizers, TIME=3600 seconds together, then what is new under them; TARGETS="v1 requester"
	@scripts/setup fuzz
	@scripts/fuzz --long $$(($(or $(TIME),3600) / \
		$(words $(or $(TARGETS),$(wildcard selftests/fuzz/target_*.cc))))) $(TARGETS)

.PHONY: fuzz-self-test
fuzz-self-test: ## what is fuzzed, broken on purpose: does each target notice? TARGETS="v1 requester"
	@scripts/setup fuzz
	@scripts/fuzz --self-test 20000 $(TARGETS)

.PHONY: crosscheck
crosscheck: ## version 2's codec beside the one that rpcgen makes of the drafts' XDR; how fast each is
	@scripts/setup bench
	@scripts/crosscheck
	@scripts/crosscheck --speed

.PHONY: sim
sim: ## client and server against a simulated fabric, one random history for each seed; SEEDS=10000 FIRST=1 RANDOM=20000
	@scripts/setup host
	@$(MAKE) -s -f selftests/sim/sim.mk $(if $(SEEDS),SEEDS=$(SEEDS)) $(if $(FIRST),FIRST=$(FIRST))

.PHONY: sim-long
sim-long: ## that for HOURS on all CPUs, from a random seed on, without sanitizers; what fails is run again under them
	@scripts/setup host
	@$(MAKE) -s -f selftests/sim/sim.mk long $(if $(HOURS),HOURS=$(HOURS))

.PHONY: sim-guided
sim-guided: ## histories that coverage leads to, for TIME=60 seconds; what fails is shrunk
	@scripts/setup fuzz
	@$(MAKE) -s -f selftests/sim/sim.mk guided $(if $(TIME),TIME=$(TIME))

.PHONY: sim-preempt
sim-preempt: ## that with the module interrupted anywhere, not at calls of the port alone; SEEDS=2000 FIRST=1
	@scripts/setup host
	@$(MAKE) -s -f selftests/sim/sim.mk PREEMPT=1 SEEDS=$(or $(SEEDS),2000) $(if $(FIRST),FIRST=$(FIRST))

.PHONY: sim-reach
sim-reach: ## code of the module that no seed of 10000 runs, and that has no reason for that; WRITE=1 the table of the page
	@scripts/setup host
	@scripts/coverage --sim $(if $(WRITE),--write)

.PHONY: states
states: ## all states of the machines that choose the version and count what goes beyond the credits
	@scripts/setup host
	@$(MAKE) -s -f selftests/states/states.mk

.PHONY: states-self-test
states-self-test: ## planted bugs in these machines, each to be found
	@scripts/setup host
	@selftests/states/self-test

.PHONY: models
models: ## the handshakes on C++ atomics, in all histories that a weak memory model allows; and weakened, each to be found
	@scripts/setup models
	@selftests/models/run
	@selftests/models/run --self-test

.PHONY: big-endian
big-endian: ## unit tests, golden messages and 200 seeds (SEEDS=) on an emulated big-endian machine, s390x
	@scripts/setup big-endian
	@scripts/big-endian $(SEEDS)

.PHONY: sim-mutants
sim-mutants: ## planted bugs, each to be found by the simulation within 10000 seeds
	@scripts/setup host
	@selftests/sim/mutants/run

.PHONY: mutants
mutants: ## would the tests on this machine notice? Faults planted at random in module/ and xdr/; SEED=1 COUNT=100
	@scripts/setup host
	@scripts/mutants $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT))

.PHONY: kunit
kunit: ## the same unit tests in a user mode Linux kernel with KASAN and lockdep; FILTER=glob
	@scripts/setup uml
	@scripts/uml-kunit $(if $(FILTER),'$(FILTER)')

.PHONY: kunit-compat
kunit-compat: ## KUnit suites of compat/linux alone, in such a kernel; and which of its calls of the kernel's can fail
	@scripts/setup uml
	@scripts/kunit-compat

.PHONY: kunit-compat-mutants
kunit-compat-mutants: ## do those suites find the bugs that are planted in compat/linux for them?
	@scripts/setup uml
	@scripts/kunit-compat mutants

.PHONY: kunit-compat-faults
kunit-compat-faults: ## one call of compat/linux after the other fails, both ends in one such kernel; MINUTES=60, ALL=1
	@scripts/setup uml
	@scripts/kunit-compat faults $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ALL),--all)

.PHONY: kunit-vng
kunit-vng: ## the same under virtme-ng, on an x86 kernel with lockdep, and NFS over rxe there; FILTER=glob
	@scripts/setup build uml vng
	@scripts/vng-kunit $(if $(FILTER),'$(FILTER)')

.PHONY: vm-check
vm-check: ## the tests between virtual machines; TESTS="server replay", SLOW=1 with those that take minutes
	@scripts/setup build vm interop wire
	@$(build)
	@VM_SLOW=$(filter-out 0,$(or $(SLOW),$(VM_SLOW))) scripts/vm-check $(TESTS)

.PHONY: vm-slow
vm-slow: ## those of the tests between virtual machines that make check leaves out, an hour; TESTS=
	@scripts/setup build vm interop wire tracing
	@$(build)
	@scripts/vm-check --slow $(TESTS)

.PHONY: wire-golden
wire-golden: ## is what two revisions put on the wire equal? BASE=newest tag, AFTER=working tree, CELLS="v3 in-tree*"
	@scripts/setup build uml
	@set -f; scripts/wire-golden $(if $(BASE),--base $(BASE)) $(if $(AFTER),--after $(AFTER)) $(if $(CELLS),--cells $(CELLS))

.PHONY: golden-self-test
golden-self-test: ## mistakes in copies of these messages, the XDR, the dissector and the codec: each has to be found
	@scripts/setup golden
	@selftests/golden/check --self-test

.PHONY: golden
golden: ## messages of version 2 in hexadecimal, read by rpcgen's code, our codec, and Wireshark
	@scripts/setup golden
	@selftests/golden/check

.PHONY: load
load: ## verified I/O while a connection is dropped every second: five minutes, or SECONDS=; KERNEL=lockdep|kcsan
	@scripts/setup build vm interop $(if $(filter lockdep kcsan,$(KERNEL)),uml)
	@scripts/load --seconds $(or $(SECONDS),$(if $(filter lockdep kcsan,$(KERNEL)),60,300)) \
		$(if $(KERNEL),--kernel $(KERNEL))

.PHONY: endurance
endurance: ## is memory flat over 24 hours of verified work? In virtual time, which takes minutes; HOURS=24
	@scripts/setup build uml
	@scripts/endurance virtual $(if $(HOURS),--hours $(HOURS))

.PHONY: endurance-real
endurance-real: ## the same between two machines over soft RoCE, for two hours of real time; HOURS=2
	@scripts/setup build vm
	@$(build)
	@scripts/endurance real $(if $(HOURS),--hours $(HOURS))

.PHONY: hca
hca: ## NFS over a virtual RDMA device that does DMA: every preset, drops, removals, ...; KERNEL=hca ONLY="smoke late" TIMES=100
	@scripts/setup build vm $(if $(filter hca,$(KERNEL)),uml)
	@scripts/hca $(if $(KERNEL),--kernel $(KERNEL)) $(if $(ONLY),--only "$(ONLY)") $(if $(TIMES),--times $(TIMES))

.PHONY: hca-mutants
hca-mutants: ## the virtual RDMA device with one rule less, one at a time: is each missed? MUTANTS="any-key any-pd"
	@scripts/setup build vm
	@selftests/hca/mutants/run $(MUTANTS)

.PHONY: faults
faults: ## what may happen to client, server and network, with each NFS version, idle and under load; ONLY="power link" RESUME=1
	@scripts/setup build vm
	@scripts/faults $(if $(ONLY),--only "$(ONLY)") $(if $(RESUME),--resume)

.PHONY: kernels
kernels: ## which kernels and compilers: builds for each, NFS on each with ours at both ends or either; KERNELS="7.3 6.12:clang++-19"
	@scripts/setup build vm userland arm64
	@scripts/kernel-matrix $(KERNELS)

.PHONY: compilers
compilers: ## builds with each C++ compiler, g++ 12 to 16 and clang++ 16 to 23, in the Debian that has it; COMPILERS="7.3:g++-16:sid"
	@scripts/setup build userland
	@scripts/kernel-matrix --compilers $(COMPILERS)

.PHONY: interop
interop: ## every pairing with the in-tree transport, NFS versions, Kerberos; CELLS="..." RESUME=1 JOBS=2
	@scripts/setup build vm interop userland
	@scripts/interop

bench_options = $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)")

.PHONY: bench
bench: ## beside the in-tree transport and rpcgen, in turn: codec, counts, ...; PART=counts ROUNDS= ONLY="READ 1 MiB"
	@scripts/setup bench build vm uml
	@scripts/bench $(PART) $(bench_options)

.PHONY: bench-full
bench-full: ## the same, with what takes too long for every day
	@scripts/setup bench build vm uml
	@scripts/bench $(PART) $(bench_options) --full

.PHONY: bench-plot
bench-plot: ## plots of the newest runs, as SVG; TO=folder
	@scripts/setup bench
	@scripts/bench plot $(if $(TO),--to '$(TO)')

.PHONY: style
style: ## licences, formatting of C++ and C, clang-tidy; a step of check as well
	@scripts/setup style
	@scripts/check-style

# --- the rest ---

.PHONY: docs
docs: ## Documentation/ as HTML under build/docs, by Sphinx, with its pictures and plots
	@scripts/setup docs
	@rm -rf build/docs
	@sphinx-build -q -W -b html Documentation build/docs
	@echo "build/docs/index.html"

.PHONY: docs-check
docs-check: ## these pages: nothing from the network, true pictures, and in a browser at 400 and 1300 pixels
	@scripts/setup docs browser
	@selftests/docs/check --browser

.PHONY: docs-check-self-test
docs-check-self-test: ## a fault of each kind in a small site, each to be found
	@scripts/setup docs browser
	@selftests/docs/check --self-test

.PHONY: docs-screens
docs-screens: ## screenshots of every page at 400 and 1300 pixels; TO=folder
	@scripts/setup docs browser
	@selftests/docs/check --screens "$(or $(TO),build/docs-screens)"

.PHONY: clean
clean: ## removes what was built; fetched kernel packages stay (build/kernels)
	@if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name kernels -exec rm -rf {} +; fi

.PHONY: distclean
distclean: ## removes build/ altogether
	@rm -rf build
