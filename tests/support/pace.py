"""How fast this machine is at the moment, so that limits in seconds mean the same on a slow or busy one."""

from __future__ import annotations

import re
from collections import Counter
from time import perf_counter

QUIET = 0.0017
"""Seconds that `reference` takes on the machine the limits were written on, while it does nothing else."""

WORDS = re.compile(r"\w+")
SAID = "I moved the old billing importer to your new cluster, but it still crashes again on Friday."


def reference() -> float:
    """Seconds for a fixed piece of work of the kind that the engine does: words found and counted."""
    began, counts = perf_counter(), Counter[str]()
    for number in range(400):
        for word in WORDS.findall(f"{SAID} {number}".casefold()):
            counts[word] += len(word)
    sorted(counts)
    return perf_counter() - began


def slowness() -> float:
    """How many times longer than on a quiet machine work takes now, at least 1: a factor for limits."""
    return max(1.0, sorted(reference() for _ in range(5))[2] / QUIET)
