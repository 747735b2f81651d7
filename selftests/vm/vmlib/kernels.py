# SPDX-License-Identifier: GPL-2.0-only
"""Kernels of our own for virtual machines (scripts/x86-kernel), and our module for the one that is to boot."""

import glob
import os
import subprocess

from . import image

# Those that scripts/x86-kernel builds.
OURS = ("lockdep", "kcsan", "hca")


def _make(*settings):
    done = subprocess.run(["make", "-s", "-C", image.TOP, "module", *settings],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise image.ImageError(f"rpcordma.ko does not build:\n{done.stdout}")


def _check_instrumented():
    """Without calls to the detector in its C++ half a run would find nothing there, and say so."""
    unity = max(glob.glob(os.path.join(image.TOP, "build", "*", "module", "unity.o")), key=os.path.getmtime)
    done = subprocess.run(["nm", "-u", unity], stdout=subprocess.PIPE, text=True, check=True)
    for call in ("__tsan_read4", "__tsan_write4", "__tsan_atomic32_load"):
        if call not in done.stdout.split():
            raise image.ImageError(f"{unity} does not call {call}: it was compiled without KCSAN")


def prepare(kernel, xprts):
    """Our module for the kernel that is to boot, and that kernel."""
    if kernel in OURS:
        done = subprocess.run([os.path.join(image.TOP, "scripts", "x86-kernel"), kernel],
                              stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise image.ImageError("scripts/x86-kernel failed, see above")
        where = done.stdout.strip().splitlines()[-1]
        os.environ["VM_KERNEL_ROOT"] = os.path.join(where, "root")
        os.environ["VM_KERNEL_HEADERS"] = os.path.join(where, "headers")
        settings = [f"KDIR={os.path.join(where, 'tree')}"]
    else:
        settings = [f"KVER={kernel}"]
    if "rpcordma" not in xprts:
        return
    if not os.environ.get("RPCORDMA_KO"):
        _make(*settings)
    if kernel == "kcsan":
        _check_instrumented()
