# SPDX-License-Identifier: GPL-2.0-only
"""What a capture of RoCEv2 says, as lists of lines that two captures of the same work have in common.

A small decoder of our own, after the InfiniBand specification and RFC 8166, 8797: other than tshark it puts the
packets of a message together, knows to which RDMA Read a response belongs, and reads each payload.

What every run chooses anew is replaced by names in the order in which it appears: xids (x1, ...), R_keys (k1, ...;
a new name each time that a call offers one). So it is still compared whether the key that is invalidated is that
of the second segment. Addresses are told as distances: those of RDMA operations from the begin of their segment.
Numbers of queue pairs and packets say nothing and are left out.

Payloads are bytes beside their line: who compares decides which of them may differ (golden.py).
"""

import struct

# BTH opcodes of a reliable connection, without the three bits of the service.
SEND, WRITE = {0: "first", 1: "middle", 2: "last", 4: "only", 0x16: "last", 0x17: "only"}, \
              {6: "first", 7: "middle", 8: "last", 10: "only"}
READ_REQUEST, RESPONSES, ACK = 12, (13, 14, 15, 16), 17
INVALIDATES = (0x16, 0x17)
HAS_RETH, HAS_AETH = (6, 10, 12), (13, 15, 16, 17)
UD_SEND_ONLY = 0x64
NAKS = {0: "PSN sequence", 1: "invalid request", 2: "remote access", 3: "remote operational", 4: "invalid RD"}

