# SPDX-License-Identifier: GPL-2.0-only
"""`rpcordma status --prometheus`: Prometheus' text format 0.0.4, for the node exporter's textfile collector.

A metric's samples stand together, behind its HELP and TYPE; no two samples have the same name and labels. Counters that a
newer module has get a metric of their own, with a general text.
"""

import re

from . import parse

CLIENT_COUNTERS = {
    "connects": "Connections made; more than one are reconnects.",
    "sends": "Calls sent.",
    "recvs": "Replies received.",
    "bad_xids": "Replies that no call waited for.",
    "read_chunk_count": "Segments offered in Read chunks.",
    "write_chunk_count": "Segments offered in Write chunks.",
    "reply_chunk_count": "Segments offered in Reply chunks.",
    "total_rdma_request": "Bytes in segments offered in Write and Reply chunks.",
    "total_rdma_reply": "Bytes that came by Write chunk and Reply chunk.",
    "pullup_copy_count": "Bytes of calls copied to go inline.",
    "fixup_copy_count": "Bytes of replies copied to pages.",
    "hardway_register_count": "Buffers replaced by larger ones.",
    "failed_marshal_count": "Calls that could not be sent as they were.",
    "bad_reply_count": "Messages and grants that were not to be believed, and errors.",
    "nomsg_call_count": "Calls sent as RDMA_NOMSG.",
    "mrs_recycled": "Regions still mapped when their connection ended.",
    "mrs_allocated": "Regions made.",
    "mrs_orphaned": "Regions given up; rpcordma gives up none.",
    "req_u": "Calls that were outstanding, summed at each call.",
    "bklog_u": "Calls that waited for a slot, summed at each call.",
    "local_inv_needed": "LOCAL_INV work requests posted.",
    "empty_sendctx_q": "Times that a call waited for room in the send queue, or for regions.",
    "bcall_count": "Backward calls handed to the callback service.",
    "group_count": "Calls sent in several messages.",
    "sent_item_count": "Calls whose payload went in Sends.",
    "gathered_item_count": "Calls whose payload went in Sends, out of their own pages.",
    "asked_item_count": "Calls that asked for the payload of their replies in Sends.",
    "received_item_count": "Replies whose payload came in Sends.",
    "credits_short": "Calls that went by a chunk for want of credits.",
    "reserve_short": "Calls that offered a Reply chunk for want of Receives.",
    "reply_group_count": "Replies that came in several messages.",
    "repterr_count": "Reports that a call of several messages was not taken.",
    "scratch_count": "Regions that got scratch memory for a cancelled call.",
}
# What mountstats counts that is no sum of events.
NO_COUNTERS = {"port", "bind_count", "idle_time", "swap_files", "reply_waits", "connect_time"}
SERVER_COUNTERS = {
    "recv": "Calls received.",
    "read": "RDMA Reads posted.",
    "write": "RDMA Writes posted.",
    "sq_starve": "Times that an nfsd thread waited for room in a send queue.",
    "eager": "Calls whose Read chunks were fetched as soon as they came.",
    "held": "Calls whose RDMA Reads were left to an nfsd thread.",
    "debt": "Times that Receives could not be posted again at once.",
    "dropped": "Messages dropped in silence.",
    "refused": "Connections refused.",
    "err_vers": "ERR_VERS sent in version 1, or before a connection had a version.",
    "err_chunk": "ERR_CHUNK sent in version 1, or before a connection had a version.",
    "v2_connections": "Connections that came to version 2.",
    "grown": "Connections whose Receives have become large.",
    "lent_pages": "Pages of large Receives that nfsd got as they were.",
    "v2_foreign_keys": "Calls that name an R_key to invalidate that is none of theirs.",
    "v2_groups": "Calls of several messages that came whole.",
    "v2_sent_items": "Calls whose payload came in Sends.",
    "v2_reply_groups": "Replies of several messages.",
    "v2_sent_results": "Results of replies that went in Sends, where calls had directions for them.",
    "v2_groups_dropped": "Calls of several messages that were broken off or refused.",
    "v2_repterr": "Reports sent of what was wrong with a message of several.",
    "v2_repterr_received": "Such reports of a client's, of a reply.",
    **{f"v2_err_{name}": f"{name.upper()} sent in version 2." for name in
       ("vers", "bad_xdr", "reply_resource", "inval_proc", "inval_option", "system")},
}


def escape_label(value):
    return str(value).replace("\\", r"\\").replace("\n", r"\n").replace('"', r'\"')


def escape_help(text):
    return text.replace("\\", r"\\").replace("\n", r"\n")


def metric_name(name):
    name = re.sub(r"[^a-zA-Z0-9_:]", "_", name)
    return name if re.match(r"[a-zA-Z_:]", name) else "_" + name


