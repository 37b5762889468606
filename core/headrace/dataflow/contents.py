"""A pane's contents (Dataflow 2.3): an accumulator, or the values themselves where single values may be retracted."""

from typing import Any, ClassVar

import msgspec

from headrace.dataflow.combining import CombineFn
from headrace.dataflow.panes import Accumulation
from headrace.dataflow.value_codecs import Carrier, ValueCodec


class Contents(Carrier, msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """The contents of one window, or what has arrived for it since its last pane.

    Attributes:
        count: number of elements minus number of retractions; negative if retractions arrived before their elements.
        accumulator: a list of the accumulator; ``[]``: nothing has been combined yet.
        values: count of each value by its JSON; negative if its retraction arrived first (the value is owed).
    """

    _carried: ClassVar[tuple[str, ...]] = ("accumulator",)

    count: int = 0
    accumulator: list[Any] = msgspec.field(default_factory=list)
    values: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, value: Any, combine: CombineFn, *, keeps: ValueCodec | None, retraction: bool) -> None:
        """Add a value, or remove a retracted one.

        Args:
            value: the value.
            combine: the grouping's combiner.
            keeps: codec with which to keep the values, to combine them on demand; ``None``: they are combined at once.
            retraction: whether the value is retracted.
        """
        self.count += -1 if retraction else 1
        if keeps is not None:
            self._change(keeps.encode(value).decode(), -1 if retraction else 1)
            return
        accumulator = self.accumulator[0] if self.accumulator else combine.create()
        if retraction:
            assert combine.uncombine is not None
            accumulator = combine.uncombine(accumulator, value)
        else:
            accumulator = combine.add(accumulator, value)
        self.accumulator = [accumulator]

    def merged(self, other: "Contents", combine: CombineFn) -> "Contents":
        """Return the combined contents of two windows (2.2.2)."""
        both = [*self.accumulator, *other.accumulator]
        merged = Contents(self.count + other.count, [combine.merge(*both)] if len(both) == 2 else both)
        merged.values = dict(self.values)
        for value, count in other.values.items():
            merged._change(value, count)
        return merged

    def value(self, combine: CombineFn, codec: ValueCodec) -> Any:
        """Return the value of a pane; ``codec``: of the values that are kept."""
        if self.values:
            return _combined(combine, codec, self.values, 1)
        return combine.extract(self.accumulator[0] if self.accumulator else combine.create())

    def results(
        self, combine: CombineFn, accumulation: Accumulation, codec: ValueCodec
    ) -> list[tuple[Any, bool]]:
        """List what a pane reports, as (value, is a retraction).

        When accumulating and retracting, a window with nothing left reports nothing. When discarding, values that were emitted in
        an earlier pane may have been retracted since; this pane then retracts their combination.
        """
        if accumulation is Accumulation.ACCUMULATING_AND_RETRACTING:
            left = any(count > 0 for count in self.values.values()) if self.values else self.count > 0
            return [(self.value(combine, codec), False)] if left else []
        if accumulation is Accumulation.ACCUMULATING or self.accumulator:
            return [(self.value(combine, codec), False)]
        results = []
        if any(count < 0 for count in self.values.values()):
            results.append((_combined(combine, codec, self.values, -1), True))
        if any(count > 0 for count in self.values.values()):
            results.append((_combined(combine, codec, self.values, 1), False))
        return results

    def _change(self, value: str, by: int) -> None:
        count = self.values.get(value, 0) + by
        if count:
            self.values[value] = count
        else:
            del self.values[value]


def _combined(combine: CombineFn, codec: ValueCodec, values: dict[str, int], sign: int) -> Any:
    """Combine the values that are present (sign 1) or owed (sign -1), each as often as counted."""
    accumulator = combine.create()
    for value, count in sorted(values.items()):
        for _ in range(count * sign):
            accumulator = combine.add(accumulator, codec.decode(value.encode()))
    return combine.extract(accumulator)
