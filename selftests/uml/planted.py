# SPDX-License-Identifier: GPL-2.0-only
"""Bugs planted in a module that is built already, one at a time.

Only the objects that include a changed file are compiled, by the commands that kbuild left beside them, and the module is
linked with those in place of its own. Nothing of the build is touched, so nothing has to be put back.
A machine with a bug in it may hang or die, so how a run is judged is here, too: it ends at the first sign of the bug.
What is planted, and who has to find it, is not here.
"""

import glob
import os
import re
import shutil
import subprocess
import time

import uml

# Of the machine's own processor time: several times what all suites take. What else the host does is not counted.
PROCESSOR_LIMIT = 40
# Real seconds, behind which nothing is known.
LIMIT = 600


def edits_of(text, where):
    """[(name, who finds it, [[file, old text, new text]])] of @text, the lines of the file @where."""
    bugs, path = [], None
    for line in text.splitlines():
        named = re.match(r"([\w-]+): (\S.*)$", line)
        if named:
            bugs.append((named.group(1), named.group(2), []))
        elif re.match(r"\w+\.[ch]$", line) and bugs:
            path = os.path.join("compat", "linux", line)
            bugs[-1][2].append([path, "", ""])
        elif line[:1] in ("-", "+") and bugs and bugs[-1][2]:
            bugs[-1][2][-1][1 + (line[0] == "+")] += line[1:] + "\n"
        elif line and not line.startswith("#"):
            raise uml.UmlError(f"{where}: what is this? {line}")
    if len({name for name, _, _ in bugs}) != len(bugs):
        raise uml.UmlError(f"{where}: a name is there twice")
    return bugs


def edited(top, edits):
    """{file: text} of the tree @top with @edits; UmlError where they cannot be made."""
    changed = {}
    for path, old, new in edits:
        if path not in changed:
            with open(os.path.join(top, path), encoding="utf-8") as f:
                changed[path] = f.read()
        if not old or changed[path].count(old) != 1:
            raise uml.UmlError(f"{path} has this {changed[path].count(old)} times, not once: {old}")
        changed[path] = changed[path].replace(old, new)
    return changed


class Built:
    """What kbuild made in the folder @out, for the kernel in @kdir: the module @module, a .ko."""

    def __init__(self, kdir, out, module):
        self._kdir, self._out, self._module = kdir, out, module
        self._name = os.path.basename(module)[:-len(".ko")]
        self._folder = os.path.dirname(module)
        with open(os.path.join(self._folder, self._name + ".mod")) as f:
            self._objects = f.read().split()

    def _command(self, product):
        """How kbuild made @product, and what from."""
        left = os.path.join(os.path.dirname(product), f".{os.path.basename(product)}.cmd")
        with open(left) as f:
            text = f.read()
        command = re.match(r"savedcmd_\S+ := (.*)\n", text).group(1).replace("$$", "$").replace("\\#", "#")
        return command, set(os.path.realpath(path) for path in re.findall(r"^  (/\S+\.[ch])\b", text, re.M)), text

    def _run(self, command):
        done = subprocess.run(command, shell=True, cwd=self._kdir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise uml.UmlError("it does not build: " + " ".join(re.findall(r"error: .*", done.stdout)[:3] or [done.stdout[:300]]))

    def plant(self, top, changed, folder):
        """Links the module with @changed, {file: text} of the tree @top; returns its path, in @folder, which it empties."""
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in changed.items():
            os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(folder, path), "w", encoding="utf-8") as f:
                f.write(text)
        os.makedirs(folder, exist_ok=True)
        objects = []
        for number, made in enumerate(self._objects):
            command, sources, text = self._command(made)
            source = re.search(r"^source_\S+ := (\S+)$", text, re.M).group(1)
            sources.add(os.path.realpath(source))
            if not any(os.path.join(os.path.realpath(top), path) in sources for path in changed):
                objects.append(made)
                continue
            own = os.path.relpath(os.path.realpath(source), os.path.realpath(top))
            taken = os.path.join(folder, own) if own in changed else source
            product = os.path.join(folder, f"{number}.o")
            words = re.sub(r"-Wp,-MMD,\S+", f"-iquote {folder}", command)
            words = words.replace(f" -o {made} ", f" -o {product} ").replace(f" {source}", f" {taken}")
            self._run(words)
            objects.append(product)
        listed = os.path.join(folder, "objects")
        with open(listed, "w") as f:
            f.write("\n".join(objects) + "\n")
        whole, module = (os.path.join(folder, self._name + end) for end in (".o", ".ko"))
        built = self._module[:-len(".ko")]
        self._run(self._command(built + ".o")[0].replace(f"-o {built}.o", f"-o {whole}").replace(f"@{built}.mod", f"@{listed}"))
        self._run(self._command(built + ".ko")[0].replace(f"-o {built}.ko", f"-o {module}").replace(f" {built}.o ", f" {whole} "))
        return module


def processor_time(pid):
    """Seconds that the group of @pid, a machine's, has computed."""
    ticks = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == pid:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def first_sign(machine):
    """The first sign of a bug in what @machine, which may be running, has said so far; or None."""
    # The case says that it has failed at its end, which may be far when each of its expectations fails: KUnit keeps what
    # they say, until there is no memory any more.
    case = re.search(r"# (\w+): (?:EXPECTATION|ASSERTION) FAILED at \S*?(\w+\.c:\d+)", machine.file("console.log"))
    if case:
        return f"{case.group(1)} fails, {case.group(2)}"
    case = re.search(r"^.{8} (?:\[[^\]]*\])*\s+not ok \d+ (\S+)", machine.file("console.log"), re.M)
    if case:
        return f"{case.group(1)} fails"
    if machine.complaints:
        return "the kernel: " + re.sub(r"^\[ *[\d.]+\](?:\[[^]]*\])? *", "", machine.complaints[0])[:100]
    return None


def watch(machine, limit=LIMIT, processor_limit=PROCESSOR_LIMIT):
    """Runs @machine to the first sign of a bug, or to its end; returns the sign, or None when there is none.

    Without an end of its own within @processor_limit seconds that it computes, or a panic, it has the bug. UmlError when
    nothing is known: it was killed from outside, for want of memory say, or the host has let it wait for too long.
    """
    machine.start()
    began = time.monotonic()
    sign, turn = None, 0
    while machine.running and not sign:
        time.sleep(0.2)
        turn += 1
        sign = first_sign(machine)
        # It reads all of /proc.
        if sign or turn % 10:
            continue
        if processor_time(machine.pid) > processor_limit:
            sign = f"it computes for {processor_limit} s, and does not end"
        elif time.monotonic() - began > limit:
            machine.stop()
            raise uml.UmlError(f"no end within {limit} s, and no sign of a bug: was the host busy? {machine.log}")
    status = machine.stop()
    if not sign and status < 0:
        raise uml.UmlError(f"its machine was killed by signal {-status}, not by this: {machine.log}")
    wrong = machine.judge()
    # That the script did not end well is said first, and at last why.
    return sign or first_sign(machine) or (wrong and wrong[-1 if "did not end well" in wrong[0] else 0][:120]) or None
