"""Windows (Dataflow 2.2): *where* in event time an element is grouped.

Rules of this file: a window is half open, ``[start, end)``; every strategy is treated as unaligned, so it consists of two
functions: assign an element to windows, and merge the windows of a key.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headrace.dataflow.arguments import check_bool, check_offset, check_positive
from headrace.dataflow.elements import GLOBAL, Element, Window


@runtime_checkable
class WindowFn(Protocol):
    """A windowing strategy (2.2). To write your own, implement both methods, as a value that is equal for equal arguments."""

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Assign an element to its windows (``AssignWindows``); each window gets a copy of it."""
        ...

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        """Merge the windows of one key (``MergeWindows``): exactly one returned window must cover each given one.

        Return the argument if your windows never merge. The result must not depend on the order in which elements arrived.
        """
        ...


@dataclass(frozen=True, slots=True)
class GlobalWindows:
    """One window that covers all of event time (2.2): the default."""

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Assign every element to the global window."""
        del element
        return (GLOBAL,)

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        """Return the windows unmerged."""
        return windows


@dataclass(frozen=True, slots=True)
class FixedWindows:
    """Consecutive windows of one length (1.2).

    Attributes:
        size_us: length of a window, microseconds.
        offset_us: start of a window, relative to event time 0, microseconds.
        phase_spread: whether to shift each key's windows by a different amount, so that they do not all complete at once (1.2:
            "to spread window completion load more evenly over time").
    """

    size_us: int
    offset_us: int = 0
    phase_spread: bool = False

    def __post_init__(self) -> None:
        check_positive("size_us", self.size_us)
        check_offset(self.offset_us)
        check_bool("phase_spread", self.phase_spread)

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Assign an element to the window that contains its event time."""
        offset = self.offset_us + (_phase(element.key, self.size_us) if self.phase_spread else 0)
        start = element.time - (element.time - offset) % self.size_us
        return (Window(start, start + self.size_us),)

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        """Return the windows unmerged."""
        return windows


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Overlapping windows of one length that start periodically (1.2, Figure 3).

    Attributes:
        size_us: length of a window, microseconds.
        period_us: time from one start to the next, microseconds. A period above the length leaves gaps, whose elements are in no
            window.
        offset_us: start of a window, relative to event time 0, microseconds.
    """

    size_us: int
    period_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        check_positive("size_us", self.size_us)
        check_positive("period_us", self.period_us)
        check_offset(self.offset_us)

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Assign an element to the windows that contain its event time, earliest first."""
        last = element.time - (element.time - self.offset_us) % self.period_us
        first = last - (self.size_us - 1) // self.period_us * self.period_us
        starts = range(first, last + 1, self.period_us)
        return tuple(Window(s, s + self.size_us) for s in starts if s <= element.time < s + self.size_us)

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        """Return the windows unmerged."""
        return windows


@dataclass(frozen=True, slots=True)
class Sessions:
    """Periods of activity of one key, ended by a gap (1.2, Figure 4).

    Choice: sessions that touch are merged, that is, elements exactly one gap apart are in one session. 1.2 says "less than the
    timeout", but Figure 14 merges them, as Flink, Spark and Kafka do; Beam does not. Use ``touching_merge=False`` for 1.2's rule.

    Attributes:
        gap_us: inactivity that ends a session when exceeded, microseconds.
        touching_merge: whether elements exactly one gap apart are in one session.
    """

    gap_us: int
    touching_merge: bool = True

    def __post_init__(self) -> None:
        check_positive("gap_us", self.gap_us)
        check_bool("touching_merge", self.touching_merge)

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Assign an element to a window that extends one gap beyond its event time."""
        return (Window(element.time, element.time + self.gap_us),)

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        """Merge windows that overlap, or touch."""
        merged: list[Window] = []
        for window in sorted(windows, key=lambda window: window.start):
            if merged and window.start < merged[-1].end + self.touching_merge:
                last = merged[-1]
                merged[-1] = Window(last.start, max(last.end, window.end))
            else:
                merged.append(window)
        return merged


_NEVER_MERGE = (GlobalWindows.merge_windows, FixedWindows.merge_windows, SlidingWindows.merge_windows)


def never_merges(windows: WindowFn) -> bool:
    """Return whether windows never merge, by ours; a subclass with a ``merge_windows`` of its own may merge them."""
    return getattr(type(windows), "merge_windows", None) in _NEVER_MERGE


def _phase(key: str, size_us: int) -> int:
    """Return a shift that depends only on the key, the same in every process."""
    phase = 0
    for byte in key.encode():
        phase = (phase * 1_000_003 + byte) % 2**61
    return phase % size_us
