"""Keeping Python's cyclic garbage collector from scanning live objects again and again.

A key interval creates hundreds of thousands of objects, all of which live until it is done. The collector would scan all of them
each time their number grew by a quarter: half of an interval's time, with one record for each of many keys. After the pause it
collects whatever is garbage by then, in one pass.

PySpark also collects after each task of a worker that it reuses: 50 ms for the loaded modules alone, and most of what a small
task costs in Python. So loaded modules are hidden from the collector.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic collector within this block; reference counting continues. The first call hides what is alive for good."""
    freeze_once()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def freeze_once() -> None:
    """Hide all live objects from the collector, once in a process: at its first task all modules are loaded."""
    gc.freeze()
