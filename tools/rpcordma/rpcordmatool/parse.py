# SPDX-License-Identifier: GPL-2.0-only
"""The formats of the kernel's files. Each function takes a file's text and returns what it says, and the lines that
it did not understand: a newer module may say more, and nothing that it says is lost or an error.
"""

import json
import re

# The numbers behind "xprt: rdma" in mountstats. Both transports print these, and all of them.
XPRT_FIELDS = """
    port bind_count connect_count connect_time idle_time sends recvs bad_xids req_u bklog_u
    read_chunks write_chunks reply_chunks total_request total_reply pullup fixup hardway
    failed_marshal bad_reply nomsg_calls mrs_recycled mrs_orphaned mrs_allocated local_inv
    empty_sendctx reply_waits
""".split()
# The numbers of an operation in mountstats; a newer kernel may print more.
OP_FIELDS = "ops trans timeouts bytes_sent bytes_recv queue_ms rtt_ms execute_ms errors".split()

# The names of mountstats that debugfs has, too, under longer ones.
LONG_NAMES = {
    "connect_count": "connects", "bad_xids": "bad_xids", "read_chunks": "read_chunk_count",
    "write_chunks": "write_chunk_count", "reply_chunks": "reply_chunk_count",
    "total_request": "total_rdma_request", "total_reply": "total_rdma_reply",
    "pullup": "pullup_copy_count", "fixup": "fixup_copy_count", "hardway": "hardway_register_count",
    "failed_marshal": "failed_marshal_count", "bad_reply": "bad_reply_count",
    "nomsg_calls": "nomsg_call_count", "mrs_recycled": "mrs_recycled",
    "mrs_orphaned": "mrs_orphaned", "mrs_allocated": "mrs_allocated", "local_inv": "local_inv_needed",
    "empty_sendctx": "empty_sendctx_q",
}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def number(text):
    """The integer that @text is, or None."""
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def split_address(address):
    """("10.0.0.1", "20049") of "10.0.0.1:20049", ("fd00::1", "20049") of "[fd00::1]:20049". A port that is not there
    is None."""
    m = re.fullmatch(r"\[(.*)\](?::(\d+))?", address) or re.fullmatch(r"([^:]*)(?::(\d+))?", address)
    return (m.group(1), m.group(2)) if m else (address, None)


def client_stats(text):
    """/sys/kernel/debug/rpcordma/stats: [{"peer": text, name: int, ...}], lines."""
    blocks, unknown = [], []
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if colon and name == "transport" and value:
            blocks.append({"peer": value})
        elif colon and blocks and _NAME.fullmatch(name) and number(value) is not None:
            blocks[-1][name] = int(value)
        elif blocks and name == "version_why":
            blocks[-1][name] = value
        elif line.strip():
            unknown.append(line)
    return blocks, unknown


def server_connections(text):
    """.../server/connections: [{"number": int, "peer": text, name: int, ...}], lines. "why" is text, the rest of its line."""
    connections, unknown = [], []
    for whole in text.splitlines():
        line, has_why, why = whole.partition(" why=")
        words = line.split()
        if len(words) < 2 or number(words[0]) is None:
            if words:
                unknown.append(line)
            continue
        one = {"number": int(words[0]), "peer": words[1]}
        if has_why:
            one["why"] = why
        strange = []
        for word in words[2:]:
            name, equals, value = word.partition("=")
            if equals and _NAME.fullmatch(name) and name not in one and number(value) is not None:
                one[name] = int(value)
            else:
                strange.append(word)
        if strange:
            unknown.append(f"{words[0]} {words[1]} {' '.join(strange)}")
        connections.append(one)
    return connections, unknown


def counters(text):
    """.../server/counters: {name: int}, lines."""
    values, unknown = {}, []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and _NAME.fullmatch(words[0]) and number(words[1]) is not None:
            values[words[0]] = int(words[1])
        elif words:
            unknown.append(line)
    return values, unknown


def mount_addresses(text):
    """/proc/mounts: {mount point: the server's address} of what NFS mounts."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[2] in ("nfs", "nfs4"):
            for option in words[3].split(","):
                if option.startswith("addr="):
                    found[unescape(words[1])] = option[len("addr="):]
    return found


def unescape(path):
    """A mount point as /proc has it: blanks and the like in octal."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), path)


def mountstats(text):
    """/proc/self/mountstats: the mounts of NFS over RDMA, and lines.

    A mount is {"export", "mount", "version": of NFS, text or None, "xprts": [{name: int}],
    "ops": {name: {name: int}}}.
    """
    mounts, unknown = [], []
    one = None

    def end():
        if one and one["xprts"]:
            mounts.append(one)

    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == "device":
            end()
            one = None
            m = re.match(r"device (.*) mounted on (\S+) with fstype (nfs4?)(?: |$)", line)
            if m:
                one = {"export": unescape(m.group(1)), "mount": unescape(m.group(2)), "version": None,
                       "xprts": [], "ops": {}}
        elif one is None:
            continue
        elif words[0] == "opts:":
            options = dict(o.partition("=")[::2] for o in "".join(words[1:]).split(","))
            one["version"] = options.get("vers")
        elif words[:2] == ["xprt:", "rdma"]:
            values = [number(word) for word in words[2:]]
            # Fewer or other ones would each be taken for another one.
            if len(values) < len(XPRT_FIELDS) or None in values:
                unknown.append(line.strip())
            else:
                one["xprts"].append(dict(zip(XPRT_FIELDS, values)))
        elif re.fullmatch(r"[A-Z][A-Z0-9_]*:", words[0]) and one["xprts"]:
            values = [number(word) for word in words[1:]]
            if len(values) >= 8 and None not in values:
                one["ops"][words[0][:-1]] = dict(zip(OP_FIELDS, values))
    end()
    return mounts, unknown


def xprt_info(text):
    """/sys/kernel/sunrpc/xprt-switches/*/xprt-*/xprt_info: {name: int}, lines. Several pairs may share a line."""
    values, unknown = {}, []
    for line in text.splitlines():
        rest = re.sub(r"([A-Za-z_][A-Za-z0-9_]*)=(-?\d+)(?![^\s,])",
                      lambda m: values.update({m.group(1): int(m.group(2))}) or "", line).strip(" ,")
        if rest:
            unknown.append(line)
    return values, unknown


def cm_ids(text, modules):
    """`rdma -j resource show cm_id`: [{"device", "state", "local", "peer": text}] of the kernel's own of @modules."""
    try:
        entries = json.loads(text)
    except ValueError:
        return [], [text.strip()[:200]] if text.strip() else []
    found, unknown = [], []
    for entry in entries if isinstance(entries, list) else []:
        try:
            comm = str(entry.get("comm", "")).strip("[]")
            if comm not in modules:
                continue

            def address(end):
                # The port is behind the last colon, of IPv6 too: ":::20049".
                host, _, port = str(entry.get(f"{end}-addr", "")).rpartition(":")
                return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

            found.append({"device": str(entry.get("ifname", "")), "state": str(entry.get("state", "")),
                          "local": address("src"), "peer": address("dst")})
        except (AttributeError, TypeError):
            unknown.append(json.dumps(entry))
    return found, unknown
