# SPDX-License-Identifier: GPL-2.0-only
"""RoCEv2 frames, and a pcap file of them: what tshark is shown of connections that never were."""

import struct

CLIENT, SERVER = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))
PORT = 20049
ROCE, DLT_ETHERNET = 4791, 1
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY, UD_SEND_ONLY = 0, 1, 2, 4, 0x64
CM_REQ, CM_REP, CM_RTU = 0x10, 0x13, 0x14
# RFC 8797, with the mark of version 2 behind it.
PRIVATE = bytes.fromhex("f6ab0e18" "01010303" "72326433" "01000000")


class Capture:
    """A pcap file in the making. @count: its frames."""

    def __init__(self):
        self._parts = [struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, DLT_ETHERNET)]
        self.count = 0

    def add(self, frame):
        self._parts.append(struct.pack("<IIII", 1700000000, self.count % 1000000, len(frame), len(frame)) + frame)
        self.count += 1
        return self.count

    def write(self, path):
        with open(path, "wb") as f:
            f.write(b"".join(self._parts))


def _frame(to_server, opcode, qp, psn, body):
    """An Ethernet frame. The checksums and the invariant CRC are zeros, which tshark leaves alone."""
    pad = -len(body) % 4
    bth = struct.pack(">BBHI", opcode, pad << 4, 0xffff, qp) + struct.pack(">I", psn & 0xffffff)
    roce = bth + body + bytes(pad) + bytes(4)
    udp = struct.pack(">HHHH", 0xc000, ROCE, 8 + len(roce), 0) + roce
    source, target = (CLIENT, SERVER) if to_server else (SERVER, CLIENT)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + source + target
    return bytes((2, 0, 0, 0, 0, target[3], 2, 0, 0, 0, 0, source[3], 8, 0)) + ip + udp


class Connection:
    """A connection in @capture: made by REQ, REP and RTU, then what is sent. @number: one of its own."""

    def __init__(self, capture, number, private=PRIVATE, accepted=PRIVATE):
        self._capture = capture
        self._qp = {True: 0x100000 + 2 * number, False: 0x100001 + 2 * number}
        self._psn = {True: 0x100, False: 0x200}
        ours, theirs = 0x10000000 + number, 0x20000000 + number
        # By whom it is sent, the QP is told to the other.
        client_qp, server_qp = self._qp[False], self._qp[True]
        req = bytearray(140)
        struct.pack_into(">I", req, 0, ours)
        req[8:16] = bytes((0, 0, 0, 0, 1, 6)) + struct.pack(">H", PORT)
        struct.pack_into(">I", req, 32, client_qp << 8 | 4)
        struct.pack_into(">I", req, 36, 4)
        struct.pack_into(">I", req, 44, self._psn[True] << 8 | 7)
        req[48:52] = bytes((0xff, 0xff, 3 << 4 | 7, 0xf0))
        req[68:72], req[84:88] = CLIENT, SERVER
        req[66:68] = req[82:84] = b"\xff\xff"
        cm = bytes((0, 4 << 4)) + struct.pack(">H", 1000) + bytes(12) + CLIENT + bytes(12) + SERVER
        self.request = self._mad(True, CM_REQ, number, bytes(req) + cm + private)
        rep = bytearray(36)
        struct.pack_into(">II", rep, 0, theirs, ours)
        struct.pack_into(">I", rep, 12, server_qp << 8)
        struct.pack_into(">I", rep, 20, self._psn[False] << 8)
        rep[24:28] = bytes((4, 4, 0, 7 << 5))
        self._mad(False, CM_REP, number, bytes(rep) + accepted)
        self._mad(True, CM_RTU, number, struct.pack(">II", ours, theirs))

    def _mad(self, to_server, attribute, number, data):
        mad = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, number, attribute, 0, 0) + data.ljust(232, b"\0")
        return self._capture.add(_frame(to_server, UD_SEND_ONLY, 1, 0, struct.pack(">II", 0x80010000, 1) + mad))

    def send(self, to_server, data, opcode=SEND_ONLY):
        """A packet of a Send. Returns the frame's number."""
        frame = _frame(to_server, opcode, self._qp[to_server], self._psn[to_server], data)
        self._psn[to_server] += 1
        return self._capture.add(frame)

    def send_in_parts(self, to_server, data, size):
        """A Send in packets of @size. Returns the number of its last frame."""
        parts = [data[at:at + size] for at in range(0, len(data), size)]
        for i, part in enumerate(parts):
            last = self.send(to_server, part, SEND_ONLY if len(parts) == 1 else SEND_FIRST if i == 0 else
                             SEND_LAST if i == len(parts) - 1 else SEND_MIDDLE)
        return last
