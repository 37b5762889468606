"""Pausing Python's cyclic garbage collector while a key interval is processed.

An interval creates hundreds of thousands of objects, all of which live until it is done. The collector would scan all of them
each time their number grew by a quarter: half of an interval's time, with one record for each of many keys. After the pause it
collects whatever is garbage by then, in one pass.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic collector within this block; reference counting continues."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
