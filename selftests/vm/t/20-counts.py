# SPDX-License-Identifier: GPL-2.0-only
"""What a READ and a WRITE cost in work requests, posts and completions, by verbsmeter."""

from vmlib import cost, disturb
from vmlib.testing import test

READS = 20

# Per 1 MiB READ. The signaled Send now and then is in its own column: for it a range.
EXPECTED = {
    "rpcrdma": {"send_wrs": 17, "send_posts": 2, "wr_local_inv": 8, "wr_reg_mr": 8},
    "rpcordma": {"send_wrs": 2, "send_posts": 1, "wr_local_inv": 0, "wr_reg_mr": 1},
}
# Completions without those of Sends: one receive, and one for each LOCAL_INV.
COMPLETIONS = {"rpcrdma": 9, "rpcordma": 1}


def each(pair, what):
    """The client's counters of one of READS calls of 1 MiB."""
    def work(count):
        pair.client.run(f"repeat {what} /mnt/file {count} 1048576 0 0", 60, f"{count} times {what}")

    return cost.per_call(pair, lambda: work(1), lambda: work(1 + READS), READS)[0]["client"]


@test("counts")
def counts(t):
    """1 MiB READs: work requests, posts, completions, LOCAL_INVs"""
    pair = t.lab()
    # A lease that is renewed in between would count.
    disturb.up(pair, lease=300)
    for vm in (pair.client, pair.server):
        cost.watch(vm)
    pair.mount("4.2", "rsize=1048576,wsize=1048576")
    pair.client.run(f"dd if=/dev/zero of=/mnt/file bs=1M count={READS + 1} 2>&1", 60)
    read = each(pair, "read")
    for name, want in EXPECTED[t.xprt].items():
        t.equal(read[name], want, f"{name} of a READ of 1 MiB (all: {read})")
    t.equal(read["completions"] - read["wc_send"], COMPLETIONS[t.xprt],
            f"completions of a READ, without Sends (all: {read})")
    t.check(read["wc_send"] <= 1, f"more than one signaled Send per READ: {read}")
    write = each(pair, "write")
    t.check(write["wr_reg_mr"] >= 1, f"a WRITE of 1 MiB registered nothing: {write}")
    t.equal(pair.xprt_stats()["connect_count"], 1, "connections, with nothing to disturb one")
    for what, one in (("READ", read), ("WRITE", write)):
        print(f"    1 MiB {what}: {one['send_wrs']:g} WRs, {one['send_posts']:g} posts, "
              f"{one['completions']:g} completions, {one['wr_local_inv']:g} LOCAL_INV", flush=True)
