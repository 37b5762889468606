"""The interval map of a computation (MillWheel 7.2): the authority's knowledge of each key interval's progress.

Rules of this file:

* The map covers the whole key space. Keys that nobody has reported yet are at minus infinity; missing intervals keep their last
  known value.
* A report counts unless an overlapping interval has a newer sequencer. It replaces the parts of older intervals that it
  overlaps; their remaining parts keep the last known value.
* A report by the same owner never lowers an earlier one, since the network reorders; a report by a newer owner may.
* Every value is either confirmed (the store accepted a journal entry based on it, and found its owner in place) or returns to
  the last confirmed value when the store says that its owner had been replaced.

Choice: an injector's processes are also kept as intervals of such a map, with the process number as keys and the epoch as
sequencer (`interval_of_process`), since the rules are the same.

Cost: the common report, for an existing interval, is a dictionary lookup; for the minima see `interval_minimum`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import count
from operator import attrgetter

from headrace.rules import RULES, Rules
from headrace.watermarks.interval_minimum import IntervalValues, Minimum, Pending
from headrace.wire.keys import ALL_KEYS, KeyInterval


class Unconfirmed:
    """The values on which a journal entry is based, as they were when the entry was made.

    Attributes:
        reporters: (interval, sequencer) of each owner that reported one, once each.
    """

    __slots__ = ("_values", "reporters")

    def __init__(self, entries: Sequence[IntervalValues]) -> None:
        self._values = [(entry, entry.low_watermark, entry.horizon) for entry in entries]
        self.reporters = [(entry.interval, entry.sequencer) for entry in entries]

    def __iter__(self) -> Iterator[tuple[IntervalValues, int, int]]:
        """Iterate over (entry, low watermark, horizon)."""
        return iter(self._values)


class IntervalMap:
    """Progress by key interval, over all keys.

    >>> known = IntervalMap()
    >>> known.update(KeyInterval("", "m"), 1, low_watermark=30, horizon=3)
    True
    >>> from headrace.api.time import MIN_TIME
    >>> known.low_watermark == MIN_TIME  # nobody has reported the other keys
    True
    >>> known.update(KeyInterval("m"), 2, low_watermark=20, horizon=2)
    True
    >>> known.low_watermark, known.horizon
    (20, 2)
    >>> known.update(KeyInterval(), 1, low_watermark=90, horizon=9)  # a zombie: 2 is newer
    False
    """

    def __init__(self, rules: Rules = RULES) -> None:
        self._rules = rules
        everything = IntervalValues(ALL_KEYS)
        self._numbers = count(1)
        self._lows: list[str] = [""]
        self._by_low: dict[str, IntervalValues] = {"": everything}
        self._listed: list[IntervalValues] = []
        self._low_watermarks = Minimum(attrgetter("low_watermark"), self._by_low)
        self._horizons = Minimum(attrgetter("horizon"), self._by_low)
        self._low_watermarks.lowered(everything)
        self._horizons.lowered(everything)
        self._unheard = 1

    @property
    def low_watermark(self) -> int:
        """The minimum over all intervals; event time, microseconds."""
        return self._low_watermarks.read()

    @property
    def horizon(self) -> int:
        """The minimum over all intervals; origin, microseconds."""
        return self._horizons.read()

    @property
    def is_complete(self) -> bool:
        """Whether every interval was reported by an owner that the store has not disowned since."""
        return self._unheard == 0

    def entries(self) -> Iterator[IntervalValues]:
        """Iterate over all intervals in key order, including missing ones."""
        return (self._by_low[low] for low in self._lows)

    def pending(self) -> Iterator[tuple[int, int]]:
        """Iterate over (event time rounded down, count) of all intervals' pending work; times may repeat."""
        for entry in self.entries():
            yield from entry.pending

    def update(
        self, interval: KeyInterval, sequencer: int, low_watermark: int, horizon: int, pending: Pending = ()
    ) -> bool:
        """Accept a report (7.2).

        Args:
            interval: the keys that it covers.
            sequencer: the sequencer of the interval's owner.
            low_watermark: event time, microseconds.
            horizon: origin, microseconds.
            pending: the interval's pending work, for percentiles.

        Returns:
            Whether the report counts; it does not if a newer sequencer is known for any of these keys.
        """
        entry = self._by_low.get(interval.low)
        if entry is None or (entry.interval is not interval and entry.interval.high != interval.high):
            entry = self._carve(interval, sequencer)
            if entry is None:
                return False
        elif sequencer == entry.sequencer:
            if (
                low_watermark >= entry.low_watermark and horizon >= entry.horizon and entry.heard
            ):  # the common case
                entry.low_watermark, entry.horizon = low_watermark, horizon
                if entry.pending is not pending:
                    entry.pending = pending
                if not entry.is_listed:
                    self._list(entry)
                return True
            if low_watermark < entry.low_watermark:
                low_watermark = self._rules.reported(entry.low_watermark, low_watermark)
            if horizon < entry.horizon:
                horizon = self._rules.reported(entry.horizon, horizon)
        elif not self._rules.is_newer(sequencer, entry.sequencer):
            return False
        entry.sequencer = sequencer
        entry.pending = pending
        if not entry.heard:
            entry.heard = True
            self._unheard -= 1
        self._set(entry, low_watermark, horizon)
        return True

    def _set(self, entry: IntervalValues, low_watermark: int, horizon: int) -> None:
        """Change a value. Any unconfirmed value has to be confirmed, whoever reported it first."""
        before, entry.low_watermark = entry.low_watermark, low_watermark
        if low_watermark < before:
            self._low_watermarks.lowered(entry)
        before, entry.horizon = entry.horizon, horizon
        if horizon < before:
            self._horizons.lowered(entry)
        if not entry.is_listed:
            self._list(entry)

    def _list(self, entry: IntervalValues) -> None:
        """List an entry that is not confirmed."""
        if not entry.is_confirmed:
            entry.is_listed = True
            self._listed.append(entry)

    # New bounds: a mint changed the intervals there (7.1)

    def _carve(self, interval: KeyInterval, sequencer: int) -> IntervalValues | None:
        """Make room for an interval, unless it overlaps a newer one."""
        begin = bisect_right(self._lows, interval.low) - 1
        end = len(self._lows) if interval.high is None else bisect_left(self._lows, interval.high)
        old = [self._by_low[low] for low in self._lows[begin:end]]
        if any(
            entry.sequencer != sequencer and not self._rules.is_newer(sequencer, entry.sequencer)
            for entry in old
        ):
            return None
        first, last = old[0], old[-1]
        new = self._merged(interval, old)
        parts = [new]
        if first.interval.low < interval.low:
            parts.insert(0, self._part(first, KeyInterval(first.interval.low, interval.low)))
        if interval.high is not None and last.interval.high != interval.high:
            parts.append(self._part(last, KeyInterval(interval.high, last.interval.high)))
        for entry in old:
            entry.in_map = False
            del self._by_low[entry.interval.low]
            self._unheard -= not entry.heard
        self._lows[begin:end] = [part.interval.low for part in parts]
        for part in parts:
            self._by_low[part.interval.low] = part
            self._low_watermarks.lowered(part)
            self._horizons.lowered(part)
            self._unheard += not part.heard
        return new

    def _merged(self, interval: KeyInterval, old: Sequence[IntervalValues]) -> IntervalValues:
        """Return an entry with the minimum of each value over its keys' previous entries."""
        entry = IntervalValues(interval, number=next(self._numbers))
        entry.low_watermark = min(part.low_watermark for part in old)
        entry.horizon = min(part.horizon for part in old)
        entry.confirmed_low_watermark = min(part.confirmed_low_watermark for part in old)
        entry.confirmed_horizon = min(part.confirmed_horizon for part in old)
        return entry

    def _part(self, old: IntervalValues, interval: KeyInterval) -> IntervalValues:
        """Return an entry for some of another entry's keys, with all its values."""
        entry = self._merged(interval, [old])
        entry.sequencer, entry.pending, entry.heard = old.sequencer, old.pending, old.heard
        if old.is_listed and not old.is_confirmed:
            entry.is_listed = True
            self._listed.append(entry)
        return entry

    # Confirmation by the store

    def unconfirmed(self) -> Unconfirmed:
        """Return the values on which no accepted journal entry is based yet."""
        return Unconfirmed(self._still_unconfirmed())

    def _still_unconfirmed(self) -> list[IntervalValues]:
        """Return the listed entries that are still unconfirmed; take all others off the list."""
        before, self._listed = self._listed, []
        for entry in before:
            entry.is_listed = entry.in_map and not entry.is_confirmed
            if entry.is_listed:
                self._listed.append(entry)
        return self._listed

    def confirm(self, journaled: Unconfirmed) -> None:
        """Confirm these values: the store accepted a journal entry based on them."""
        for entry, low_watermark, horizon in journaled:
            entry.confirmed_low_watermark, entry.confirmed_horizon = low_watermark, horizon
        self._still_unconfirmed()

    def disown(self, sequencer: int, keys: KeyInterval = ALL_KEYS) -> None:
        """Forget an owner's unconfirmed reports for these keys: the store says that it had been replaced.

        From then on only reports with a greater sequencer count, such as its successor's.
        """
        for entry in list(self._listed):
            if (
                not entry.in_map
                or entry.is_confirmed
                or entry.sequencer != sequencer
                or not entry.interval.overlaps(keys)
            ):
                continue
            self._set(entry, entry.confirmed_low_watermark, entry.confirmed_horizon)
            entry.sequencer += 1
            entry.pending = ()
            self._unheard += entry.heard
            entry.heard = False
        self._still_unconfirmed()

    def start_from(self, low_watermark: int, horizon: int) -> None:
        """Start from the journaled minimum as every interval's last known value (7.2).

        Reports that a standby has already received stay valid until they are confirmed or disowned.
        """
        missing = self._rules.value_of_missing
        for entry in self.entries():
            if entry.heard:
                reached = max(low_watermark, entry.low_watermark), max(horizon, entry.horizon)
                entry.confirmed_low_watermark, entry.confirmed_horizon = low_watermark, horizon
            else:
                reached = missing(low_watermark), missing(horizon)
                entry.confirmed_low_watermark, entry.confirmed_horizon = reached
            self._set(entry, *reached)

    def check_invariants(self) -> None:
        """Assert that the map covers every key once, and that its minima are those of its entries."""
        entries = list(self.entries())
        assert len(entries) == len(self._by_low), "some entries have no boundary"
        end: str | None = ""
        for entry in entries:
            assert entry.interval.low == end, f"keys from {end!r} on are missing or covered twice"
            end = entry.interval.high
        assert end is None, f"keys from {end!r} on are missing"
        assert self.low_watermark == min(entry.low_watermark for entry in entries)
        assert self.horizon == min(entry.horizon for entry in entries)
        assert self._unheard == sum(not entry.heard for entry in entries)
        for entry in entries:
            assert entry.is_confirmed or entry.is_listed, f"{entry.interval} is neither confirmed nor listed"


def interval_of_process(process: int, processes: int) -> KeyInterval:
    """Return the interval that stands for one of an injector's expected processes (5.2).

    >>> [str(interval_of_process(process, 2)) for process in (0, 1)]
    ["['', '00000001')", "['00000001', end)"]
    """
    low = f"{process:08d}" if process else ""
    return KeyInterval(low, None if process + 1 == processes else f"{process + 1:08d}")


def process_of_interval(interval: KeyInterval) -> int:
    """Return the number of the process for which `interval_of_process` returned this interval."""
    return int(interval.low or "0")
