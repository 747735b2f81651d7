# SPDX-License-Identifier: GPL-2.0-only
#
# How a Kbuild file of this project compiles its sources. A Kbuild sets rpcordma-root to the top of
# the mirrored tree and includes this file; then $(obj)/NAME.o may come from NAME.cc, and includes
# are written from the top, "module/base/result.hh".
#
# Every code generation flag comes from the kernel's own C flags: they differ between architectures,
# configurations and releases (red zone, code model, SSE, thunks, endbr, guards, padding), and one
# that is missing shows as a crash long afterwards. What a C++ compiler refuses is taken away by
# name, some of it only after asking the compiler; whatever is new in a later kernel therefore breaks
# the build instead of being lost.
#
# Not here: which files belong to a module, and where the kernel is (scripts/build-module).

# --- C --------------------------------------------------------------------------------------------

# The answers of compat/probe are for C alone: C++ sees no kernel, so no difference between kernels.
# (-include and its file are one word, so that the C++ rule can leave both out.)
ccflags-y += -I$(rpcordma-root) -include$(rpcordma-root)/compat/probe.h

# --- C++ ------------------------------------------------------------------------------------------

# The compiler that belongs to the kernel's, unless the user names another.
KCXX ?= $(patsubst %clang,%clang++,$(patsubst %gcc,%g++,$(subst clang-,clang++-,$(subst gcc-,g++-,$(lastword $(CC))))))

# These are asked once per kbuild run, and not at all where a Kbuild has no C++.
cxx-once = $(eval $(1) := $(2))$($(1))
cxx-is-clang = $(call cxx-once,cxx-is-clang,$(if $(findstring clang,$(shell $(KCXX) --version)),y))

# libstdc++'s folders and the compiler's own, found as the compiler itself would; the system's
# folders, /usr/include above all, stay out.
cxx-include = $(call cxx-once,cxx-include,-isystem $(rpcordma-root)/scripts/kbuild/include \
	$(shell $(KCXX) -x c++ -E -v /dev/null 2>&1 | sed -n 's:^ \(/.*/c++/[^ ]*\)$$:-isystem \1:p') \
	-isystem $(shell $(KCXX) -print-file-name=include))

# C only. -g: pahole cannot encode C++, and where it fails the kernel's build deletes the module
# (CXX_DEBUG=y keeps line numbers, for kernels without BTF).
cxx-remove := -std=% -include% -Wmissing-prototypes -Wstrict-prototypes -Wold-style-definition \
	-Wdeclaration-after-statement -Wno-pointer-sign -Wno-override-init -Wno-main \
	-Wno-old-style-declaration -Wno-designated-init -Wenum-conversion -Wno-enum-conversion \
	-Wno-missing-prototypes -Wno-incompatible-pointer-types -Wno-int-conversion \
	-Werror=strict-prototypes -Werror=implicit-function-declaration -Werror=implicit-int \
	-Werror=incompatible-pointer-types -Werror=designated-init \
	$(if $(CXX_DEBUG),,-g -g% -gdwarf%)
# g++ alone has these; for some clang++ has another name, below. Without x87 clang++ has no long
# double, and libstdc++'s <limits> does not compile; scripts/check-objects proves none is used.
cxx-gcc-only := -mno-80387 -msoft-float -mrecord-mcount -mindirect-branch=% -mindirect-branch-register -mskip-rax-setup \
	-mpreferred-stack-boundary=% -fno-allow-store-data-races -fconserve-stack \
	-falign-jumps=% -falign-loops=% -mno-fp-ret-in-387 -fno-stack-check \
	-Wimplicit-fallthrough=%

# Some compilers refuse these and others do not: each compiler is asked for each of them that the
# kernel has, once per kbuild run. A refused one has a stand-in below, or can be lost: it is of a
# warning, of how messages look, or of padding in initializers (what leaves the machine is written
# word by word, and -ftrivial-auto-var-init stays). No mitigation, and nothing of the ABI, is to be
# on this list.
cxx-optional := -Wno-unterminated-string-initialization -fdiagnostics-show-context=% -fzero-init-padding-bits=% \
	-fsanitize=bounds-strict -fmin-function-alignment=%
