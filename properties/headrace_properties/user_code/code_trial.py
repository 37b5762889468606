"""What to run again to see a finding about user code, which is hosted by itself: without a cluster and without faults."""

import msgspec


class CodeTrial(msgspec.Struct, frozen=True, tag="code"):
    """One look at user code.

    Attributes:
        feed_seed: seed of the input.
        kept: which of the input's records to keep, by their order from 0; ``None``: all.
        seed: seed of the orders and schedules of arrival to try.
    """

    feed_seed: int = 0
    kept: tuple[int, ...] | None = None
    seed: int = 0