class Metrics:
    def __init__(self):
        self._metrics = {}

    def add(self, name, kind, text, value, **labels):
        """One sample; None is none. The first text and kind of a metric are its own. Of samples of the same labels, which
        there must not be, the largest stays."""
        if value is None:
            return
        metric = self._metrics.setdefault(metric_name(name), (kind, text, {}))
        inside = ",".join(f'{metric_name(label)}="{escape_label(v)}"' for label, v in labels.items())
        labels = f"{{{inside}}}" if inside else ""
        metric[2][labels] = max(value, metric[2].get(labels, value))

    def text(self):
        lines = []
        for name, (kind, text, samples) in self._metrics.items():
            lines += [f"# HELP {name} {escape_help(text)}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{labels} {value}" for labels, value in samples.items()]
        return "\n".join(lines) + "\n"


def _connection(metrics, role, c, labels):
    def gauge(name, text, value):
        metrics.add(f"rpcordma_{role}_{name}", "gauge", text, value, **labels)

    state = {"connected": 1, "down": 0}.get(c["state"])
    gauge("connected", "Whether the connection is up.", state)
    gauge("protocol_version", "Version of RPC-over-RDMA.", c["version"])
    gauge("credits_granted", "Calls that may be outstanding.", c["credits"]["granted"])
    gauge("credits_in_use", "Calls that are outstanding.", c["credits"]["in_use"])
    gauge("inline_send_bytes", "Bytes that this end may send at once.", c["inline"]["send"])
    gauge("inline_receive_bytes", "Bytes that the peer may send at once.", c["inline"]["receive"])
    for name, value in c["messages"].items():
        gauge(name, {"receive_bytes": "Bytes of a message that this end receives.",
                     "receive_pages": "Pages of these, behind the first part.",
                     "peer_receive_bytes": "Bytes of a message that the peer says that it receives.",
                     "peer_receive_pages": "Pages of these, behind the first part."}[name], value)
    gauge("regions", "Memory regions of the connection.", c.get("regions"))
    gauge("receives", "Receives of the connection.", c["receives"])


def text(state):
    """All of it, as a text."""
    metrics = Metrics()
    module = state["module"]
    metrics.add("rpcordma_info", "gauge", "Which RDMA transport is loaded.", 1,
                module=module["name"] if module else "", kernel=state["kernel"] or "")
    for name, value in (module["parameters"] if module else {}).items():
        number = {"Y": 1, "N": 0}.get(value, parse.number(value))
        metrics.add("rpcordma_parameter", "gauge", "A parameter of the module.", number, parameter=name)
    for index, c in enumerate(state["client"]["connections"]):
        labels = {"peer": c["peer"], "connection": c["id"] or index}
        _connection(metrics, c["role"], c, labels)
        for queue, length in (c["queues"] or {}).items():
            metrics.add(f"rpcordma_{c['role']}_queue_length", "gauge", "Tasks that wait in a queue of sunrpc.", length,
                        queue=queue, **labels)
        for name, value in c["counters"].items():
            if name not in NO_COUNTERS:
                metrics.add(f"rpcordma_client_{name}_total", "counter",
                            CLIENT_COUNTERS.get(name, f"Counter {name} of the client's connection."), value, **labels)
        metrics.add("rpcordma_client_connect_seconds_total", "counter", "Seconds spent connecting.",
                    c["counters"].get("connect_time"), **labels)
    for mount in state["client"]["mounts"]:
        for name, op in mount["operations"].items():
            if not op.get("ops"):
                continue
            # One mount may hide another one at the same place. What is shown twice of one export is one file system in
            # two places, and its counters the same but for a moment: they are no sum.
            labels = {"mount": mount["mount"], "export": mount["export"], "operation": name}
            for field, suffix, help_text in (
                    ("ops", "operations_total", "Operations that were completed."),
                    ("queue_ms", "queue_milliseconds_total", "Milliseconds before the call was sent, summed."),
                    ("rtt_ms", "rtt_milliseconds_total", "Milliseconds from call to reply, summed."),
                    ("execute_ms", "execute_milliseconds_total", "Milliseconds of whole operations, summed."),
                    ("timeouts", "timeouts_total", "Major timeouts.")):
                metrics.add(f"rpcordma_mount_{suffix}", "counter", help_text, op.get(field), **labels)
    for index, c in enumerate(state["server"]["connections"]):
        labels = {"peer": c["peer"], "connection": index if c["number"] is None else c["number"]}
        _connection(metrics, "server", c, labels)
        metrics.add("rpcordma_server_waiting", "gauge", "Whether nfsd threads wait for room in the send queue.",
                    None if c["waiting"] is None else int(c["waiting"]), **labels)
    metrics.add("rpcordma_server_threads", "gauge", "nfsd threads.", state["server"]["threads"])
    if state["server"]["listeners"] is not None:
        metrics.add("rpcordma_server_listeners", "gauge", "RDMA ports that nfsd listens on.",
                    sum(line.startswith("rdma") for line in state["server"]["listeners"]))
    for name, value in state["server"]["counters"].items():
        metrics.add(f"rpcordma_server_{name}_total", "counter",
                    SERVER_COUNTERS.get(name, f"Counter {name} of the server."), value)
    return metrics.text()
