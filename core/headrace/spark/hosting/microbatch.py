"""A micro-batch, as all of its tasks know it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What is the same for all intervals in one micro-batch.

    Attributes:
        number: counts from 0.
        now_us: its wall time, microseconds; the same when it is run again.
        low_watermark: of the injectors, event time in microseconds.
        in_order: it is all that there is, so that it can be worked on in the order of event time, with a perfect watermark.
    """

    number: int
    now_us: int
    low_watermark: int
    in_order: bool = False
