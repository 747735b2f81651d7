# SPDX-License-Identifier: GPL-2.0-only
"""A server and peers that are odd, broken or hostile: selftests/verbs, run in the client."""

from vmlib.testing import test


@test("hostile-explore")
def explore(t):
    """exploration"""
    import os
    pair = t.lab(server_memory=1536)
    pair.up()
    pair.client.run("modprobe -a rdma_ucm ib_uverbs")
    pair.server.run("> /export/verbs; chmod 666 /export/verbs")
    pair.mount("4.2")
    pair.umount()
    out = pair.client.run("verbspeer 10.0.0.1 null", 60, check=False)
    print(out, flush=True)
    out = pair.client.run(f"verbspeer 10.0.0.1 {os.environ.get('V', 'test')}", 900, check=False)
    print(out, flush=True)
