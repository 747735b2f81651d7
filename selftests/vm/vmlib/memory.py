# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel has in use of its memory, sampled again and again, and whether that grows.

A sample is taken by a shell (SAMPLE) where nothing is under way, and kept as a line of JSON. Each number of it makes a
series. A series grows when, after the warm-up, it has a trend that chance does not make (Mann and Kendall's test), and
the rise along that trend (Theil and Sen's: the median of the slopes between any two samples) is more than a bound. So
neither a number that jumps about nor a few samples that stand out are a leak, and one object now and then is. How
long is waited between samples, and what is done meanwhile, is the caller's.
"""

import itertools
import json
import math
import re
import statistics

from . import disturb

# Prints what parse() reads. What is only kept for later is given back first: caches of files, the slabs that each CPU
# has taken objects from, what RCU owes.
SAMPLE = """
sync
sleep 3
echo 3 > /proc/sys/vm/drop_caches
sleep 3
echo 3 > /proc/sys/vm/drop_caches
for shrink in /sys/kernel/slab/*/shrink; do
	echo 1 > $shrink
done
cat /proc/meminfo /proc/zoneinfo
sed 's/^/slab /' /proc/slabinfo
rdma resource show
echo "tasks: $(cut -d ' ' -f 4 /proc/loadavg | cut -d / -f 2)"
ours=/sys/kernel/debug/rpcordma
if [ -e $ours ]; then
	echo "client transports: $(grep -c '^transport:' $ours/stats)"
	echo "calls that hold a credit: $(awk '/outstanding:/ { n += $2 } END { print n + 0 }' $ours/stats)"
	echo "server connections: $(wc -l < $ours/server/connections)"
fi
"""

# Of a bed, how much each kind of series may rise: by so much, or by that share of its first value, whichever is more.
BOUNDS = {
    "virtual": {"memory": (512, 0.002),    # KiB
                "slab": (48, 0.01),        # objects
                "count": (0, 0)},          # of what is open and connected: the same each time
    "real": {"memory": (1024, 0.004),
             "slab": (96, 0.02),
             "count": (0, 0)},
}
# Caches that say nothing of a leak: of what the kernel's checkers know of others' objects, and of mappings, which it
# gives back many at a time, hours later (VmallocUsed has those that are in use).
UNJUDGED = {"slab: kmemleak_object", "slab: kmemleak_scan_area", "slab: debug_objects_cache", "slab: vmap_area"}
# The samples at the beginning that do not count: caches, pools and hash tables fill.
WARM_UP = 4
# How many standard deviations of chance a trend has to be beyond.
SURE = 3.0
# Fewer samples than these cannot be.
LEAST = 8


def parse(text):
    """{series: number} of what SAMPLE printed."""
    info = disturb.meminfo(text)
    values = {f"memory: {name}": kib for name, kib in disturb.kernel_memory(text).items()}
    values["memory: slabs that cannot be given back"] = info["SUnreclaim"]
    values["memory: stacks"] = info["KernelStack"]
    for name, active in re.findall(r"^slab (\S+) +(\d+) +\d+ +\d+ +\d+ +\d+ : tunables", text, re.M):
        values[f"slab: {name}"] = int(active)
    for line in re.findall(r"^\d+: \S+: (.*)$", text, re.M):
        words = line.split()
        for kind, number in zip(words[::2], words[1::2]):
            values[f"count: {kind}"] = values.get(f"count: {kind}", 0) + int(number)
    for what, number in re.findall(r"^(tasks|client transports|calls that hold a credit|server connections): (\d+)$",
                                   text, re.M):
        values[f"count: {what}"] = int(number)
    return values


def save(path, samples, bed):
    """@samples: [(seconds, {series: number})]. @bed: whose bounds are theirs."""
    with open(path, "w") as f:
        for at, values in samples:
            print(json.dumps({"bed": bed, "at": at, **values}), file=f)


def load(path):
    """Returns (samples, bed)."""
    with open(path) as f:
        lines = [json.loads(line) for line in f]
    beds = {line.pop("bed") for line in lines}
    if len(beds) != 1:
        raise ValueError(f"{path}: samples of {len(beds)} beds")
    return [(line.pop("at"), line) for line in lines], beds.pop()


class Series:
    """One number's way through the samples.

    @points  [(seconds, number)] after the warm-up
    @bounds  one of BOUNDS
    """

    def __init__(self, name, points, bounds):
        self.name = name
        self.first, self.last = points[0][1], points[-1][1]
        least, share = bounds[name.split(":")[0]]
        self.bound = max(least, share * self.first)
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(points, 2)]
        self.rise = statistics.median(slopes) * (points[-1][0] - points[0][0])
        self.sure = _beyond_chance([number for _, number in points])

    @property
    def grows(self):
        return self.rise > self.bound and self.sure > SURE

    def text(self):
        return (f"{self.name}: {self.first} -> {self.last}, trend {self.rise:+.0f} (bound {self.bound:.0f}), "
                f"{self.sure:+.1f} sigma")


def _beyond_chance(numbers):
    """Mann and Kendall's statistic: how many standard deviations the count of pairs that rise, less those that fall,
    is from 0."""
    n = len(numbers)
    balance = sum((b > a) - (b < a) for a, b in itertools.combinations(numbers, 2))
    ties = sum(k * (k - 1) * (2 * k + 5) for k in (len(list(same)) for _, same in itertools.groupby(sorted(numbers))))
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    return 0.0 if variance <= 0 else (balance - (balance > 0) + (balance < 0)) / math.sqrt(variance)


def judge(samples, bed, warm_up=WARM_UP):
    """[Series] of @samples, but for what is UNJUDGED; what a sample does not have is 0 in it."""
    samples = samples[warm_up:]
    if len(samples) < LEAST:
        raise ValueError(f"{len(samples)} samples after the warm-up of {warm_up}: {LEAST} are the least that tell a "
                         "trend from chance")
    names = sorted({name for _, values in samples for name in values} - UNJUDGED)
    return [Series(name, [(at, values.get(name, 0)) for at, values in samples], BOUNDS[bed]) for name in names]


def tell(series):
    """Prints a verdict for each kind and each series that grows; returns (passed, failed)."""
    passed = failed = 0
    for kind in ("memory", "slab", "count"):
        mine = [one for one in series if one.name.startswith(f"{kind}:")]
        growing = [one for one in mine if one.grows]
        for one in growing:
            print(f"FAILED:  grows: {one.text()}")
        if mine and not growing:
            most = max(mine, key=lambda one: one.rise - one.bound)
            print(f"ok:      {kind}: {len(mine)} series are flat; nearest to its bound is {most.text()}")
            passed += 1
        if not mine:
            print(f"FAILED:  no series of {kind}")
        failed += len(growing) or not mine
    return passed, failed
