# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmarks have in common: ratios with their intervals, tables, goals, and the record of a run."""
