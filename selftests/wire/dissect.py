# SPDX-License-Identifier: GPL-2.0-only
"""RPC-over-RDMA messages as tshark reads them off a capture: a decoder that knows nothing of ours.

tshark takes a packet for RPC-over-RDMA only when it has seen the connection being made, so a capture
has to begin before the mount.
"""

import collections
import re
import shutil
import subprocess

from vmlib import lab

FIELDS = ("ip.src", "rpcordma.xid", "rpcordma.version", "rpcordma.flow_control", "rpcordma.msg_type",
          "rpcordma.rdma_handle", "rpcordma.rdma_length", "rpcordma.rdma_offset", "rpcordma.position",
          "infiniband.bth.psn")

# What the wire and the trace points both say of a message.
Message = collections.namedtuple("Message", "source xid version credits proc segments positions")


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


def messages(capture):
    """All RPC-over-RDMA messages of a capture, in order; a retransmitted packet counts once."""
    fields = [word for field in FIELDS for word in ("-e", field)]
    text = _tshark("-r", capture, "-Y", "rpcordma.xid", "-T", "fields", "-E", "separator=\t",
                   "-E", "occurrence=a", "-E", "aggregator=,", *fields)
    found, seen = [], set()
    for line in text.splitlines():
        row = dict(zip(FIELDS, line.split("\t")))
        packet = row["ip.src"], row["infiniband.bth.psn"], row["rpcordma.xid"]
        if packet in seen:
            continue
        seen.add(packet)
        segments = tuple(zip(numbers(row["rpcordma.rdma_handle"]), numbers(row["rpcordma.rdma_length"]),
                             numbers(row["rpcordma.rdma_offset"])))
        found.append(Message(row["ip.src"], numbers(row["rpcordma.xid"])[0],
                             numbers(row["rpcordma.version"])[0], numbers(row["rpcordma.flow_control"])[0],
                             numbers(row["rpcordma.msg_type"])[0], segments,
                             tuple(numbers(row["rpcordma.position"]))))
    return found


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
