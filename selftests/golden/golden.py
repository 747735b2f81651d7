# SPDX-License-Identifier: GPL-2.0-only
"""The golden messages: reading their files (README.rst), and whether these agree with themselves."""

import glob
import os
import re
import struct

HERE = os.path.dirname(os.path.realpath(__file__))
MESSAGES = os.path.join(HERE, "messages")

KINDS = ("message", "short", "version-1", "other-version", "private")
# Of a judgement, the first word.
JUDGEMENTS = ("good", "drop", "BAD_XDR", "INVAL_PROC", "INVAL_OPTION", "SYSTEM", "ERR_VERS", "REPTERR", "EIO", "mark", "no")
REPTERRS = ("BADHMT", "BADOMT", "BADCONT", "BADSEQ", "BADXID", "BADOFF", "BADTBSN", "BADPL")
GIVEN = ("UNSET", "V1", "V2", "state", "grown")
ONCE = ("name", "kind", "shows", "to", "given", "xdr", "open", "judgement", "sequence")

# Least lengths of good headers by proc; of errors by their code, of RDMA2_OPTIONAL by opttype.
LEAST = {0: 36, 1: 36, 6: 24, 7: 20, 8: 28, 9: 20}
LEAST_ERROR = {1: 28, 2: 20, 3: 28, 4: 20, 5: 20, 6: 20}
LEAST_OPTIONAL = {1: 48, 2: 40, 3: 40, 4: 48}


class Wrong(Exception):
    """What is wrong with a golden file."""


class Message:
    """One message. @data: its bytes. @fields: [(name, value)] in the order of the wire."""

    def __init__(self, where):
        self.where = where
        self.said = {}
        self.data = b""
        self.fields = []

    def __getattr__(self, name):
        if name in ONCE:
            return self.said.get(name, "")
        raise AttributeError(name)

    @property
    def what(self):
        return self.said.get("kind", "message")

    def after(self):
        """Names of the messages that came before on this connection."""
        if self.given.startswith("after:"):
            return self.given[6:].split(",")
        if self.given == "V2":
            return ["connprop-client", "connprop-server"]
        if self.given == "grown":
            return ["connprop-client", "connprop-server", "updprop-grown"]
        return []

    def alone(self):
        """Is all that judges it in the messages? Not where limits or calls under way do."""
        return self.given not in ("state", "V1", "UNSET")

    def value(self, name):
        return dict(reversed(self.fields)).get(name)

    def header(self):
        """The length of its header, of a message that decodes."""
        return len(self.data) - (self.value("payload_length") or 0) - (self.value("rest_length") or 0)


class Sequence:
    """A conversation. @steps: [(who sends, message's name, what its receiver makes of it)]. @whole: {a step's number, from 0:
    the bytes of the RPC message that is whole then}."""

    def __init__(self, where):
        self.where = where
        self.said = {}
        self.steps = []
        self.whole = {}

    name = property(lambda self: self.said["sequence"])


def _bytes(line, where):
    match = re.fullmatch(r"([0-9a-f]+)(?: x (\d+))?  \S.*", line)
    if not match or len(match.group(1)) % 2:
        raise Wrong(f"{where}: not bytes in hexadecimal with words behind: {line}")
    return bytes.fromhex(match.group(1)) * int(match.group(2) or 1)


def _read(path, messages, sequences):
    one, inside = None, None
    for number, line in enumerate(open(path, encoding="utf-8").read().splitlines(), 1):
        where = f"{os.path.basename(path)}:{number}"
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("\t"):
            if inside == "bytes":
                one.data += _bytes(line[1:], where)
            elif inside == "whole":
                one.whole[len(one.steps) - 1] += _bytes(line[1:], where)
            elif inside == "fields":
                name, equals, value = line[1:].partition("=")
                if not equals:
                    raise Wrong(f"{where}: not a field")
                one.fields.append((name, int(value, 0)))
            else:
                raise Wrong(f"{where}: a line that belongs to nothing")
            continue
        key, colon, value = line.partition(":")
        value = value.strip()
        inside = key
        if not colon:
            raise Wrong(f"{where}: no key")
        if key in ("name", "sequence"):
            one = Message(where) if key == "name" else Sequence(where)
            (messages if key == "name" else sequences).append(one)
        if not one:
            raise Wrong(f"{where}: before the first name")
        if key in ("bytes", "fields") and isinstance(one, Message) and not value:
            if key in one.said:
                raise Wrong(f"{where}: {key} twice")
            one.said[key] = True
        elif key == "step" and isinstance(one, Sequence):
            who, name, outcome = re.fullmatch(r"(\S+) (\S+): (.*)", value).groups()
            one.steps.append((who, name, outcome))
        elif key == "whole" and isinstance(one, Sequence) and one.steps and not value:
            one.whole[len(one.steps) - 1] = b""
        elif key in ONCE and key not in one.said:
            one.said[key] = value
        else:
            raise Wrong(f"{where}: {key} is unknown, or twice")


