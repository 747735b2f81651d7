# SPDX-License-Identifier: GPL-2.0-only
"""`rpcordma status`: every connection of this machine, as a table or as JSON."""

import json
import textwrap

from . import system

# Of text, and of a table that is not for a wider terminal.
WIDTH = 80
# What is left at least of an address that is shortened.
LEAST_PEER = 12

COLUMNS = (
    # heading, to the right
    ("ROLE", False), ("PEER", False), ("V", True), ("STATE", False), ("CREDITS", True), ("INLINE", True),
    ("REGS", True), ("RECVS", True), ("RECON", True), ("ERRS", True), ("WAITS", True),
)
STATES = {"connected": "up", "unknown": "?"}


def number(value):
    """At most six characters: 1234567 is 1235k."""
    if value is None:
        return "-"
    for unit in ("", "k", "M", "G", "T"):
        if abs(value) < 100000:
            return f"{value}{unit}"
        value = (value + 500) // 1000
    return f"{value}P"


def _pair(one, other):
    return "-" if one is None and other is None else f"{number(one)}/{number(other)}"


def _size(value):
    """4096 is 4k: sizes of messages are in KiB on the wire."""
    return f"{value >> 10}k" if value and value % 1024 == 0 else number(value)


def _inline(sizes):
    send, receive = _size(sizes["send"]), _size(sizes["receive"])
    return send if send == receive else f"{send}/{receive}"


def _rows(state):
    for role, connections in (("client", state["client"]["connections"]), ("server", state["server"]["connections"])):
        for c in connections:
            waits = c.get("waits") if role == "client" else c["waiting"] if c["waiting"] is None else int(c["waiting"])
            yield ("callbk" if c.get("role") == "callback" else role, c["peer"], number(c["version"]),
                   STATES.get(c["state"], c["state"]), _pair(c["credits"]["in_use"], c["credits"]["granted"]),
                   _inline(c["inline"]), number(c.get("regions")), number(c["receives"]),
                   number(c.get("reconnects")), number(c.get("errors")), number(waits))


def shorten(text, room):
    """@text with dots in the place of its middle, if it is longer than @room: the end of an address says most."""
    if len(text) <= room:
        return text
    tail = (room - 2) * 2 // 3
    return f"{text[:room - 2 - tail]}..{text[-tail:]}"


def table(headings, rows, width=None):
    """Lines; @headings as COLUMNS, @rows tuples of as many texts. With @width, the column PEER is shortened to what fits."""
    rows = list(rows)
    names = [heading for heading, _ in headings]
    if width is not None and rows:
        peer = names.index("PEER")
        others = sum(max(len(row[i]) for row in [names, *rows]) + 1 for i in range(len(names)) if i != peer)
        rows = [(*row[:peer], shorten(row[peer], max(width - others, LEAST_PEER)), *row[peer + 1:]) for row in rows]
    widths = [max([len(heading)] + [len(row[i]) for row in rows]) for i, (heading, _) in enumerate(headings)]

    def line(cells):
        return " ".join(cell.rjust(width) if right else cell.ljust(width)
                         for cell, width, (_, right) in zip(cells, widths, headings)).rstrip()

    return [line([heading for heading, _ in headings])] + [line(row) for row in rows]


def headline(state):
    """What there is, in a line."""
    module = state["module"]
    if not module:
        return "no RDMA transport is loaded: neither rpcordma nor the in-tree rpcrdma"
    return f"{module['name']}{' (the in-tree transport)' if module['in_tree'] else ''} on Linux {state['kernel']}"


def missing(state):
    """Lines about what could not be read, and what would mend it."""
    outcomes = {s["name"]: s["outcome"] for s in state["sources"]}
    lines = []
    module = state["module"]
    if module and not module["in_tree"] and outcomes.get("/" + system.STATS) != system.READ:
        outcome = outcomes.get("/" + system.STATS)
        if outcome == system.DENIED and state["lockdown"] not in (None, "none"):
            lines.append(f"debugfs is refused, as the kernel is locked down ({state['lockdown']}): versions, inline "
                         "sizes, regions and Receives are not shown")
        elif outcome == system.DENIED:
            lines.append("debugfs is for root alone: run this as root for versions, inline sizes, regions, Receives")
        else:
            lines.append("no debugfs: mount -t debugfs debugfs /sys/kernel/debug")
    elif module and module["in_tree"]:
        lines.append("the in-tree transport does not tell versions, inline sizes, regions or Receives")
    if outcomes.get("/" + system.MOUNTSTATS) == system.DENIED:
        lines.append("/proc/self/mountstats cannot be read")
    if state["not_understood"]:
        lines.append(f"{len(state['not_understood'])} lines of the kernel were not understood: --json has them")
    return lines


def _server_line(state):
    server = state["server"]
    counters = server["counters"]
    if server["listeners"] is None and not any(counters.values()):
        return None
    rdma = [line for line in server["listeners"] or [] if line.startswith("rdma")]
    words = [f"nfsd: {'listens on ' + ', '.join(sorted(set(rdma))) if rdma else 'does not listen on RDMA'}"]
    if server["threads"] is not None:
        words.append(f"{server['threads']} threads")
    words += [f"{counters[name]} {what}" for name, what in
              (("recv", "calls"), ("read", "Reads"), ("write", "Writes")) if name in counters]
    if server["errors"] is not None:
        words.append(f"{server['errors']} errors")
    words += [f"{counters[name]} {what}" for name, what in
              (("dropped", "dropped"), ("refused", "refused"), ("sq_starve", "waits"), ("debt", "debts"))
              if counters.get(name)]
    return ", ".join(words)


def text(state, width=WIDTH):
    """The table, at most @width wide, and what belongs to it; lines."""
    lines = [headline(state)]
    rows = list(_rows(state))
    if rows:
        lines += [""] + table(COLUMNS, rows, width) + [""]
    elif state["module"]:
        lines.append("no connections")
    for line in [_server_line(state)] + [f"note: {line}" for line in missing(state)]:
        lines += textwrap.wrap(line or "", WIDTH, subsequent_indent="      ", break_on_hyphens=False)
    return lines if lines[-1] else lines[:-1]


def as_json(state):
    return json.dumps(state, indent=2) + "\n"
