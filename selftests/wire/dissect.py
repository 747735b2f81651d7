# SPDX-License-Identifier: GPL-2.0-only
"""RPC-over-RDMA messages as tshark reads them off a capture: a decoder that knows nothing of ours.

tshark takes a packet for RPC-over-RDMA only when it has seen the connection being made, so a capture
has to begin before the mount. Version 1 is Wireshark's own dissector's, version 2 that of tools/wireshark, which is
written from the drafts alone.
"""

import collections
import os
import re
import shutil
import struct
import subprocess

from vmlib import image, lab

V1, V2 = "rpcordma", "rpcordma2"
DISSECTOR = os.path.join(image.TOP, "tools", "wireshark", "rpcordma2.lua")

# What is read of both, and of version 2 alone; without the protocol's name.
FIELDS = ("xid", "version", "flow_control", "msg_type", "rdma_handle", "rdma_length", "rdma_offset", "position")
FIELDS2 = ("direction", "inv_handle", "payload_length", "prop_id", "nochg", "rbsiz", "rbgroup_segments", "rbseg_flags",
           "malformed", "invalid")

# What the wire and the trace points both say of a message; what version 2 has besides is in @more, by its fields' names.
Message = collections.namedtuple("Message", "source xid version credits proc segments positions more")


def numbers(text):
    """tshark's comma-separated values, hexadecimal or not."""
    return [int(word, 0) for word in text.split(",") if word]


def _tshark(*args):
    if not shutil.which("tshark"):
        raise lab.LabError("tshark is not installed: scripts/setup wire")
    done = subprocess.run(["tshark", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise lab.LabError(f"tshark {' '.join(args)}: {done.stderr.strip()[-500:]}")
    return done.stdout


def split(capture, at, rest):
    """Cuts what is behind the first @at bytes off @capture, where a frame has to begin, and makes @rest of it."""
    with open(capture, "rb") as f:
        data = f.read()
    end = 24
    while end < at:
        end += 16 + struct.unpack_from("<I", data, end + 8)[0]
    if end != at or at == len(data):
        raise lab.LabError(f"{capture}: {len(data)} bytes; no frame begins at {at}")
    with open(rest, "wb") as f:
        f.write(data[:24] + data[at:])
    os.truncate(capture, at)


def messages(capture, protocol=V1):
    """All RPC-over-RDMA messages of a capture, in order; a retransmitted packet counts once."""
    names = FIELDS + (FIELDS2 if protocol == V2 else ())
    fields = [word for name in names for word in ("-e", f"{protocol}.{name}")]
    plugin = ["-X", f"lua_script:{DISSECTOR}"] if protocol == V2 else []
    text = _tshark(*plugin, "-r", capture, "-Y", f"{protocol}.xid", "-T", "fields", "-E", "separator=\t",
                   "-E", "occurrence=a", "-E", "aggregator=,", "-e", "ip.src", "-e", "infiniband.bth.psn", *fields)
    found, seen = [], set()
    for line in text.splitlines():
        source, psn, *values = line.split("\t")
        row = dict(zip(names, values))
        packet = source, psn, row["xid"]
        if packet in seen:
            continue
        seen.add(packet)
        more = {name: row[name] if name in ("malformed", "invalid") else numbers(row[name])
                for name in names if name in FIELDS2}
        segments = tuple(zip(numbers(row["rdma_handle"]), numbers(row["rdma_length"]),
                             numbers(row["rdma_offset"])))
        found.append(Message(source, *(numbers(row[name])[0] for name in FIELDS[:4]), segments,
                             tuple(numbers(row["position"])), more))
    return found


# A group of transmissions that a capture has whole: who sent it, how many it has, and bytes of its RPC message.
Group = collections.namedtuple("Group", "source count length")


def groups(capture):
    """([Group] of a capture of version 2, [what is wrong with a message of rtrext-01, or a group that is not whole])."""
    fields = ("transmission", "reassembled_length", "broken_group", "malformed", "invalid", "not_whole",
              "expert.unended_group")
    text = _tshark("-2", "-X", f"lua_script:{DISSECTOR}", "-r", capture, "-Y",
                   " || ".join(f"rpcordma2.{name}" for name in fields if name != "reassembled_length"),
                   "-T", "fields", "-E", "separator=\t", "-E", "occurrence=a", "-E", "aggregator=,",
                   "-e", "frame.number", "-e", "ip.src", *(word for name in fields for word in ("-e", f"rpcordma2.{name}")))
    found, wrong = [], []
    for line in text.splitlines():
        frame, source, frames, length, *complaints = line.split("\t")
        if any(complaints):
            wrong.append(f"frame {frame}: {' '.join(complaints)}")
        elif frames:
            found.append(Group(source, len(numbers(frames)), int(length)))
    return found, wrong


def private_data(capture):
    """What both ends say of themselves when they connect: {"requests": [bytes of each], "answers": [bytes of each]}, with the
    zeros behind."""
    fields = {"requests": "infiniband.cm.req.ip_cm.private", "answers": "infiniband.cm.rep.private"}
    return {what: [bytes.fromhex(word.replace(":", "")) for word in
                   _tshark("-r", capture, "-Y", field, "-T", "fields", "-e", field).split()]
            for what, field in fields.items()}


def properties(message):
    """What @message, of version 2, says of properties, by the names of our trace point's fields; None: it is about
    something else."""
    more = message.more
    if not 6 <= message.proc <= 9:
        return None
    ids = sum(1 << number - 1 for number in more["prop_id"] if number <= 6)
    groups = zip(more["rbgroup_segments"], more["rbseg_flags"])
    # Bits of the set, whose n-th property has the id n where all six are said.
    return {"xid": message.xid, "credits": message.credits, "proc": message.proc, "ids": ids,
            "fixed": (more["nochg"] or [0])[0], "receive_size": (more["rbsiz"] or [4096])[0],
            "pages": sum(count for count, flags in groups if flags & 1)}


def complaints(capture):
    """{what tshark finds wrong: how often}, malformed packets and warnings of its expert system."""
    text = _tshark("-r", capture, "-q", "-z", "expert,warn,rpcordma")
    found = collections.Counter()
    for line in text.splitlines():
        words = re.match(r"\s+(\d+)\s+(\S+)\s+(\S+)\s+(.*\S)", line)
        if words:
            found[f"{words.group(2)} {words.group(3)}: {words.group(4)}"] += int(words.group(1))
    malformed = len(_tshark("-r", capture, "-Y", "_ws.malformed && rpcordma", "-T", "fields",
                            "-e", "frame.number").split())
    if malformed:
        found["malformed RPC-over-RDMA messages"] = malformed
    return found


def events(text):
    """[(event, {field: number or word})] of rpcordma's trace events, of a trace file's text."""
    found = []
    for line in text.splitlines():
        match = re.search(r": rpcordma_(\w+): peer=\S+ (.*)$", line)
        if not match:
            continue
        values, what = {}, []
        for word in match.group(2).split():
            name, equals, value = word.partition("=")
            if equals:
                values[name] = int(value, 0)
            else:
                what.append(word)
        values["what"] = " ".join(what)
        found.append((match.group(1), values))
    return found