def read(folder=MESSAGES):
    """([Message], [Sequence]) of all files."""
    messages, sequences = [], []
    for path in sorted(glob.glob(os.path.join(folder, "*.txt"))):
        _read(path, messages, sequences)
    if not messages or not sequences:
        raise Wrong(f"no messages in {folder}")
    return messages, sequences


def _fields_are_words(m):
    """Each field is a word of the message, behind that of the field before."""
    words = [struct.unpack_from(">I", m.data, at)[0] for at in range(0, len(m.data) - 3, 4)]
    at = 0
    for name, value in m.fields:
        if name in ("payload_length", "rest_length"):
            continue
        wanted = [value >> 32, value & 0xffffffff] if name == "rdma_offset" else [value]
        # Lists are not counted on the wire: their end is a word of zero.
        if name in ("reads_count", "writes_count"):
            wanted = [0]
        # Unknown properties' data, and words without a field of their own, are passed over.
        while at + len(wanted) <= len(words) and words[at:at + len(wanted)] != wanted:
            at += 1
        if at + len(wanted) > len(words):
            return f"{name}={value} is no word of the message, or not in this place"
        at += len(wanted)
    return None


def _message(m, names):
    for key in ("name", "shows", "to", "xdr", "judgement", "bytes", "fields"):
        if key not in m.said:
            return f"no {key}"
    if m.to not in ("server", "client"):
        return f"to {m.to}"
    if m.what not in KINDS:
        return f"kind {m.what}"
    if m.xdr not in ("good", "bad", "value"):
        return f"xdr {m.xdr}"
    words = m.judgement.split()
    if words[0] not in JUDGEMENTS or words[0] == "REPTERR" and words[1:] not in [[e] for e in REPTERRS] or \
            words[0] == "ERR_VERS" and len(words) != 3:
        return f"judgement {m.judgement}"
    if m.given and m.given not in GIVEN and not m.given.startswith("after:"):
        return f"given {m.given}"
    for name in m.after():
        if name not in names:
            return f"{name} does not exist"
    if m.what == "short":
        return None if len(m.data) < 16 and m.judgement == "drop" else "16 bytes are not too short"
    if m.what == "private":
        return None if (m.value("private_mark") is not None) >= (m.judgement == "mark") else "a mark without its field"
    if len(m.data) < 16:
        return "under 16 bytes"
    version = struct.unpack_from(">I", m.data, 4)[0]
    if (m.what == "message") != (version == 2) or (m.what == "version-1") != (version == 1):
        return f"{m.what} has version {version}"
    first = [(n, struct.unpack_from(">I", m.data, 4 * i)[0])
             for i, n in enumerate(("xid", "version", "flow_control", "msg_type"))]
    if m.fields[:4] != first:
        return "the first four fields are not the first four words"
    if m.what != "message":
        return None
    wrong = _fields_are_words(m)
    if wrong:
        return wrong
    if m.xdr != "good":
        return f"xdr {m.xdr} and judged {m.judgement}" if m.judgement == "good" else None
    if words[0] in ("good", "BAD_XDR", "REPTERR") and m.value("msg_type") not in (*LEAST, 4, 5):
        return "a proc that there is not"
    least = LEAST.get(m.value("msg_type"))
    if m.value("msg_type") == 4:
        least = LEAST_ERROR[m.value("errcode")]
    elif m.value("msg_type") == 5:
        least = LEAST_OPTIONAL.get(m.value("opttype"), 28)
        if m.value("optinfo_length") is not None and m.value("opttype") in LEAST_OPTIONAL and \
                m.header() != 28 + m.value("optinfo_length"):
            return f"a header of {m.header()} bytes with optinfo of {m.value('optinfo_length')}"
    if m.header() < (least or 16):
        return f"a header of {m.header()} bytes, {least} are the least"
    return None


def _sequence(s, messages):
    if "shows" not in s.said or len(s.steps) < 2:
        return "it shows nothing, or has no steps"
    for who, name, outcome in s.steps:
        if name not in messages:
            return f"{name} does not exist"
        if who not in ("client", "server") or who == messages[name].to:
            return f"{name} is sent by the {who}"
        if not outcome:
            return f"nothing comes of {name}"
    for i, (_, name, outcome) in enumerate(s.steps):
        said, there = re.match(r"whole: (\d+) bytes", outcome), s.whole.get(i)
        if said and (there is None or len(there) != int(said.group(1))):
            return f"{name}: {said.group(1)} bytes are whole, and {'none' if there is None else len(there)} stand behind whole:"
    return None


def judge(messages, sequences):
    """[(name, what is wrong with it or None)]."""
    by_name = {m.name: m for m in messages}
    seen, found = set(), []
    for one in (*messages, *sequences):
        name = one.name
        wrong = f"{name} is there twice" if name in seen else \
            _message(one, by_name) if isinstance(one, Message) else _sequence(one, by_name)
        seen.add(name)
        found.append((name, wrong and f"{one.where}: {wrong}"))
    return found
