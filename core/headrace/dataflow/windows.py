"""Windows (Dataflow 2.2): *where* in event time an element is grouped.

Rules of this file: a window is half open, ``[start, end)``; every strategy is treated as unaligned, so that it is two functions
only: assign an element to windows, and merge the windows of a key.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headrace.dataflow.arguments import check_bool, check_positive, check_time
from headrace.dataflow.elements import GLOBAL, Element, Window


@runtime_checkable
class WindowFn(Protocol):
    """A windowing strategy (2.2). Write your own by writing both methods; it is a value: equal for equal arguments."""

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Assign an element to its windows (``AssignWindows``): a copy of it is made for each."""
        ...

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        """Merge the windows of one key (``MergeWindows``): each given window is covered by exactly one that is returned.

        Give back what you got if yours never merge. It must not matter in which order elements came.
        """
        ...


@dataclass(frozen=True, slots=True)
class GlobalWindows:
    """One window that covers all of event time (2.2): the default."""

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Put all into one."""
        del element
        return (GLOBAL,)

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        """Never merge."""
        return windows


@dataclass(frozen=True, slots=True)
class FixedWindows:
    """Windows of one length, one after the other (1.2).

    Attributes:
        size_us: the length, microseconds.
        offset_us: where the first one begins, relative to event time 0, microseconds.
        phase_spread: shift each key's windows by an amount of its own, so that not all are completed at once (1.2: "to spread
            window completion load more evenly over time").
    """

    size_us: int
    offset_us: int = 0
    phase_spread: bool = False

    def __post_init__(self) -> None:
        """Refuse a length that is none, and what is no offset."""
        check_positive("size_us", self.size_us)
        check_time("offset_us", self.offset_us)
        check_bool("phase_spread", self.phase_spread)

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Find the one window of its time."""
        offset = self.offset_us + (_phase(element.key, self.size_us) if self.phase_spread else 0)
        start = element.time - (element.time - offset) % self.size_us
        return (Window(start, start + self.size_us),)

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        """Never merge."""
        return windows


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows of one length that begin once in a period, and so overlap (1.2, Figure 3).

    Attributes:
        size_us: the length, microseconds.
        period_us: from one begin to the next, microseconds. Above the length there are gaps: an element in one is in no window.
        offset_us: where one of them begins, microseconds.
    """

    size_us: int
    period_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        """Refuse lengths that are none, and what is no offset."""
        check_positive("size_us", self.size_us)
        check_positive("period_us", self.period_us)
        check_time("offset_us", self.offset_us)

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Find the windows that overlap its time, the earliest first."""
        last = element.time - (element.time - self.offset_us) % self.period_us
        first = last - (self.size_us - 1) // self.period_us * self.period_us
        starts = range(first, last + 1, self.period_us)
        return tuple(Window(s, s + self.size_us) for s in starts if s <= element.time < s + self.size_us)

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        """Never merge."""
        return windows


@dataclass(frozen=True, slots=True)
class Sessions:
    """Bursts of activity of one key, ended by a gap (1.2, Figure 4).

    Choice: sessions that touch merge, that is, elements exactly one gap apart are in one session. 1.2 says "less than the
    timeout", but Figure 14 merges such; Flink, Spark and Kafka do, Beam does not. Give ``touching_merge=False`` for 1.2's rule.

    Attributes:
        gap_us: a silence of more than this ends a session, microseconds.
        touching_merge: whether elements exactly one gap apart are in one session.
    """

    gap_us: int
    touching_merge: bool = True

    def __post_init__(self) -> None:
        """Refuse a gap that is none."""
        check_positive("gap_us", self.gap_us)
        check_bool("touching_merge", self.touching_merge)

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Let it extend one gap beyond the element's time."""
        return (Window(element.time, element.time + self.gap_us),)

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        """Join those that overlap, or touch."""
        merged: list[Window] = []
        for window in sorted(windows, key=lambda one: one.start):
            if merged and window.start < merged[-1].end + self.touching_merge:
                last = merged[-1]
                merged[-1] = Window(last.start, max(last.end, window.end))
            else:
                merged.append(window)
        return merged


def _phase(key: str, size_us: int) -> int:
    """A shift that depends on the key alone, the same in every process."""
    phase = 0
    for byte in key.encode():
        phase = (phase * 1_000_003 + byte) % 2**61
    return phase % size_us
