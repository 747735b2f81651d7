# SPDX-License-Identifier: GPL-2.0-only
"""Where the programs of a guest come from: this machine, or for a guest of another architecture Debian's packages for
that one, fetched and unpacked by scripts/userland. How a guest starts them is not known here.
"""

import glob
import os
import re
import shutil
import subprocess

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SCRIPT = os.path.join(TOP, "scripts", "userland")
SEARCH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Native:
    """This machine's own."""

    triplet = "x86_64-linux-gnu"

    def which(self, program):
        """Path of a program here, or None."""
        found = shutil.which(program, path=SEARCH)
        return found and os.path.realpath(found)

    def libraries(self, program):
        """{path in the guest: path here} of all that the program at the path @program is linked with."""
        out = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        return {path: os.path.realpath(path) for path in re.findall(r"(/[^ ]+\.so[^ ]*)", out)}

    def find(self, pattern):
        """{path in the guest: path here} of the files that match."""
        return {path: os.path.realpath(path) for path in glob.glob(pattern)}

    def compiler(self):
        """The words that call a C compiler, or None."""
        found = shutil.which("gcc") or shutil.which("gcc-12")
        return found and [found]


class Unpacked:
    """Debian 13's for another architecture: @arch is Debian's name of it, @packages what has the programs.

    Raises RuntimeError with scripts/userland's own words where they cannot be had.
    """

    def __init__(self, arch, triplet, packages):
        self.triplet = triplet
        store = os.environ.get("RPCORDMA_KERNELS", os.path.join(TOP, "build", "kernels"))
        self.root = os.path.join(store, "userland", "trixie", arch)
        listed = os.path.join(self.root, "packages")
        wanted = " ".join(sorted(packages))
        if not os.path.exists(listed) or open(listed).read() != wanted:
            done = subprocess.run([SCRIPT, "trixie", "unpack", arch, self.root, *sorted(packages)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                raise RuntimeError(f"programs for {arch}: {done.stdout.strip()}")
            with open(listed, "w") as f:
                f.write(wanted)

    def which(self, program):
        for folder in SEARCH.split(":"):
            path = self.root + os.path.join(folder, program)
            if os.path.lexists(path):
                return self._here(os.path.join(folder, program))
        return None

    def _here(self, path):
        """Where that path of the guest is here, links followed within the packages."""
        for _ in range(8):
            here = self.root + path
            if not os.path.islink(here):
                return here
            path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(here)))
        return here

    def _library(self, name):
        """Path in the guest of a library of that name."""
        for folder in (f"/lib/{self.triplet}", "/lib"):
            if os.path.lexists(f"{self.root}/usr{folder}/{name}"):
                return f"{folder}/{name}"
        raise RuntimeError(f"none of the packages for {self.triplet} has {name}")

    def libraries(self, program):
        found, wanted = {}, [program]
        while wanted:
            path = wanted.pop()
            out = subprocess.run(["readelf", "-lWd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 text=True).stdout
            # The loader has a place of its own, and finds others without /usr.
            needed = re.findall(r"interpreter: (/.*)\]", out)
            needed += [self._library(name) for name in re.findall(r"\(NEEDED\).*\[(.*)\]", out)]
            for guest in needed:
                if guest not in found:
                    found[guest] = self._here(f"/usr{guest}")
                    wanted.append(found[guest])
        return found

    def find(self, pattern):
        found = {}
        for path in glob.glob(self.root + pattern) + glob.glob(f"{self.root}/usr{pattern}"):
            guest = pattern[:pattern.rindex("/")] + "/" + os.path.basename(path)
            found[guest] = self._here(path[len(self.root):])
        return found

    def compiler(self):
        return [SCRIPT, "trixie", "run", f"{self.triplet}-gcc-14"]
