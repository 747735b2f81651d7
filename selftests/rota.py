# SPDX-License-Identifier: GPL-2.0-only
"""Whose turn it is, where a check plants some of its faults at a time."""

import os
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def in_turn(faults, one_of):
    """Every @one_of-th of @faults, others with each commit: the same tree has the same ones."""
    done = subprocess.run(["git", "-C", TOP, "rev-list", "--count", "HEAD"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    number = 0 if done.returncode else int(done.stdout)
    return faults[number % one_of::one_of]