CM = {0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP"}
# Where the private data of a CM message begins; a MAD is 256 bytes, 24 of which are its header.
CM_PRIVATE = {0x10: 24 + 140, 0x11: 24 + 10, 0x12: 24 + 84, 0x13: 24 + 36, 0x14: 24 + 8, 0x15: 24 + 12, 0x16: 24 + 8}
# RDMA CM's own header, with addresses and ports, before what its user says.
CM_HEADER = 36

PROC = {0: "RDMA_MSG", 1: "RDMA_NOMSG", 2: "RDMA_MSGP", 3: "RDMA_DONE", 4: "RDMA_ERROR"}
ERR = {1: "ERR_VERS", 2: "ERR_CHUNK"}


class Damaged(Exception):
    """The capture or a message in it is not what it should be."""


class Line:
    """One line of the result. @payload: bytes that are compared too."""

    def __init__(self, text, payload=b""):
        self.text, self.payload = text, payload

    def __repr__(self):
        return self.text


def frames(path):
    """The frames of a pcap file."""
    with open(path, "rb") as f:
        data = f.read()
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        yield memoryview(data)[at + 16:at + 16 + length]
        at += 16 + length
    if at != len(data) or not data:
        raise Damaged(f"{path} ends in the middle of a frame")


class Names:
    """Names for values in the order in which they appear."""

    def __init__(self, letter):
        self._letter, self._known = letter, {}

    def __call__(self, value):
        return self._known.setdefault(value, f"{self._letter}{len(self._known) + 1}")


class Rpc:
    """All that is about one xid, in its order: ">" comes from the client, "<" from the server."""

    def __init__(self):
        self.lines = []
        # Where the RDMA Read that came last ends, while nothing else has come.
        self.read_end = None

    def add(self, line):
        self.lines.append(line)
        self.read_end = None


class Connection:
    """Both directions of a reliable connection.

    What belongs to one RPC is together, whatever other RPCs did meanwhile; the order of messages is beside it, for
    each direction, and for the server's own calls apart: the client's reply to a recall and the DELEGRETURN come
    from two threads, and the scheduler says which is first. RDMA Reads of one segment that follow on each other are
    told as one: how much one fetches depends on which pages of the server happen to be neighbours.
    """

    def __init__(self, number, mtu):
        self.number, self._mtu = number, mtu
        self._xids, self._rpcs = Names("x"), {}
        self._order = ([], [])
        # xids whose first message came from the server, and the order of what is about them.
        self._backward, self._backward_order = set(), []
        # {R_key: (name, address that it began with, whose)} since it was last offered, and how many were.
        self._keys, self._offered = {}, 0
        self._expected = [None, None]
        # Per direction: the message that is being received, and RDMA Reads whose data are not all there.
        self._open = [None, None]
        self._reads = ([], [])

    def streams(self):
        name = f"connection {self.number}"
        rpcs = [Line(f"{xid} {line.text}", line.payload) for xid, rpc in self._rpcs.items() for line in rpc.lines]
        return [(f"{name}, by RPC", rpcs), (f"{name}, client to server", self._order[0]),
                (f"{name}, server to client", self._order[1]), (f"{name}, the server's calls", self._backward_order)]

    def _rpc(self, xid):
        return self._rpcs.setdefault(xid, Rpc())

    def _note(self, direction, words):
        self._order[direction].append(Line(words))

    def _key(self, handle, offset=0, owner="", anew=False):
        if not anew and handle not in self._keys:
            return "an R_key that nobody offered", offset, "no RPC"
        if anew:
            self._offered += 1
            self._keys[handle] = f"k{self._offered}", offset, owner
        return self._keys[handle]

    def _segment(self, handle, length, offset, owner="", anew=False):
        """How a segment, or a part of one, is told."""
        name, begin, _ = self._key(handle, offset, owner, anew)
        return f"{name}{f'{offset - begin:+d}' if offset != begin else ''}:{length}"

    def packet(self, direction, opcode, psn, body):
        """One packet of @direction, behind its BTH."""
        if opcode == ACK or opcode in RESPONSES:
            self._answer(direction, opcode, body)
            return
        # What comes again has been read.
        expected = self._expected[direction]
        if expected is not None and psn != expected and (expected - psn) & 0xffffff < 1 << 23:
            self._note(direction, "a packet is sent again")
            return
        self._expected[direction] = (psn + 1) & 0xffffff
        if opcode == READ_REQUEST:
            va, key, length = struct.unpack_from(">QII", body)
            self._expected[direction] = (psn + max(1, -(-length // self._mtu))) & 0xffffff
            self._read(direction, key, length, va)
            return
        if opcode not in SEND and opcode not in WRITE:
            raise Damaged(f"connection {self.number}: opcode {opcode:#x}")
        part = SEND.get(opcode) or WRITE[opcode]
        to = None
        if opcode in HAS_RETH:
            va, key, length = struct.unpack_from(">QII", body)
            to = key, length, va
            body = body[16:]
        what = "Send"
        if opcode in INVALIDATES:
            what = f"Send With Invalidate {self._key(struct.unpack_from('>I', body)[0])[0]}"
            body = body[4:]
        if part in ("first", "only"):
            self._open[direction] = to, []
        if not self._open[direction]:
            raise Damaged(f"connection {self.number}: the middle of a message without its begin")
        self._open[direction][1].append(body)
        if part in ("last", "only"):
            to, pieces = self._open[direction]
            self._open[direction] = None
            payload = b"".join(pieces)
            if to:
                line = Line(f"{'><'[direction]} RDMA Write {self._segment(*to)}", payload)
                self._rpc(self._key(to[0], to[2])[2]).add(line)
            else:
                self._message(direction, what, payload)

    def _read(self, direction, key, length, va):
        rpc = self._rpc(self._key(key, va)[2])
        if rpc.read_end and rpc.read_end[:3] == (direction, key, va):
            line, begin, total = rpc.read_end[3:]
        else:
            line, begin, total = Line(""), va, 0
            rpc.add(line)
        total += length
        line.text = f"{'><'[direction]} RDMA Read {self._segment(key, total, begin)}"
        rpc.read_end = direction, key, va + length, line, begin, total
        self._reads[direction].append([line, length, []])

    def _answer(self, direction, opcode, body):
        """An ACK or the data of an RDMA Read that the other direction asked for."""
        if opcode in HAS_AETH:
            syndrome = body[0]
            body = body[4:]
            if syndrome >> 5 == 1:
                self._note(direction, "RNR NAK")
            elif syndrome >> 5 == 3:
                self._note(direction, f"NAK, {NAKS.get(syndrome & 31, syndrome & 31)}")
        if opcode == ACK:
            return
        waiting = self._reads[1 - direction]
        if not waiting:
            self._note(direction, "data of no RDMA Read")
            return
        line, length, pieces = waiting[0]
        pieces.append(body)
        if opcode in (15, 16):
            waiting.pop(0)
            data = b"".join(pieces)
            if len(data) != length:
                self._note(direction, f"{len(data)} bytes for an RDMA Read of {length}")
            line.payload += data

    def _message(self, direction, what, payload):
        """A Send: the transport header in words, the rest as payload."""
        xid = self._xids(payload[:4])
        try:
            words, rest = self._header(direction, xid, payload)
        except struct.error:
            words, rest = f"no whole header in {len(payload)} bytes", payload
        # Of a message that is not in chunks the RPC's xid has to be the header's.
        if len(rest) >= 4 and payload[:4] == rest[:4]:
            words += f", RPC message of {len(rest)} bytes with that xid"
            rest = rest[4:]
        elif rest:
            words += f", {len(rest)} bytes"
        if direction == 1 and xid not in self._rpcs:
            self._backward.add(xid)
        self._rpc(xid).add(Line(f"{'><'[direction]} {what}: {words}", rest))
        if xid in self._backward:
            self._backward_order.append(Line(f"{'><'[direction]} Send {xid}"))
        else:
            self._note(direction, f"Send {xid}")

    def _header(self, direction, owner, payload):
        at, new = 0, set()

        def take(form):
            nonlocal at
            values = struct.unpack_from(form, payload, at)
            at += struct.calcsize(form)
            return values if len(values) > 1 else values[0]

        def segment():
            handle, length, offset = take(">IIQ")
            # A call offers what was registered for it; R_keys come again after a while.
            anew = direction == 0 and handle not in new
            new.add(handle)
            return self._segment(handle, length, offset, owner, anew)

        def segments():
            return "(" + " ".join(segment() for _ in range(min(take(">I"), 10000))) + ")"

        _, version, credits, proc = take(">IIII")
        words = f"vers {version} credits {credits} {PROC.get(proc, proc)}"
        if version != 1 or proc not in (0, 1, 4):
            return words, payload[at:]
        if proc == 4:
            error = take(">I")
            words += f" {ERR.get(error, error)}"
            if error == 1:
                words += " {} to {}".format(*take(">II"))
            return words, payload[at:]
        reads = []
        while (more := take(">I")):
            if more != 1:
                return words + f" a Read list that goes on with {more}", payload[at:]
            reads.append("@{} {}".format(take(">I"), segment()))
        if reads:
            words += f" Read list [{', '.join(reads)}]"
        chunks = []
        while (more := take(">I")):
            if more != 1:
                return words + f" a Write list that goes on with {more}", payload[at:]
            chunks.append(segments())
        if chunks:
            words += f" Write list [{', '.join(chunks)}]"
        if (more := take(">I")):
            if more != 1:
                return words + f" a Reply chunk that begins with {more}", payload[at:]
            words += f" Reply chunk {segments()}"
        return words, payload[at:]


class Capture:
    """All connections of a capture. @client: the last byte of the client's IPv6 address."""

    def __init__(self, path, client):
        self.connections = []
        self.cm = []
        self._client = client
        self._by_end = {}
        # What a CM REQ said, by who sent it and its communication ID.
        self._requests, self._mtus = {}, {}
        self._mads = set()
        for frame in frames(path):
            self._frame(frame)

    def _frame(self, frame):
        payload_length = struct.unpack_from(">H", frame, 14 + 4)[0]
        source = frame[14 + 23]
        ip = bytes(frame[14 + 40 + 8:14 + 40 + payload_length])
        opcode, flags = ip[0], ip[1]
        qpn = int.from_bytes(ip[5:8], "big")
        psn = int.from_bytes(ip[9:12], "big")
        # The invariant CRC behind, and what the payload is padded with.
        body = ip[12:len(ip) - 4 - (flags >> 4 & 3)]
        direction = 0 if source == self._client else 1
        if opcode == UD_SEND_ONLY:
            self._mad(direction, body[8:])
            return
        connection = self._by_end.get((1 - direction, qpn))
        if not connection:
            self.cm.append(Line(f"a packet {opcode:#x} of no connection"))
            return
        self.deliver(connection, direction, opcode & 0x1f, psn, body)

    def deliver(self, connection, direction, opcode, psn, body):
        """A packet of a connection, behind its BTH; tests change it here."""
        connection.packet(direction, opcode, psn, body)

    def _mad(self, direction, mad):
        if len(mad) < 256 or mad[1] != 7:
            self.cm.append(Line(f"a MAD of class {mad[1] if len(mad) > 1 else 'none'}"))
            return
        attribute = struct.unpack_from(">H", mad, 16)[0]
        local, remote = struct.unpack_from(">II", mad, 24)
        again = (direction, attribute, local, remote, mad[8:16])
        words = f"{'server' if direction else 'client'}: {CM.get(attribute, hex(attribute))}"
        if again in self._mads:
            self.cm.append(Line(words + " again"))
            return
        self._mads.add(again)
        private = mad[CM_PRIVATE.get(attribute, 24 + 8):256]
        if attribute == 0x10:
            # REQ: local CM ID 0, service 8, local QPN 32, then counts and times in the words that follow.
            qpn = int.from_bytes(mad[24 + 32:24 + 35], "big")
            self._requests[direction, local] = qpn
            words += (f" responder resources {mad[24 + 35]}, initiator depth {mad[24 + 39]}, "
                      f"flow control {mad[24 + 43] & 1}, retries {mad[24 + 47] & 7}, RNR retries {mad[24 + 50] & 7}, "
                      f"path MTU {128 << (mad[24 + 50] >> 4)}, SRQ {mad[24 + 51] >> 3 & 1}")
            self._mtus[direction, local] = 128 << (mad[24 + 50] >> 4)
            private = private[CM_HEADER:]
        elif attribute == 0x13:
            qpn = int.from_bytes(mad[24 + 12:24 + 15], "big")
            theirs = self._requests.get((1 - direction, remote))
            if theirs is None:
                raise Damaged("a CM REP without its REQ: the capture begins too late")
            ends = [0, 0]
            ends[direction], ends[1 - direction] = qpn, theirs
            connection = Connection(len(self.connections) + 1, self._mtus[1 - direction, remote])
            self.connections.append(connection)
            for side in (0, 1):
                self._by_end[side, ends[side]] = connection
            words += (f" (connection {connection.number}) responder resources {mad[24 + 24]}, initiator depth "
                      f"{mad[24 + 25]}, flow control {mad[24 + 26] & 1}, RNR retries {mad[24 + 27] >> 5}, "
                      f"SRQ {mad[24 + 27] >> 4 & 1}")
        elif attribute == 0x12:
            words += f" reason {struct.unpack_from('>H', mad, 24 + 10)[0]}"
        self.cm.append(Line(words, private))

    def streams(self):
        """[(name, [Line])]: connection management, then each connection's."""
        found = [("connection management", self.cm)]
        for connection in self.connections:
            found += connection.streams()
        return found
