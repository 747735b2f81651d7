# SPDX-License-Identifier: GPL-2.0-only
"""What all files of the kernel say together of the RDMA transport of this machine, ours or the in-tree one.

A connection of a client is in up to three places: debugfs (ours alone; all that there is), sysfs of sunrpc (state,
credits, queues; from Linux 5.14 on) and mountstats (counters). None of them names it in the same way, so entries of the
same server are put together by the numbers that two places share. What no place says is None.

The dictionary that collect() returns is what `rpcordma status --json` prints; status.schema.json describes it.
"""

import re
import time

from . import parse, system

FORMAT, FORMAT_VERSION = "rpcordma-status", 1
MODULES = ("rpcordma", "rpcrdma")
# Credits in sysfs are in units of sunrpc's RPC_CWNDSCALE.
CWNDSCALE = 256
NFS_RDMA_PORT = "20049"

CLIENT_SETTINGS = ("rdma_slot_table_entries", "rdma_max_inline_read", "rdma_max_inline_write")
SERVER_SETTINGS = ("max_requests", "max_req_size", "max_outbound_read_requests")
SERVER_COUNTERS = ("rdma_stat_recv", "rdma_stat_read", "rdma_stat_write", "rdma_stat_sq_starve")
# In debugfs beside them; errors that the server sent.
SERVER_ERRORS = re.compile(r"err_vers|err_chunk|v2_err_\w+")


def _host(peer):
    return parse.split_address(peer)[0]


def _nearest(candidates, distance):
    """Of @candidates the one of the least distance(); None without any."""
    return min(candidates, key=distance, default=None)


def _debugfs_clients(machine, unknown):
    text = machine.read(system.STATS)
    if text is None:
        return None
    blocks, lines = parse.client_stats(text)
    unknown += lines
    return blocks


def _sysfs_clients(machine, unknown):
    """[{"id", "peer", "connected", "granted", "in_use", "queues"}] of the sysfs of sunrpc; None where there is none."""
    if not machine.exists(system.SUNRPC):
        machine.sources["/" + system.SUNRPC] = system.ABSENT
        return None
    machine.sources["/" + system.SUNRPC] = system.READ
    found = []
    for switch in machine.names(system.SUNRPC):
        for name in machine.names(f"{system.SUNRPC}/{switch}"):
            if not re.fullmatch(r"xprt-\d+-rdma6?", name):
                continue
            folder = f"{system.SUNRPC}/{switch}/{name}"
            host = machine.word(f"{folder}/dstaddr")
            if not host:
                continue
            state = machine.word(f"{folder}/xprt_state") or ""
            info, lines = parse.xprt_info(machine.read(f"{folder}/xprt_info", note=False) or "")
            unknown += lines
            port = info.get("dst_port", parse.number(NFS_RDMA_PORT))
            queues = {q: info[f"{q}_q_len"] for q in ("binding", "sending", "pending", "backlog")
                      if f"{q}_q_len" in info}
            found.append({
                "id": name, "peer": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
                "connected": "CONNECTED" in state.partition("=")[2].split() if state else None,
                "granted": info["cong_win"] // CWNDSCALE if "cong_win" in info else None,
                "in_use": info["cur_cong"] // CWNDSCALE if "cur_cong" in info else None,
                "queues": queues or None})
    return found


def _messages(get, own, own_pages, peer, peer_pages):
    """What each end says that it receives; 0 is said of a connection that there is not."""
    return {"receive_bytes": get(own) or None, "receive_pages": get(own_pages) if get(own) else None,
            "peer_receive_bytes": get(peer) or None, "peer_receive_pages": get(peer_pages) if get(peer) else None}


def _client(peer):
    return {"id": None, "role": "client", "peer": peer, "version": None, "version_why": None, "state": "unknown",
            "credits": {"granted": None, "in_use": None}, "inline": {"send": None, "receive": None},
            "messages": _messages(lambda name: None, *[""] * 4), "regions": None, "receives": None, "reconnects": None,
            "errors": None, "waits": None, "queues": None, "mounts": [], "counters": {}, "sources": []}


