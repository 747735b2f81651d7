# SPDX-License-Identifier: GPL-2.0-only
"""Whether memory.judge() finds what grows in made-up samples, and nothing in those where nothing does."""

import contextlib
import io
import random

from . import memory

HOURS = 24
# Of each case so many made-up days: a judge who errs now and then is no judge.
DAYS = 20


def flat(_hour, _random):
    return 0


def noisy(_hour, chance):
    return chance.choice((0, 0, 5, 40, 400))


def wavy(hour, _random):
    """As with something that is done each sixth hour."""
    return 700 if hour % 6 == 5 else 0


def filling(hour, _random):
    """A pool that fills during the warm-up and stays."""
    return min(hour, memory.WARM_UP) * 500


def falling(hour, chance):
    return -30 * hour + chance.randrange(50)


def spike(hour, _random):
    """Two hours that stand out at the end."""
    return 5000 if hour >= HOURS - 2 else 0


def leak(each, noise=0):
    def series(hour, chance):
        return each * hour + (chance.randrange(noise) if noise else 0)
    return series


def late(hour, _random):
    """Begins in the second third of the day."""
    return max(0, hour - 9) * 20


# What, the series, its name and what it begins with; whether it grows.
CASES = (
    ("flat pages", flat, "memory: pages in use", 90000, False),
    ("noisy pages", noisy, "memory: pages in use", 90000, False),
    ("wavy pages", wavy, "memory: pages in use", 90000, False),
    ("pages that are taken at the beginning", filling, "memory: pages in use", 90000, False),
    ("pages that become fewer", falling, "memory: pages in use", 90000, False),
    ("two hours that stand out", spike, "memory: pages in use", 90000, False),
    ("noisy objects", noisy, "slab: kmalloc-64", 9000, False),
    ("one object an hour in a large cache, below the bound", leak(1), "slab: kmalloc-64", 9000, False),
    ("a queue pair more and back", wavy, "count: qp", 9, False),
    ("a page for each of some calls", leak(40), "memory: pages in use", 90000, True),
    ("the same, in noise", leak(60, 300), "memory: pages in use", 90000, True),
    ("an object for each of some reconnects", leak(8), "slab: kmalloc-64", 2000, True),
    ("the same, in noise", leak(20, 60), "slab: kmalloc-64", 2000, True),
    ("a leak that begins late", late, "slab: kmalloc-64", 2000, True),
    ("mappings that are given back hours later", leak(40), "slab: vmap_area", 70, False),
    ("a queue pair every hour", leak(1), "count: qp", 9, True),
    ("a queue pair every sixth hour", lambda hour, _: hour // 6, "count: qp", 9, True),
)


def found(series, name, begins, seed):
    """Whether the judge finds @name, and it alone, among series that are flat."""
    chance = random.Random(seed)
    samples = [(hour * 3600, {"memory: kernel memory": 30000, "slab: dentry": 700, "count: cq": 4,
                              name: begins + series(hour, chance)}) for hour in range(HOURS)]
    growing = [one.name for one in memory.judge(samples, "virtual") if one.grows]
    if growing not in ([], [name]):
        raise AssertionError(f"{growing} grow, and only {name} may")
    with contextlib.redirect_stdout(io.StringIO()):
        failed = memory.tell(memory.judge(samples, "virtual"))[1]
    if failed != len(growing):
        raise AssertionError(f"{failed} failures are told of {growing}")
    return bool(growing)


def parsed():
    """What a kernel prints, as series."""
    return memory.parse(TEXT) == {
        "memory: kernel memory": 1324 + 76 + 60, "memory: pages in use": 1000000 - 900000 - 1200 - 8000 - 4 - 4 * 20,
        "memory: slabs that cannot be given back": 1324, "memory: stacks": 512, "slab: kmalloc-64": 321,
        "slab: nfs_inode_cache": 0, "count: qp": 7, "count: mr": 36, "count: tasks": 41,
        "count: client transports": 3, "count: calls that hold a credit": 0, "count: server connections": 4}


TEXT = """MemTotal:        1000000 kB
MemFree:          900000 kB
Buffers:               4 kB
Cached:             8000 kB
AnonPages:          1200 kB
SUnreclaim:         1324 kB
KernelStack:         512 kB
VmallocUsed:          76 kB
Percpu:               60 kB
Node 0, zone   Normal
              count:    20
slab slabinfo - version: 2.1
slab # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit>
slab kmalloc-64           321    384     64   64    1 : tunables    0    0    0 : slabdata      6      6      0
slab nfs_inode_cache        0      0   1000   16    4 : tunables    0    0    0 : slabdata      0      0      0
0: rxe_va: qp 3 mr 20
1: rxe_vb: qp 4 mr 16
tasks: 41
client transports: 3
calls that hold a credit: 0
server connections: 4
"""


def run():
    """Returns (passed, failed)."""
    passed = failed = 0
    for number, (what, series, name, begins, grows) in enumerate(CASES):
        wrong = sum(found(series, name, begins, 1000 * number + day) != grows for day in range(DAYS))
        failed += bool(wrong)
        passed += not wrong
        print(f"{'not ok' if wrong else 'ok'} - {what}: {'grows' if grows else 'does not grow'}"
              + (f", but {wrong} of {DAYS} days were judged otherwise" if wrong else ""))
    right = parsed()
    print(f"{'ok' if right else 'not ok'} - what a kernel prints is read{'' if right else f': {memory.parse(TEXT)}'}")
    return passed + right, failed + (not right)
