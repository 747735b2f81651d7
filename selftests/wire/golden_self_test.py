# SPDX-License-Identifier: GPL-2.0-only
"""scripts/wire-golden --self-test: is each kind of change found?

One capture is changed on its way through the decoder, a message at a time, and compared with itself; and the module
is run with other settings, and with a source that is changed, each of which changes what it sends.
"""

import difflib
import os
import struct

import golden
import roce

CELLS = {"ours": {"self-test": "small_work 3"}}
# A call that just fits inline does not go inline: a bug that few lengths show. Short calls have a way of their own.
PLANTS = {"module/chunk/reduce.cc": ("if (plan.header_length + buffer.length() <= threshold) {",
                                     "if (plan.header_length + buffer.length() < threshold) {"),
          "module/chunk/reduce.hh": ("thresholds.bare_header + send <= thresholds.send &&",
                                     "thresholds.bare_header + send < thresholds.send &&")}
# A short mount; both directions, all kinds of chunks.
SMALL = """
small_work() {
	rpc_mount $1 actimeo=0 && golden small /mnt && golden sweep /mnt 4096
}
"""


class Changed(roce.Capture):
    """@path, with change(opcode, direction, body) in place of what follows each BTH: a list of bodies."""

    def __init__(self, path, change):
        self._change = change
        super().__init__(path, golden.CLIENT)

    def deliver(self, connection, direction, opcode, psn, body):
        for changed in self._change(opcode, direction, bytes(body)):
            super().deliver(connection, direction, opcode, psn, changed)


def _call(direction, opcode, body):
    """Whether it is the client's Send of a call with a Read list."""
    return direction == 0 and opcode == 4 and len(body) > 40 and struct.unpack_from(">I", body, 16)[0] == 1


def _word(body, at, add):
    value = struct.unpack_from(">I", body, at)[0]
    return body[:at] + struct.pack(">I", value + add & 0xffffffff) + body[at + 4:]


def changes():
    """{what: change}, each of the first packet it fits only."""

    def once(fits, edit):
        def make():
            done = []

            def change(opcode, direction, body):
                if done or not fits(direction, opcode, body):
                    return [body]
                done.append(True)
                return edit(body)
            change.done = done
            return change
        return make

    def reply(direction, opcode, _body):
        return direction == 1 and opcode == 4

    def write_list(direction, opcode, body):
        return direction == 0 and opcode == 4 and len(body) > 48 and struct.unpack_from(">II", body, 16) == (0, 1)

    yield "a call's credits", once(lambda d, o, b: d == 0 and o == 4, lambda b: [_word(b, 8, 1)])
    yield "a reply's credits", once(reply, lambda b: [_word(b, 8, -1)])
    yield "the version", once(reply, lambda b: [_word(b, 4, 1)])
    yield "a Position", once(_call, lambda b: [_word(b, 20, 4)])
    yield "a Read segment's length", once(_call, lambda b: [_word(b, 28, 1)])
    # A second segment of three bytes, as a peer that sends XDR padding has it.
    yield "one more Read segment", once(_call, lambda b: [b[:40] + b[16:24] + struct.pack(">IIQ", 1, 3, 0) + b[40:]])
    yield "a Write segment's length", once(write_list, lambda b: [_word(b, 32, 4)])
    yield "a Write list in place of a Read list", once(
        _call, lambda b: [b[:16] + struct.pack(">III", 0, 1, 1) + b[24:40] + struct.pack(">I", 0) + b[48:]])
    yield "an R_key of nobody is invalidated", once(lambda d, o, b: o == 0x17, lambda b: [_word(b, 0, 1)])
    yield "a byte of a reply", once(reply, lambda b: [_word(b, 36, 1)])
    yield "a byte of an RDMA Write", once(lambda d, o, b: o == 10, lambda b: [b[:16] + bytes([b[16] ^ 1]) + b[17:]])
    yield "a byte of what an RDMA Read fetched", once(
        lambda d, o, b: o in (13, 16), lambda b: [b[:4] + bytes([b[4] ^ 1]) + b[5:]])
    yield "an RDMA Write to another place", once(lambda d, o, b: o == 10, lambda b: [_word(b, 4, 8)])
    yield "an RDMA Read that is shorter", once(lambda d, o, b: o == 12, lambda b: [_word(b, 12, -4)])
    yield "the xid of a reply", once(reply, lambda b: [_word(b, 0, 1)])
    yield "a message that is missing", once(reply, lambda b: [])
    yield "a NAK", once(lambda d, o, b: o == 17, lambda b: [bytes([0x20]) + b[1:]])


def planted():
    """Writes the patch of PLANTS; returns its path."""
    path = os.path.join(golden.WORK, "planted.patch")
    with open(path, "w") as patch:
        for name, (old, new) in PLANTS.items():
            with open(os.path.join(golden.TOP, name)) as f:
                before = f.read()
            if before.count(old) != 1:
                raise golden.GoldenError(f"{name} does not have once: {old}")
            patch.writelines(difflib.unified_diff(before.splitlines(True), before.replace(old, new).splitlines(True),
                                                  f"a/{name}", f"b/{name}"))
    return path


def run(compare):
    """Returns (passed, failed, skipped)."""
    base = golden.Version("base", "")
    golden.SETUP += SMALL
    print("the same twice: one cell has to be equal", flush=True)
    passed, failed, skipped = compare(base, golden.Version("after", ""), CELLS, 2)
    if (passed, failed) != (1, 0):
        return passed, failed or 1, skipped

    def judge(what, found, why="not found"):
        nonlocal passed, failed
        if found:
            passed += 1
        else:
            failed += 1
        print(f"ok:      {what}: found" if found else f"FAILED:  {what}: {why}", flush=True)

    # With what differs each time left out, as in a comparison.
    first, path = (os.path.join(golden.WORK, "runs", run, "ours", "self-test.pcap") for run in ("base-2", "base-1"))
    again = roce.Capture(first, golden.CLIENT).streams()
    whole = roce.Capture(path, golden.CLIENT).streams()
    if golden.differences(whole, again, whole)[0]:
        raise golden.GoldenError("a capture differs from itself")
    for what, make in changes():
        change = make()
        try:
            found = golden.differences(whole, again, Changed(path, change).streams())[0]
        except roce.Damaged as error:
            found = [str(error)]
        judge(what, change.done and found, "not found" if change.done else "the capture has no place for it")
    # And end to end: what the module does otherwise on the wire.
    for what, patch, setting in (
            ("fewer slots", "", "echo 64 > /proc/sys/sunrpc/rdma_slot_table_entries\n"),
            ("a larger inline threshold", "", "echo 8192 > /proc/sys/sunrpc/rdma_max_inline_write\n"),
            ("a call that just fits in a chunk", planted(), "")):
        print(f"--- the second run has {what}: one cell has to differ", flush=True)
        judge(what, compare(base, golden.Version("after", "", patch), CELLS, 2, setting)[:2] == (0, 1))
    return passed, failed, 0
