"""The watermark authority with very many key intervals: what an update costs a real CPU, sharded and not (MillWheel 7.2).

Rules of this file:

* An update is what a period brings for one interval: its report is taken, and has its share in combining, journaling and
  confirming. Each interval reports once in a period, in any order, as workers do: each report has many intervals.
* What is measured is CPU time of this machine, of the engine's own `WatermarkAuthority`; the store answers at once, and
  encoding and wire are left out.
* A shard has computations of its own and knows nothing of the others: shards are measured one after the other, as if each had
  a machine.
"""

import gc
import random
import time
from collections.abc import Iterator, Sequence
from itertools import batched, pairwise
from statistics import median

from millrace import SECOND, Computation, EngineOptions, KeyInterval, Pipeline
from millrace._authority import WatermarkAuthority
from millrace._effects import Effect, Event, Send, Start, Wake
from millrace._messages import (
    STORE,
    Claim,
    Claimed,
    IntervalReport,
    Journaled,
    JournalWatermarks,
    Peek,
    Peeked,
    Report,
    Table,
)
from millrace.history import History

COMPUTATIONS = 20
_REPORTED_TOGETHER = 100
_UPDATES = 200_000
"""At least so many are measured, and at least three periods of them."""


def update_us(intervals: int, shards: int, seed: int) -> list[float]:
    """CPU time of an update in each shard, microseconds: the median over periods.

    Args:
        intervals: in all computations together, evenly.
        shards: of the authority.
        seed: of the order of reports.
    """
    return [_Shard(shard, intervals, shards, seed).update_us() for shard in range(shards)]
