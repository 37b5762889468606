"""Python's collector of cyclic garbage, kept from looking at live rows again and again.

A key interval brings hundreds of thousands of objects to life at once, all of them needed until it is done. The collector would
go through them each time that a quarter more are there: half of an interval's time, with one record for each of many keys. What
is garbage after that it finds then, in one go.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect no garbage within; counted references go as always."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
