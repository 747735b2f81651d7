# SPDX-License-Identifier: GPL-2.0-only
"""What one RPC costs either machine of a lab: counters before and after some work, and their difference.

The same means for every transport: verbsmeter for verbs calls, rxe's own counters and the interface's for
the wire, trace points and kprobes counted by hist triggers in the kernel. They are read between pieces of
work, so what reading costs is in no difference of two pieces that differ in their number of calls only.

verbsmeter has to be loaded on the machines (disturb.up()).
"""

import re

from . import lab

TRACING = "/sys/kernel/tracing"
PROBES = "rpcordma_bench"
# {name: (event, what its hist trigger tells apart, the one that is counted, all without)}. svc_process is an
# RPC that the server took up; kinds of allocations are those of the whole machine.
EVENTS = {
    "wakeups": ("sched/sched_wakeup", "comm", None),
    "nfsd_wakeups": ("sched/sched_wakeup", "comm", "nfsd"),
    "calls": ("sunrpc/svc_process", "common_cpu", None),
    "enqueues": ("sunrpc/svc_xprt_enqueue", "common_cpu", None),
    "dequeues": ("sunrpc/svc_xprt_dequeue", "common_cpu", None),
    "kmalloc": ("kmem/kmalloc", "common_cpu", None),
    "slab": ("kmem/kmem_cache_alloc", "common_cpu", None),
    "pages": ("kmem/mm_page_alloc", "common_cpu", None),
    "mrs_made": (f"{PROBES}/alloc_mr", "common_cpu", None),
}
TRIGGERS = sorted({(event, key) for event, key, _ in EVENTS.values()})


def watch(vm):
    """Starts counting on @vm; once in its life, with sunrpc loaded."""
    vm.run(f"modprobe -a sunrpc ib_core && cd {TRACING} && echo 'p:{PROBES}/alloc_mr ib_alloc_mr' >> kprobe_events "
           "|| die 'no kprobe on ib_alloc_mr'; "
           + "".join(f"echo 'hist:keys={key}' > events/{event}/trigger || die 'no hist of {event}'; "
                     for event, key in TRIGGERS), 30, "count events")


def _script(device, netdev):
    return (f"sed 's/^/verbs /' /sys/kernel/debug/verbsmeter/{device}/total; "
            f"for f in /sys/class/infiniband/{device}/ports/1/hw_counters/*; do "
            "[ ${f##*/} = lifespan ] || echo rxe ${f##*/} $(cat $f); done; "
            f"for f in /sys/class/net/{netdev}/statistics/?x_*s; do echo net ${{f##*/}} $(cat $f); done; "
            "sed -n 's/^ctxt/proc ctxt/p' /proc/stat; "
            + "".join(f"echo hist {event} {key}; cat {TRACING}/events/{event}/hist; "
                      for event, key in TRIGGERS))


def _parse(text):
    counts, hits, event = {}, {}, None
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["hist"]:
            event = (words[1], words[2])
        elif words[:1] in (["verbs"], ["proc"]):
            counts[words[1]] = int(words[2])
        elif words[:1] in (["rxe"], ["net"]):
            counts[f"{words[0]}_{words[1]}"] = int(words[2])
        elif event and (found := re.match(r"\{ \w+: +(.*?) *\} hitcount: +(\d+)", line)):
            hits.setdefault(event, {})[found.group(1)] = int(found.group(2))
        elif event and words[:1] == ["Dropped:"] and int(words[1]):
            raise lab.LabError(f"the hist trigger of {event[0]} dropped {words[1]} events")
    for name, (event, key, only) in EVENTS.items():
        found = hits.get((event, key), {})
        counts[name] = found.get(only, 0) if only else sum(found.values())
    return counts


def snapshot(pair):
    """{role: {counter: value}}; both machines are read at the same time."""
    jobs = {vm.name: vm.spawn(_script(f"{pair.device}0", "eth0"), "read counters")
            for vm in (pair.client, pair.server)}
    return {role: _parse(job.wait(60)) for role, job in jobs.items()}


def _less(a, b):
    return {role: {name: a[role][name] - b[role].get(name, 0) for name in a[role]} for role in a}


class Disturbed(lab.LabError):
    """More calls than were asked for, or fewer, in each of several attempts."""


def per_call(pair, few, many, calls=None, attempts=3, take=snapshot):
    """{role: {counter: of each call}}: what @many() counts less what @few() does, divided by the calls that
    the server took up meanwhile. These are @calls where that is known: else something else was counted as
    well, and it is done again.

    Each is done once more beforehand, uncounted, so that what it has to learn (attributes, access) is known, and
    there is as much of everything as it takes. @take(pair) reads the counters, as snapshot() does.
    """
    few()
    many()
    for _ in range(attempts):
        at = [take(pair)]
        for work in (few, many):
            work()
            at.append(take(pair))
        cost = _less(_less(at[2], at[1]), _less(at[1], at[0]))
        seen = cost["server"]["calls"]
        if seen > 0 and (calls is None or seen == calls):
            return {role: {name: value / seen for name, value in counts.items()}
                    for role, counts in cost.items()}, seen
    raise Disturbed(f"the server took up {seen} calls, {calls or 'some'} were to be counted")


def per_null(pair, count, options, take=snapshot):
    """As per_call(), of @count NULLs: what as many mounts whose client asks whether the server knows the ACL protocol
    cost more than those of a client that does not. Their transport is that of another mount, NFSv3 with @options,
    which stays."""
    def mounts(acl):
        pair.client.run(f"for i in $(seq {count}); do nfs_mount 3 {options},nolock,nosharecache,{acl} /null"
                        " && umount /null || exit 1; done", 120, f"{count} mounts, {acl}")

    return per_call(pair, lambda: mounts("noacl"), lambda: mounts("acl"), count, take=take)
