"""What a grouping's panes settle to (Dataflow 2.3): what is in force in the end, whenever it fired on the way."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

from headrace.dataflow import Accumulation, Window

Settled = Counter[tuple[str, Window | None, Any]]
"""(key, window, value): what is in force in the end, and how often."""


class KeyedPane(Protocol):
    """A pane and its key; see `headrace.dataflow.Pane`."""

    @property
    def key(self) -> str:
        """The key."""
        ...

    @property
    def window(self) -> Window:
        """The window."""
        ...

    @property
    def value(self) -> Any:
        """What its contents combine to."""
        ...

    @property
    def index(self) -> int:
        """The number of panes that its window emitted before."""
        ...

    @property
    def retraction(self) -> bool:
        """Whether it retracts an earlier pane."""
        ...


def settled(panes: Iterable[KeyedPane], accumulation: Accumulation) -> Settled:
    """Return what a grouping's panes settle to.

    Retracting: the panes that were not retracted. Accumulating: the last pane of each window that no later one of the same key
    covers. Discarding: all panes of a key added up, since another run may divide them otherwise: sums, counts or lists.
    """
    match accumulation:
        case Accumulation.ACCUMULATING_AND_RETRACTING:
            counts: Settled = Counter()
            for pane in panes:
                counts[pane.key, pane.window, _frozen(pane.value)] += -1 if pane.retraction else 1
            return Counter({name: count for name, count in counts.items() if count})
        case Accumulation.ACCUMULATING:
            return Counter((pane.key, pane.window, _frozen(pane.value)) for pane in _last(panes))
        case Accumulation.DISCARDING:
            sums: dict[str, Any] = {}
            for pane in panes:
                sums[pane.key] = sums[pane.key] + pane.value if pane.key in sums else pane.value
            return Counter((key, None, _frozen(total)) for key, total in sums.items())


def _frozen(value: Any) -> Any:
    """Return a hashable value; lists are in no order that one may rely on."""
    if isinstance(value, list | tuple):
        return tuple(sorted(map(_frozen, value), key=repr))
    if isinstance(value, dict):
        return tuple(sorted(((key, _frozen(part)) for key, part in value.items()), key=repr))
    return value


def _last(panes: Iterable[KeyedPane]) -> list[KeyedPane]:
    last: dict[tuple[str, Window], KeyedPane] = {}
    for pane in panes:
        name = pane.key, pane.window
        if name not in last or pane.index >= last[name].index:
            last[name] = pane
    return [pane for pane in last.values() if not any(_merged_into(pane, later) for later in last.values())]


def _merged_into(pane: KeyedPane, other: KeyedPane) -> bool:
    return pane.key == other.key and pane.window != other.window and other.window.covers(pane.window)
