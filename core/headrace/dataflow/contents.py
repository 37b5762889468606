"""What a pane is made of (Dataflow 2.3): an accumulator, or, where values may be taken back one by one, the values themselves."""

from typing import Any

import msgspec

from headrace.dataflow.combining import CombineFn
from headrace.dataflow.panes import Accumulation

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


class Contents(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """The contents of one window, or what came for it since its last pane.

    Attributes:
        count: elements less retractions. Below zero: retractions came before what they take back.
        accumulator: of what is combined already; ``[]``: of nothing.
        values: how often each value is there, by its JSON; what is owed is below zero.
    """

    count: int = 0
    accumulator: list[Any] = msgspec.field(default_factory=list)
    values: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, value: Any, combine: CombineFn, *, keeps: bool, retraction: bool) -> None:
        """Take in a value, or that one is taken back.

        Args:
            value: it.
            combine: of the grouping.
            keeps: values are kept, and combined when they are asked for.
            retraction: it is taken back.
        """
        self.count += -1 if retraction else 1
        if keeps:
            self._change(_encode(value).decode(), -1 if retraction else 1)
            return
        accumulator = self.accumulator[0] if self.accumulator else combine.create()
        if retraction:
            assert combine.uncombine is not None
            accumulator = combine.uncombine(accumulator, value)
        else:
            accumulator = combine.add(accumulator, value)
        self.accumulator = [accumulator]

    def merged(self, other: "Contents", combine: CombineFn) -> "Contents":
        """Add up two windows' contents (2.2.2)."""
        both = [*self.accumulator, *other.accumulator]
        merged = Contents(self.count + other.count, [combine.merge(*both)] if len(both) == 2 else both)
        merged.values = dict(self.values)
        for value, count in other.values.items():
            merged._change(value, count)
        return merged

    def value(self, combine: CombineFn) -> Any:
        """Compute a pane's value."""
        if self.values:
            return _combined(combine, self.values, 1)
        return combine.extract(self.accumulator[0] if self.accumulator else combine.create())

    def results(self, combine: CombineFn, accumulation: Accumulation) -> list[tuple[Any, bool]]:
        """List (value, is a retraction) of what a pane says.

        Where earlier panes are taken back, a window with nothing left in it says no more. Where contents are discarded, values
        may have been taken back that went out in an earlier pane: then this one takes back what they combine to.
        """
        if accumulation is Accumulation.ACCUMULATING_AND_RETRACTING:
            left = any(count > 0 for count in self.values.values()) if self.values else self.count > 0
            return [(self.value(combine), False)] if left else []
        if accumulation is Accumulation.ACCUMULATING or self.accumulator:
            return [(self.value(combine), False)]
        found = []
        if any(count < 0 for count in self.values.values()):
            found.append((_combined(combine, self.values, -1), True))
        if any(count > 0 for count in self.values.values()):
            found.append((_combined(combine, self.values, 1), False))
        return found

    def _change(self, value: str, by: int) -> None:
        count = self.values.get(value, 0) + by
        if count:
            self.values[value] = count
        else:
            del self.values[value]


def _combined(combine: CombineFn, values: dict[str, int], sign: int) -> Any:
    """Combine the values that are there (1), or owed (-1), as often as they are."""
    accumulator = combine.create()
    for value, count in sorted(values.items()):
        for _ in range(count * sign):
            accumulator = combine.add(accumulator, _decode(value))
    return combine.extract(accumulator)