def _take_debugfs(one, block):
    get = block.get
    one["sources"].append("debugfs")
    one["version"], one["version_why"] = get("version") or None, get("version_why") or None
    one["messages"] = _messages(get, "receive_size", "receive_pages", "peer_receive_size", "peer_receive_pages")
    if "connected" in block:
        one["state"] = "connected" if block["connected"] else "down"
    one["credits"] = {"granted": get("window"), "in_use": get("outstanding")}
    # 0 is said of a connection that there is not.
    one["inline"] = {"send": get("inline_send") or None, "receive": get("inline_receive") or None}
    one["regions"], one["receives"] = get("regions"), get("receives")
    state = {"peer", "connected", "window", "outstanding", "version", "inline_send", "inline_receive", "regions",
             "receives", "version_why", "receive_size", "receive_pages", "peer_receive_size", "peer_receive_pages"}
    one["counters"].update({name: value for name, value in block.items() if name not in state})


def _take_sysfs(one, entry):
    one["sources"].append("sysfs")
    one["id"], one["queues"] = entry["id"], entry["queues"]
    if one["state"] == "unknown" and entry["connected"] is not None:
        one["state"] = "connected" if entry["connected"] else "down"
    for name in ("granted", "in_use"):
        if one["credits"][name] is None:
            one["credits"][name] = entry[name]


def _take_mountstats(one, xprt, mount):
    if mount["mount"] not in one["mounts"]:
        one["mounts"].append(mount["mount"])
    if "mountstats" in one["sources"]:
        return
    one["sources"].append("mountstats")
    for name, value in xprt.items():
        one["counters"].setdefault(parse.LONG_NAMES.get(name, name), value)


def _sum(counters, names):
    return sum(counters[name] for name in names) if all(name in counters for name in names) else None


def _clients(machine, mounts, in_tree, unknown):
    blocks = _debugfs_clients(machine, unknown)
    entries = _sysfs_clients(machine, unknown)
    clients = []

    for block in blocks or []:
        clients.append(_client(block["peer"]))
        _take_debugfs(clients[-1], block)
    for entry in entries or []:
        def distance(one, entry=entry):
            credits = one["credits"]
            return (abs((credits["granted"] or 0) - (entry["granted"] or 0)) * 16 +
                    abs((credits["in_use"] or 0) - (entry["in_use"] or 0)) +
                    10000 * ((one["state"] == "connected") != bool(entry["connected"])))

        one = _nearest([c for c in clients if _host(c["peer"]) == _host(entry["peer"]) and not c["id"]], distance)
        if not one:
            one = _client(entry["peer"])
            # nfsd's own, to call a client back over the client's connection: no client of ours, which debugfs has
            # all of, and no server is at port 0.
            if blocks is not None or parse.split_address(entry["peer"])[1] == "0":
                one["role"] = "callback"
            clients.append(one)
        _take_sysfs(one, entry)
    alone = not any(c["role"] == "client" for c in clients)
    seen = {}
    for mount in mounts:
        for xprt in mount["xprts"]:
            address = mount["address"] or "unknown"
            if alone:
                # Mounts of one server share connections: the same numbers are the same one.
                key = (address, tuple(xprt.values()))
                if key not in seen:
                    seen[key] = _client(f"[{address}]" if ":" in address else address)
                    clients.append(seen[key])
                _take_mountstats(seen[key], xprt, mount)
                continue

            def distance(one, xprt=xprt):
                counters = one["counters"]
                # One that sysfs alone knows shares no number; the first such one is as good as any.
                return sum(abs(counters[long] - xprt[short]) for short, long in parse.LONG_NAMES.items()
                           if long in counters)

            def free(one, mount=mount):
                return mount["mount"] not in one["mounts"]

            here = [c for c in clients if c["role"] == "client" and _host(c["peer"]) == address and free(c)]
            known = [c for c in here if "debugfs" in c["sources"]]
            one = _nearest(known or here, distance)
            if one:
                _take_mountstats(one, xprt, mount)
    for one in clients:
        counters = one["counters"]
        if "connects" in counters:
            one["reconnects"] = max(counters["connects"] - 1, 0)
        # The in-tree transport counts calls that wait for regions as failed, too, and sends them later.
        one["errors"] = _sum(counters, ("bad_reply_count",) if in_tree else ("bad_reply_count", "failed_marshal_count"))
        one["waits"] = counters.get("empty_sendctx_q")
    return clients