cxx-stand-in = $(patsubst -fmin-function-alignment=%,-falign-functions=%,$(filter -fmin-function-alignment=%,$(1))) \
	$(if $(filter -fsanitize=bounds-strict,$(1)),-fsanitize=array-bounds)
cxx-takes = $(if $(filter undefined,$(origin cxx-takes$(subst =,_,$(1)))),$(call cxx-once,cxx-takes$(subst =,_,$(1)),$\
	$(shell $(KCXX) -Werror $(1) -x c++ -fsyntax-only /dev/null 2>/dev/null && echo y)),$(cxx-takes$(subst =,_,$(1))))
cxx-refused = $(foreach flag,$(filter $(cxx-optional),$(_c_flags) $(modkern_cflags)),$(if $(call cxx-takes,$(flag)),,$(flag)))

cxx-add = -std=gnu++17 -ffreestanding -fno-exceptions -fno-rtti -fno-threadsafe-statics \
	-fno-asynchronous-unwind-tables -fno-unwind-tables -nostdinc++ $(cxx-include) \
	-I$(rpcordma-root) -Wall -Wextra -Werror $(if $(CXX_DEBUG),-g,-g0) $(cxxflags-y)
# On arm64 compilers call functions of their library that ask which atomic instructions there are; a kernel has none.
cxx-add-arm64 := -mno-outline-atomics
# Unique symbols mean something to a dynamic linker only.
cxx-add-gcc := -fno-gnu-unique
cxx-add-clang = -Wimplicit-fallthrough -Wno-unknown-warning-option -fno-addrsig $(if $(CONFIG_X86),\
	$(if $(filter -mindirect-branch=%,$(KBUILD_CFLAGS)),-mretpoline-external-thunk) \
	$(if $(filter -mpreferred-stack-boundary=3,$(KBUILD_CFLAGS)),-mstack-alignment=8))

cxx_flags = -Wp,-MMD,$(depfile) -nostdinc \
	$(filter-out $(cxx-remove) $(cxx-refused) $(if $(cxx-is-clang),$(cxx-gcc-only)), $(_c_flags) $(modkern_cflags)) \
	$(call cxx-stand-in,$(cxx-refused)) \
	$(cxx-add) $(if $(cxx-is-clang),$(cxx-add-clang),$(cxx-add-gcc)) $(if $(CONFIG_ARM64),$(cxx-add-arm64)) \
	$(CXXFLAGS_$(target-stem).o) $(basename_flags) $(modname_flags)

# A section of patchable entries for each COMDAT function would carry one name many times, and the
# module loader stops at the second. ftrace does not need them where it reads __mcount_loc; on arm64, where these
# sections are what it reads, the kernel's linker script makes one of them.
# Nothing runs static constructors or unwinds the stack in a module, so their sections fail here,
# at the file that made them; scripts/check-objects looks again at the finished module.
#
# With KASAN each object, C too, has one constructor that registers its globals, and the kernel runs
# it; with KCSAN one that does nothing. A second entry of 8 bytes is a constructor of ours.
cxx-arrays := $(if $(CONFIG_KASAN)$(CONFIG_KCSAN),(init|fini)_array +0+[1-9a-f][0-9a-f]+ ,init_array|fini_array)
cxx-banned := \.($(cxx-arrays)|preinit_array|ctors|dtors|eh_frame|gcc_except_table)
quiet_cmd_cxx_o_cc = CXX $(quiet_modtag) $@
      cmd_cxx_o_cc = $(KCXX) $(cxx_flags) -c -o $@ $< \
	$(if $(filter -fpatchable-function-entry%,$(CC_FLAGS_FTRACE)),,$\
	; $(OBJCOPY) -R __patchable_function_entries -R .rela__patchable_function_entries $@) \
	; if $(OBJDUMP) -h $@ | grep -E ' $(cxx-banned)'; then \
		echo "$<: error: static constructor, destructor or unwind table, see above" >&2; \
		rm -f $@; exit 1; fi $(cmd_objtool)

define rule_cxx_o_cc
	$(call cmd_and_fixdep,cxx_o_cc)
	$(call cmd,gen_objtooldep)
endef

$(obj)/%.o: $(src)/%.cc FORCE
	$(call if_changed_rule,cxx_o_cc)
