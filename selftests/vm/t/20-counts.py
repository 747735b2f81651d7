# SPDX-License-Identifier: GPL-2.0-only
"""What a READ and a WRITE cost in work requests, posts and completions, by verbsmeter."""

from vmlib.testing import test

READS = 20

# Per 1 MiB READ. The signaled Send now and then is in its own column: for it a range.
EXPECTED = {
    "rpcrdma": {"send_wrs": 17, "send_posts": 2, "wr_local_inv": 8, "wr_reg_mr": 8},
    "rpcordma": {"send_wrs": 2, "send_posts": 1, "wr_local_inv": 0, "wr_reg_mr": 1},
}
# Completions without those of Sends: one receive, and one for each LOCAL_INV.
COMPLETIONS = {"rpcrdma": 9, "rpcordma": 1}


def cost(pair, direction, n):
    """Counters of a dd of @n blocks of 1 MiB less those of one block, so that OPEN, CLOSE and
    all else that dd does once drops out."""
    args = {"read": "if=/mnt/file of=/dev/null iflag=direct",
            "write": "if=/dev/zero of=/mnt/file oflag=direct conv=notrunc"}[direction]
    counts = []
    for blocks in (1, 1 + n):
        pair.reset_verbs()
        pair.client.run(f"dd {args} bs=1M count={blocks} 2>&1", 60)
        counts.append(pair.verbs())
    return {name: counts[1][name] - counts[0][name] for name in counts[0]}


@test("counts")
def counts(t):
    """1 MiB READs: work requests, posts, completions, LOCAL_INVs"""
    pair = t.lab()
    # A lease that is renewed in between would count.
    pair.up(verbsmeter=True, lease=300)
    pair.mount("4.2", "rsize=1048576,wsize=1048576")
    pair.client.run(f"dd if=/dev/zero of=/mnt/file bs=1M count={READS + 1} 2>&1", 60)
    read = cost(pair, "read", READS)
    for name, each in EXPECTED[t.xprt].items():
        t.equal(read[name], each * READS, f"{name} of {READS} READs of 1 MiB (all: {read})")
    t.equal(read["completions"] - read["wc_send"], COMPLETIONS[t.xprt] * READS,
            f"completions of {READS} READs, without Sends (all: {read})")
    t.check(read["wc_send"] <= READS, f"more than one signaled Send per READ: {read}")
    write = cost(pair, "write", READS)
    t.check(write["wr_reg_mr"] >= READS, f"{READS} WRITEs of 1 MiB registered nothing: {write}")
    print(f"    per 1 MiB READ: {read['send_wrs'] / READS:g} WRs, {read['send_posts'] / READS:g} "
          f"posts, {read['completions'] / READS:g} completions, "
          f"{read['wr_local_inv'] / READS:g} LOCAL_INV; WRITE: {write['send_wrs'] / READS:g}, "
          f"{write['send_posts'] / READS:g}, {write['completions'] / READS:g}, "
          f"{write['wr_local_inv'] / READS:g}", flush=True)
