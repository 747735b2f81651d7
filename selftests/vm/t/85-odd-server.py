# SPDX-License-Identifier: GPL-2.0-only
"""A client and servers that are odd, broken or hostile: selftests/verbs, run in the server in place of nfsd."""

import os
import re

from vmlib.testing import test

# Conversations that go on at once, each at a server's address of its own: most of them wait.
SERVERS = 8
# Conversations with NFSv4.1.
ALONE = ("odd-backward-", "odd-v2-backward-")
# Those in which version 2 is spoken. In the others the client has its mark as well, and the servers do not know it.
SECOND = "odd-v2-"
# And those of round-trip reduction, for which the client has it switched on.
GROUPS = "odd-rtr-"
# Of these, those for which its Receives need pages, which they have where a page has 4 KiB alone.
IN_PAGES = ("odd-rtr-item-",)
# One with the client's scratch_remap, which is for all of its mounts.
SCRATCH = "odd-scratch-"
# Longest that all of them may take, in seconds.
PATIENCE = 400


def bring_up(t):
    pair = t.lab()
    addresses = [f"10.0.0.{100 + i}" for i in range(SERVERS)]
    # Before the link: rxe takes the addresses that are there, and those that come.
    server = pair.server.spawn("net_up 1; " + "".join(f"ip addr add {a}/24 dev eth0; " for a in addresses)
                               + "rdma_up rxe; modprobe -a rdma_ucm ib_uverbs", "the server's network up")
    pair.client_net()
    pair.client_transport()
    server.wait(60)
    pair.client.until("ping -c 1 -W 1 10.0.0.1 > /dev/null", 20, "the server answers ping")
    pair.client.spawn("exec verbspeer hands", "hands at the client")
    return pair, addresses


@test("odd-server")
def odd_server(t):
    """servers that answer wrongly, late, twice or not at all, and take memory that is not theirs"""
    pair, addresses = bring_up(t)
    names = os.environ.get("ODD", "").split() or \
        [line.split()[0] for line in pair.server.run("verbspeer --list-odd").splitlines()]
    if pair.client.page_size() > 4096:
        left_out = [name for name in names if name.startswith(IN_PAGES)]
        names = [name for name in names if name not in left_out]
        print(f"    not tried, as Receives have no pages where the kernel's are larger than 4 KiB: {', '.join(left_out)}", flush=True)
    pair.server.run("mkdir /tmp/claims")
    scratch = [name for name in names if name.startswith(SCRATCH)]
    second = [name for name in names if name.startswith(SECOND)]
    groups = [name for name in names if name.startswith(GROUPS)]
    first = [name for name in names if name not in scratch + second + groups]

    def serve(address, share):
        return pair.server.spawn(f"VERBS_CLAIMS=/tmp/claims verbspeer {address} serve 10.0.0.2 " +
                                 " ".join(f"{name}=" for name in share), f"odd server at {address}")

    def serve_all(all_names):
        # A client gets to know one NFSv4.1 server at a time: these would wait for each other.
        alone = [name for name in all_names if name.startswith(ALONE)]
        others = [name for name in all_names if name not in alone]
        shares = [alone] + [others] * (SERVERS - 1)
        jobs = [serve(address, share) for address, share in zip(addresses, shares) if share]
        return "".join(job.wait(PATIENCE, check=False) for job in jobs)

    out = serve_all(first)
    if t.xprt == "rpcrdma":
        names = first
    else:
        if scratch:
            pair.client.run("echo Y > /sys/module/rpcordma/parameters/scratch_remap")
            out += serve(addresses[0], scratch).wait(PATIENCE, check=False)
        pair.client.run("echo N > /sys/module/rpcordma/parameters/scratch_remap")
        out += serve_all(second)
        if groups:
            # Two pages behind the head, so that a listing may have three messages, and READs of 16 KiB have two.
            pair.client.run("cd /sys/module/rpcordma/parameters && echo 7 > version2_rtr && echo 2 > version2_pages && "
                            "echo 65536 > send_read_max")
            out += serve_all(groups)
    verdicts = {name: (word == "ok", line) for line, word, name in
                re.findall(r"^(((?:not )?ok) - ([a-z0-9-]+): .*)$", out, re.M)}
    missing = [name for name in names if name not in verdicts]
    t.check(not missing, f"no verdict on {', '.join(missing)}; the end was: {out[-300:]}")
    wrong = [line for ok, line in verdicts.values() if not ok]
    if t.xprt == "rpcrdma":
        # It differs from what is specified in many ways; what tells a fault of a test is that most pass.
        t.check(verdicts.get("odd-right", (True,))[0] and len(wrong) < len(names) / 2,
                f"{len(wrong)} of {len(names)} not as specified: a fault of these tests?")
        print("".join(f"    rpcrdma: {line}\n" for line in wrong), end="", flush=True)
    t.check(not wrong or t.xprt == "rpcrdma", f"{len(wrong)} of {len(names)} not as specified:" +
            "".join(f"\n    {line}" for line in wrong))
    pair.unload()
    slowest = max(re.findall(r"(\d+\.\d) s$", out, re.M), key=float)
    print(f"    {len(names) - len(wrong)} conversations as specified, the longest {slowest} s", flush=True)
