"""What `rand()`, `randn()` and `uuid()` draw from: seeds that Spark fixes when a frame is made, and anew for each batch.

Seen on Spark 4.3: a frame has the same ids in all of its actions; the columns of a stream have others when a batch is run again,
those of ``rand(7)`` too.
"""

import random
from contextlib import AbstractContextManager
from contextvars import ContextVar
from random import Random
from typing import Any

from headrace_sim.spark.columns.held import held

_FRAME: ContextVar[int] = ContextVar("frame", default=0)
_BATCH: ContextVar[int | None] = ContextVar("batch", default=None)
_SEEDS: dict[int, int] = {}
"""The seeds of frames, and those that stand for what PySpark drew."""
_DRAWN_BY_PYSPARK = 1 << 40
"""From here on, a seed is one that PySpark drew up to 2**63, and a new driver would draw anew."""


def frame_of_draws(number: int) -> AbstractContextManager[int]:
    """Draw within for the frame with this number, which is that of its plan."""
    return held(_FRAME, number)


def batch_of_draws(seed: int) -> AbstractContextManager[int]:
    """Draw within for a batch of a stream. ``seed``: the batch's own, another one each time that it is run."""
    return held(_BATCH, seed)


def new_batch() -> int:
    """Return a seed for a batch that is run."""
    return random.getrandbits(64)


def forget_draws() -> None:
    """Forget all seeds, as a new driver does."""
    _SEEDS.clear()


def source_of_draws(seeded: Any, column: int, partition: int) -> Any:
    """Return what a column draws from, for a partition.

    ``seeded``: the seed in the plan, which the user gave, or PySpark drew when it made the column; or None. ``column``: the
    column's place among those that draw. ``partition``: the partition's number.
    """
    batch, frame = _BATCH.get(), _FRAME.get()
    if seeded is not None and batch is None:
        seed = seeded if -_DRAWN_BY_PYSPARK < seeded < _DRAWN_BY_PYSPARK else _seed_of(seeded)
        return Random(f"{seed}/{partition}")
    if batch is None and not frame:
        return random
    seed = f"{batch}/{frame}" if batch is not None else _seed_of(frame)
    return Random(f"{seed}/{column}/{partition}")


def _seed_of(number: int) -> int:
    return _SEEDS.setdefault(number, random.getrandbits(64))
