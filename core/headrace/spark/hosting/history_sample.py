"""A History of some of the keys, for jobs whose full History would be too large (DESIGN 4).

Rules of this file:

* The unit of sampling is a **row**: a key of a computation, with everything that ever happens to it. Whether a key is in the
  sample depends on the key alone, so a record that keeps its key is followed through all computations, and through restarts.
* A production is in the sample if both its sender's row and its receiver's row are. So for each production that the sample shows,
  it also shows the delivery, and a checker never mistakes a production for lost. An output is in the sample if its sender's row
  is.
* Checkers treat a cause outside the sample as late: its effects hold no watermark back. So they see at most the work that is
  pending, never more.
* Intervals, injectors' reports and broadcasts are recorded in full.
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
    """The keys that a History includes.

    Attributes:
        fraction: fraction of all keys, more than 0 and up to 1.

    Raises:
        OptionsError: the fraction is out of range.

    >>> [key for key in ("anna", "bruno", "nora", "ugo") if Sample(1 / 2).has(key)]
    ['bruno', 'nora']
    """

    fraction: float = 1.0

    def __post_init__(self) -> None:
        """Check the fraction."""
        if not 0 < self.fraction <= 1:
            raise OptionsError("fraction", self.fraction, "more than 0, and up to 1")

    def has(self, key: str) -> bool:
        """Return whether a key is in the sample. The hash is not that of the intervals, which would select whole intervals."""
        if self.fraction == 1:
            return True
        return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) < self.fraction * 2**64


FULL = Sample()


def sampled_injections(sample: Sample, events: Iterable[Injected]) -> list[Injected]:
    """Return the part of the injected records that is in a sample."""
    parts = [
        msgspec.structs.replace(event, productions=_productions(sample, event.productions))
        for event in events
    ]
    return [part for part in parts if part.productions]


class SampledEvents:
    """The sampled part of one interval's events in one micro-batch.

    Args:
        sample: the sampled keys.
        events: all events of the interval.
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
                self._made.update([production.record_id for production in event.productions])

    def part(self, event: Event) -> Event | None:
        """Return the part of an event that is in the sample; ``None`` if no part is."""
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
                rest = tuple([checkpoint for checkpoint in event.checkpoints if sample.has(checkpoint[0])])
                return replace(event, checkpoints=rest) if rest else None
            case WriteRefused():
                keys = tuple([key for key in event.keys if sample.has(key)])
                return replace(event, keys=keys) if keys else None
            case AckSent():
                ids = tuple([record_id for record_id in event.record_ids if record_id in self._came])
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
    return tuple(
        [
            production
            for production in productions
            if production.consumer == OUTSIDE or sample.has(production.key)
        ]
    )
