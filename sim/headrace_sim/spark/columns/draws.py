"""What `rand()`, `randn()` and `uuid()` draw from: seeds that Spark fixes when a frame is made, and anew for each batch.

Seen on Spark 4.3: a frame has the same ids in all of its actions; the columns of a stream have others when a batch is run again,
those of ``rand(7)`` too.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any

_FRAME: ContextVar[int] = ContextVar("frame", default=0)
_BATCH: ContextVar[int | None] = ContextVar("batch", default=None)
_SEEDS: dict[int, int] = {}
"""The seeds of frames."""


@contextmanager
def frame_of_draws(number: int) -> Iterator[None]:
    """Draw within for the frame with this number, which is that of its plan."""
    token = _FRAME.set(number)
    try:
        yield
    finally:
        _FRAME.reset(token)


@contextmanager
def batch_of_draws(seed: int) -> Iterator[None]:
    """Draw within for a batch of a stream. ``seed``: the batch's own, another one each time that it is run."""
    token = _BATCH.set(seed)
    try:
        yield
    finally:
        _BATCH.reset(token)


def new_batch() -> int:
    """Return a seed for a batch that is run."""
    return random.getrandbits(64)


def forget_draws() -> None:
    """Draw all anew, as a new driver does."""
    _SEEDS.clear()


def source_of_draws(given: Any, column: int, partition: int) -> Any:
    """Return what a column draws from, for a partition.

    ``given``: the seed that the user gave, or None. ``column``: the column's place among those that draw. ``partition``: the
    partition's number.
    """
    batch, frame = _BATCH.get(), _FRAME.get()
    if given is not None and batch is None:
        return Random(f"{given}/{partition}")
    if batch is None and not frame:
        return random
    seed = f"{batch}/{frame}" if batch is not None else _SEEDS.setdefault(frame, random.getrandbits(64))
    return Random(f"{seed}/{column}/{partition}")
