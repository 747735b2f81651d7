# SPDX-License-Identifier: GPL-2.0-only
"""Calls that were executed and whose reply was lost with the connection: never executed twice.

verbsmeter breaks the server's connection just before a reply is posted. The client sends the call
again over a new connection, from a new port; nfsd's reply cache must know it, which it does only if
the transport reports a port that stays. (To see these tests fail: let the server's transport leave
the peer's port in the address that it reports. replay-control fails in the same way at every run.)
"""

from vmlib import disturb, lab
from vmlib.testing import Wrong, test

ROUNDS = 4
# How far from the start of a command the reply aimed at may be; the search begins with the first.
FURTHEST = 8

# Name of the operation in mountstats, and what leads to one, and proof on the server that it was
# done. $i is the round; what must be there before is made by an earlier line's round.
V3 = (
    ("CREATE", ": > /mnt/f$i", "[ -f f$i ]"),
    ("CREATE", "set -C; : > /mnt/x$i", "[ -f x$i ]"),
    ("RENAME", "mv /mnt/f$i /mnt/g$i", "[ ! -e f$i ] && [ -f g$i ]"),
    ("LINK", "ln /mnt/g$i /mnt/l$i", "[ g$i -ef l$i ]"),
    ("SYMLINK", "ln -s g$i /mnt/s$i", "[ -L s$i ]"),
    ("REMOVE", "rm /mnt/l$i", "[ ! -e l$i ]"),
    ("MKDIR", "mkdir /mnt/d$i", "[ -d d$i ]"),
    ("RMDIR", "rmdir /mnt/d$i", "[ ! -e d$i ]"),
)
# Here CREATE is what makes directories. OPEN, which makes files, is not the reply cache's affair but
# that of the open owner's sequence number.
V4 = (
    ("OPEN", "set -C; : > /mnt/x$i", "[ -f x$i ]"),
    ("CREATE", "mkdir /mnt/f$i", "[ -d f$i ]"),
    ("RENAME", "mv /mnt/f$i /mnt/g$i", "[ ! -e f$i ] && [ -d g$i ]"),
    ("LINK", "ln /mnt/x$i /mnt/l$i", "[ x$i -ef l$i ]"),
    ("SYMLINK", "ln -s g$i /mnt/s$i", "[ -L s$i ]"),
    ("REMOVE", "rm /mnt/l$i", "[ ! -e l$i ]"),
)


def retransmitted(before, after):
    """Operations that were sent more often than called, between two op_counts()."""
    return {op: n for op, n in ((op, after[op][1] - before.get(op, (0, 0, 0))[1] -
                                 (after[op][0] - before.get(op, (0, 0, 0))[0])) for op in after) if n}


def one(pair, op, command, proof, number, nth):
    """Runs @command with the @nth reply from now lost. Returns whether it was @op's; every
    command must succeed whichever reply is lost."""
    counts = disturb.op_counts(pair.client)
    hits, payload = disturb.reply_cache(pair.server)
    disturb.inject(pair.server, f"disconnect {nth} 1")
    pair.client.run(f"i={number}; {command}", 60, f"{command} (i={number}), reply {nth} lost")
    fired = not pair.server.run(f"cat {disturb.METER}/inject", 10).strip()
    disturb.inject(pair.server, "clear")
    again = retransmitted(counts, disturb.op_counts(pair.client))
    pair.server.run(f"i={number}; cd /export && {proof}", 10, f"{command} (i={number}) was done")
    if not fired or op not in again:
        return False
    got, got_payload = disturb.reply_cache(pair.server)
    if again != {op: 1}:
        raise Wrong(f"{command}: one reply was lost, yet sent again was {again}")
    if op != "OPEN" and got - hits != 1:
        raise Wrong(f"{command}: {op} was sent again and the reply cache had {got - hits} hits: "
                    f"executed twice")
    if got_payload != payload:
        raise Wrong(f"{command}: the reply cache found the second {op} to differ from the first")
    return True


def replay(t, version, table):
    pair = t.lab(server_xprt=lab.server_under_test())
    # No call but what the commands are about: no lease is renewed, attributes and names stay as they
    # are known.
    disturb.up(pair, lease=300)
    pair.mount(version, "hard,actimeo=600")
    before = pair.xprt_stats()["connect_count"]
    total = 0
    for op, command, proof in table:
        done, number, nth = 0, 0, 1
        while done < ROUNDS:
            if one(pair, op, command, proof, number, nth):
                done += 1
            else:
                nth = nth % FURTHEST + 1
            number += 1
            t.check(number < ROUNDS + 2 * FURTHEST,
                    f"{command}: {number} tries, and the reply to {op} was lost in {done} only")
        # The lines that follow need every number that this one got to, and no more.
        spare = ROUNDS + 2 * FURTHEST
        pair.client.run(f"i={number}; while [ $i -lt {spare} ]; do ({command}) || die \"i=$i\"; "
                        "i=$((i + 1)); done", 60, f"{command}, undisturbed")
        total += done
    reconnects = pair.xprt_stats()["connect_count"] - before
    t.check(reconnects >= total, f"{total} connections were dropped, {reconnects} came back")
    print(f"    vers={version}: {total} executed calls lost their reply, {reconnects} reconnects, "
          f"none executed twice", flush=True)
    pair.umount()
    pair.unload()


@test("replay-v3")
def replay_v3(t):
    """NFSv3: CREATE, RENAME and their kin whose replies are lost are executed once"""
    replay(t, "3", V3)


@test("replay-v4.0", slow="replay-v3 does this, and the transport does not know versions of NFS")
def replay_v40(t):
    """NFSv4.0: the same, with OPEN"""
    replay(t, "4.0", V4)


@test("replay-control", slow="shows that replay-v3 could see a call executed twice")
def replay_control(t):
    """the same with the reply cache emptied in between: executed twice, the application gets an error"""
    pair = t.lab(server_xprt=lab.server_under_test())
    disturb.up(pair)
    for version, command, error in (("3", "mkdir /mnt/d", "File exists"),
                                    ("3", "mv /mnt/d /mnt/e", "No such file"),
                                    ("4.0", "mkdir /mnt/d", "File exists")):
        # A server that stops may leave a client to find out by itself: within seconds.
        pair.mount(version, "hard,actimeo=600,timeo=50")
        pair.client.run("stat /mnt/d /mnt/e", 20, check=False)
        done = {"mkdir": "[ -d /export/d ]", "mv": "[ -d /export/e ]"}[command.split()[0]]
        # Every reply is lost until the call has been executed and the cache is gone with its nfsd.
        disturb.inject(pair.server, "disconnect 1 1000000")
        job = pair.client.spawn(command)
        for _ in range(FURTHEST):
            if pair.server.ok(f"for i in $(seq 30); do {done} && exit 0; usleep 100000; done; exit 1",
                              20, f"vers={version}: is {command} executed"):
                break
            # Lost were replies to what comes before; one more may pass.
            disturb.inject(pair.server, "disconnect 2 1000000")
        else:
            raise Wrong(f"vers={version}: {command} was not executed")
        pair.server.run("nfsd_stop; nfsd_start 8", 60, "restart nfsd")
        disturb.inject(pair.server, "clear")
        job.wait(90, check=False)
        t.check(job.status and error in job.out,
                f"vers={version}: {command}, executed twice: status {job.status}, \"{job.out.strip()}\", "
                f"expected \"{error}\": this test could not see a call executed twice")
        pair.umount()
        pair.server.run("rmdir /export/d /export/e", 10, check=False)
        if command.startswith("mkdir") and version == "3":
            pair.server.run("mkdir /export/d", 10)
