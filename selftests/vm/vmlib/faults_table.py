# SPDX-License-Identifier: GPL-2.0-only
"""Records of rows of the fault matrix, which outlive the run (--resume), and the tables of them for the documentation.

A record belongs to the code that was tested: the last commit of the module's and the virtual device's sources, and
what was changed since.
"""

import hashlib
import json
import os
import subprocess

from . import faults, image

FOLDER = os.path.join(image.TOP, "build", "faults")
SOURCES = ("Kbuild", "compat", "module", "xdr", "selftests/hca")


def _git(*args):
    return subprocess.run(["git", "-C", image.TOP, *args, "--", *SOURCES], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def code():
    """Name of the code that is tested."""
    changed = _git("diff", "HEAD").encode()
    if ko := os.environ.get("RPCORDMA_KO"):
        # Nobody knows what it was made of.
        with open(ko, "rb") as f:
            changed += f.read()
    return _git("log", "-1", "--format=%h").strip() + ("+" + hashlib.sha256(changed).hexdigest()[:8] if changed else "")


def _path(fault, version, state):
    return os.path.join(FOLDER, f"{fault}-{version}-{state}.json")


def write(fault, version, state, **record):
    os.makedirs(FOLDER, exist_ok=True)
    path = _path(fault, version, state)
    with open(path + ".new", "w") as f:
        json.dump(record, f, indent=1)
    os.rename(path + ".new", path)


def read(fault, version, state):
    """The row's record, or None."""
    try:
        with open(_path(fault, version, state)) as f:
            return json.load(f)
    except FileNotFoundError:
        return None


def _table(head, rows):
    """A simple table of reST."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
    return [rule, "  ".join(text.ljust(width) for text, width in zip(head, widths)).rstrip(), rule, *lines, rule]


def _row(version, state, record):
    what = (f"v{version}", state)
    if not record:
        return *what, "not run", "", "", "", ""
    seconds = f"{record['seconds']:.0f}"
    if record["verdict"] != "passed":
        return *what, f"**{record['verdict']}**: {record['detail'].splitlines()[0][:60]}", "", "", "", seconds
    return *what, record["happened"], record["data"], "at rest", "clean", seconds


def text():
    """Every row as it was last run, a table for each fault."""
    lines = []
    for fault in faults.FAULTS.values():
        records = {(version, state): read(fault.name, version, state)
                   for version in faults.VERSIONS for state in faults.STATES}
        had = [record for record in records.values() if record]
        title = f"{fault.title} (``{fault.name}``, on ``{fault.bed}``)"
        lines += ["", title, "-" * len(title), ""]
        lines += _table(("NFS", "mount", "what happened", "verified", "objects", "log", "s"),
                        [_row(*key, record) for key, record in records.items()])
        for rest in sorted({record["objects"] for record in had if record.get("objects")}):
            lines += ["", f"At rest: {rest}."]
        for tested in sorted({record["code"] for record in had}):
            lines += ["", f"Tested: {tested}."]
    return "\n".join(lines[1:])
