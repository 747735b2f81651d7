# SPDX-License-Identifier: GPL-2.0-only
"""Ratios of two things that were measured in turn, with their interval.

Each pair was measured at nearly the same time, so what slows the machine for a while slows both, and the
ratio of a pair stays. Ratios are averaged by their logarithms: twice as fast and half as fast cancel out.
"""

import math
import statistics

# Student's t, two-sided, by the per cent of the interval, for 1 to 30 degrees of freedom.
_T = {
    95: (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
         2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
         2.045, 2.042),
    99: (63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977,
         2.947, 2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763,
         2.756, 2.750)}


def student(freedom, percent):
    """The factor of the standard error for @freedom degrees of freedom; beyond the table, a little wide."""
    return _T[percent][min(freedom, len(_T[percent])) - 1]


def ratio(over, under, percent=95):
    """(ratio, low, high) of over[i] / under[i], of pairs of positive numbers; at least two pairs. The interval is
    that of @percent."""
    if len(over) != len(under) or len(over) < 2:
        raise ValueError(f"no pairs to compare: {len(over)} and {len(under)} values")
    logs = [math.log(a / b) for a, b in zip(over, under)]
    middle = statistics.fmean(logs)
    half = student(len(logs) - 1, percent) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)