def _servers(machine, module, unknown):
    text = machine.read(system.CONNECTIONS)
    connections = []
    if text is not None:
        found, lines = parse.server_connections(text)
        unknown += lines
        for entry in found:
            get = entry.get
            state = "unknown"
            if "established" in entry:
                state = "connected" if entry["established"] else "down"
            connections.append({
                "number": entry["number"], "peer": entry["peer"], "version": get("version") or None,
                "version_why": get("why") or None, "state": state,
                "messages": _messages(get, "receive", "pages", "peer_receive", "peer_pages"),
                "credits": {"granted": get("credits"), "in_use": get("calls")},
                "inline": {"send": get("inline_send"), "receive": get("inline_receive")},
                "receives": get("receives"), "waiting": None if get("waiting") is None else bool(get("waiting")),
                "device": None, "source": "debugfs"})
    elif module:
        # The connection manager knows whom it has connected, of either module.
        printed = machine.run("rdma", "-j", "resource", "show", "cm_id")
        found, lines = parse.cm_ids(printed or "", MODULES)
        unknown += lines
        for entry in found:
            if entry["state"] == "CONNECT" and entry["local"].endswith(":" + NFS_RDMA_PORT):
                connections.append({
                    "number": None, "peer": entry["peer"], "version": None, "version_why": None, "state": "connected",
                    "messages": _messages(lambda name: None, *[""] * 4),
                    "credits": {"granted": None, "in_use": None}, "inline": {"send": None, "receive": None},
                    "receives": None, "waiting": None, "device": entry["device"], "source": "rdma"})
    return connections


def settings(machine, folder, names):
    """{name: int} of sysctls below /proc/sys/@folder, those that can be read."""
    values = {name: parse.number(machine.word(f"proc/sys/{folder}/{name}")) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def parameters(machine, module):
    """{name: text} of the module's parameters."""
    folder = f"sys/module/{module}/parameters"
    values = {name: machine.word(f"{folder}/{name}") for name in machine.names(folder)}
    return {name: value for name, value in values.items() if value is not None}


def listeners(machine):
    """What nfsd listens on, as "rdma 20049"; None where there is no nfsd."""
    text = machine.read("proc/fs/nfsd/portlist")
    return None if text is None else [line.strip() for line in text.splitlines() if line.strip()]


def collect(machine):
    """All of it."""
    unknown = []
    loaded = [name for name in MODULES if machine.exists(f"sys/module/{name}")]
    module = loaded[0] if loaded else None
    text = machine.read(system.MOUNTSTATS)
    mounts, lines = parse.mountstats(text or "")
    unknown += lines
    addresses = parse.mount_addresses(machine.read("proc/mounts") or "")
    for mount in mounts:
        mount["address"] = addresses.get(mount["mount"])
    clients = _clients(machine, mounts, module == "rpcrdma", unknown) if module or mounts else []
    server_counters = {}
    text = machine.read(system.COUNTERS) if module else None
    if text is not None:
        server_counters, lines = parse.counters(text)
        unknown += lines
    for name, value in settings(machine, "sunrpc/svc_rdma", SERVER_COUNTERS).items():
        server_counters.setdefault(name.replace("rdma_stat_", ""), value)
    return {
        "format": FORMAT, "format_version": FORMAT_VERSION, "time": round(time.time(), 3),
        "host": machine.word("proc/sys/kernel/hostname"), "kernel": machine.release(),
        "lockdown": machine.lockdown(),
        "module": module and {"name": module, "in_tree": module == "rpcrdma",
                              "parameters": parameters(machine, module)},
        "client": {"settings": settings(machine, "sunrpc", CLIENT_SETTINGS), "connections": clients,
                   "mounts": [{"mount": m["mount"], "export": m["export"], "address": m["address"],
                               "version": m["version"],
                               "operations": {name: op for name, op in m["ops"].items() if op["ops"]}} for m in mounts]},
        "server": {"settings": settings(machine, "sunrpc/svc_rdma", SERVER_SETTINGS),
                   "listeners": listeners(machine),
                   "threads": parse.number((machine.read("proc/fs/nfsd/threads") or "").strip()),
                   "counters": server_counters,
                   "errors": sum(v for n, v in server_counters.items() if SERVER_ERRORS.fullmatch(n))
                   if "err_chunk" in server_counters else None,
                   "connections": _servers(machine, module, unknown) if module else []},
        "sources": [{"name": name, "outcome": outcome} for name, outcome in machine.sources.items()],
        "not_understood": unknown,
    }
