"""A History of some of the keys, for jobs whose whole History would be too much (DESIGN 4).

Rules of this file:

* What is sampled are **rows**: a key of a computation, with all that ever happens to it. Whether a key is in the sample follows
  from the key alone, so that a record that keeps its key is followed through all computations, and through restarts.
* A production is in the sample if both rows are: that which makes it and that which gets it. So whatever the sample says is owed
  to somebody, it also says what became of it; what a checker does not see, it can not take for lost. What leaves for the outside
  goes with the row that makes it.
* A cause that is not in the sample is for the checkers like a late one: what it leads to holds no watermark back. So they see
  less pending work than there is, and never more.
* Intervals, injectors' reports and broadcasts are there in full.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from headrace.api.errors import OptionsError
from headrace.api.specs import OUTSIDE
from headrace.history import (
    Acked,
    AckSent,
    Applied,
    CheckpointsDeleted,
    DeadLettered,
    Delivered,
    DuplicateDropped,
    Event,
    Executed,
    Injected,
    Output,
    UserCodeFailed,
    WriteRefused,
)
from headrace.wire.rows import Production


@dataclass(frozen=True, slots=True)
class Sample:
    """Which keys are in a History.

    Attributes:
        fraction: of all keys, more than 0 and up to 1.

    Raises:
        OptionsError: it is not.

    >>> [key for key in ("anna", "bruno", "nora", "ugo") if Sample(1 / 2).has(key)]
    ['bruno', 'nora']
    """

    fraction: float = 1.0

    def __post_init__(self) -> None:
        """Check it."""
        if not 0 < self.fraction <= 1:
            raise OptionsError("fraction", self.fraction, "more than 0, and up to 1")

    def has(self, key: str) -> bool:
        """Tell whether a key is in it. Not the hash that says which interval a key is in: that would be whole intervals."""
        if self.fraction == 1:
            return True
        return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) < self.fraction * 2**64


FULL = Sample()


def sampled_injections(sample: Sample, events: Iterable[Injected]) -> list[Injected]:
    """Of what injectors took in, the part that is in a sample."""
    parts = [
        msgspec.structs.replace(event, productions=_productions(sample, event.productions))
        for event in events
    ]
    return [part for part in parts if part.productions]


class SampledEvents:
    """What of one interval's events in one micro-batch is in a sample.

    Args:
        sample: which keys.
        events: all of them.
    """

    def __init__(self, sample: Sample, events: Iterable[Event]) -> None:
        self._sample = sample
        self._came: set[str] = set()
        self._made: set[str] = set()
        for event in events:
            if isinstance(event, Delivered | DuplicateDropped) and sample.has(event.key):
                self._came.add(event.record_id)
            elif isinstance(event, Executed) and sample.has(event.key):
                self._came.add(event.cause)
                self._made.update([one.record_id for one in event.productions])

    def part(self, event: Event) -> Event | None:
        """What of an event is in it; ``None``: nothing."""
        sample, replace = self._sample, msgspec.structs.replace
        match event:
            case Executed():
                kept = replace(event, productions=_productions(sample, event.productions))
                return kept if sample.has(event.key) else None
            case Applied():
                delta = replace(event.delta, productions=_productions(sample, event.delta.productions))
                return replace(event, delta=delta) if sample.has(delta.key) else None
            case Delivered() | DuplicateDropped() | UserCodeFailed():
                return event if sample.has(event.key) else None
            case CheckpointsDeleted():
                rest = tuple([one for one in event.checkpoints if sample.has(one[0])])
                return replace(event, checkpoints=rest) if rest else None
            case WriteRefused():
                keys = tuple([key for key in event.keys if sample.has(key)])
                return replace(event, keys=keys) if keys else None
            case AckSent():
                ids = tuple([one for one in event.record_ids if one in self._came])
                return replace(event, record_ids=ids) if ids else None
            case Output():
                return event if event.production.record_id in self._made else None
            case Acked():
                return event if event.record_id in self._made else None
            case DeadLettered():
                return event if event.cause in self._came else None
            case _:
                return event


def _productions(sample: Sample, productions: tuple[Production, ...]) -> tuple[Production, ...]:
    return tuple([one for one in productions if one.consumer == OUTSIDE or sample.has(one.key)])
