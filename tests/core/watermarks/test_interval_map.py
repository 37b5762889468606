"""The interval map (MillWheel 7.2): what counts, what falls back, and that the minimum is the minimum."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.watermarks.interval_map import (
    IntervalMap,
    Unconfirmed,
    interval_of_process,
    process_of_interval,
)
from headrace.wire.keys import ALL_KEYS, KeyInterval
from tests.core.driver import LEFT, RIGHT


def halves(left: int = 10, right: int = 20) -> IntervalMap:
    """Two intervals, with sequencers 1 and 2, and horizons of a tenth."""
    known = IntervalMap()
    assert known.update(LEFT, 1, left, left // 10)
    assert known.update(RIGHT, 2, right, right // 10)
    return known


def minima(known: IntervalMap) -> tuple[int, int]:
    known.check_invariants()
    return known.low_watermark, known.horizon


def confirmed(known: IntervalMap) -> IntervalMap:
    known.confirm(known.unconfirmed())
    assert known.unconfirmed().reporters == []
    return known


def test_an_interval_that_nobody_has_reported_holds_everything() -> None:
    known = IntervalMap()
    assert (minima(known), known.is_complete) == ((MIN_TIME, MIN_TIME), False)
    known.update(LEFT, 1, 10, 1)
    assert (minima(known), known.is_complete, len([*known.entries()])) == ((MIN_TIME, MIN_TIME), False, 2)
    known.update(RIGHT, 2, 20, 2)
    assert (minima(known), known.is_complete, len([*known.entries()])) == ((10, 1), True, 2)


def test_an_interval_that_falls_silent_stays_at_its_last_known_value() -> None:
    known = halves()
    assert known.update(RIGHT, 2, MAX_TIME, MAX_TIME)
    assert minima(known) == (10, 1)


def test_an_owner_never_takes_back_what_it_reported() -> None:
    known = halves(right=90)
    assert known.update(LEFT, 1, 15, 3)
    assert known.update(LEFT, 1, 12, 2)  # sent earlier, arrived later
    assert minima(known) == (15, 3)


def test_a_newer_owner_may_know_less_than_its_predecessor() -> None:
    known = halves()
    assert known.update(LEFT, 3, 4, 0)
    assert minima(known) == (4, 0)


def test_a_zombie_changes_nothing() -> None:
    known = halves()
    assert known.update(LEFT, 3, 12, 1)
    assert not known.update(LEFT, 1, 90, 90)
    assert minima(known) == (12, 1)


@pytest.mark.parametrize("interval", [ALL_KEYS, KeyInterval("a", "n"), KeyInterval("n", "o"), RIGHT])
def test_a_report_that_overlaps_a_newer_interval_changes_nothing(interval: KeyInterval) -> None:
    known = halves()
    assert known.update(RIGHT, 9, 20, 2)
    before = [known.low_watermark, known.horizon, len([*known.entries()])]
    assert not known.update(interval, 8, 90, 90)
    known.check_invariants()
    assert [known.low_watermark, known.horizon, len([*known.entries()])] == before


def test_a_split_leaves_the_other_half_at_its_last_known_value() -> None:
    known = halves()
    assert known.update(KeyInterval("", "g"), 3, 50, 5)
    assert (minima(known), len([*known.entries()])) == ((10, 1), 3)
    assert known.update(KeyInterval("g", "m"), 4, 60, 6)
    assert minima(known) == (20, 2)


def test_an_interval_in_the_midst_of_another_cuts_it_in_three() -> None:
    known = IntervalMap()
    assert known.update(ALL_KEYS, 1, 10, 1)
    assert known.update(KeyInterval("g", "m"), 2, 5, 0)
    assert (minima(known), len([*known.entries()])) == ((5, 0), 3)
    assert known.update(KeyInterval("g", "m"), 2, 50, 5)
    assert minima(known) == (10, 1)


def test_a_merge_replaces_what_it_covers() -> None:
    known = halves()
    assert known.update(ALL_KEYS, 3, 40, 4)
    assert (minima(known), len([*known.entries()])) == ((40, 4), 1)


def test_a_merge_that_ends_within_an_interval_leaves_the_rest_of_it() -> None:
    known = halves()
    assert known.update(KeyInterval("", "t"), 3, 40, 4)
    assert (minima(known), len([*known.entries()])) == ((20, 2), 2)


def test_a_zombie_of_a_split_interval_cannot_report_for_the_remaining_half() -> None:
    known = IntervalMap()
    known.update(ALL_KEYS, 1, 10, 1)
    known.update(LEFT, 2, 50, 5)
    assert not known.update(ALL_KEYS, 1, 90, 9)
    assert minima(known) == (10, 1)


# What the store has confirmed


def test_unconfirmed_is_what_changed_since_the_last_confirmation() -> None:
    known = halves()
    assert known.unconfirmed().reporters == [(LEFT, 1), (RIGHT, 2)]
    confirmed(known)
    known.update(LEFT, 1, 10, 1)  # says nothing new
    known.update(RIGHT, 2, 20, 3)
    assert known.unconfirmed().reporters == [(RIGHT, 2)]


def test_a_disowned_report_falls_back_to_the_confirmed_value() -> None:
    known = confirmed(halves())
    known.update(LEFT, 1, 15, 3)
    known.disown(1)
    assert (minima(known), known.is_complete) == ((10, 1), False)
    assert known.unconfirmed().reporters == []


def test_a_disowned_report_that_took_something_back_falls_back_as_well() -> None:
    known = confirmed(halves())
    known.update(LEFT, 3, 4, 0)
    known.disown(3)
    assert minima(known) == (10, 1)


def test_a_disowned_owner_is_not_heard_again_but_its_successor_is() -> None:
    known = halves()
    known.disown(1)
    assert not known.update(LEFT, 1, 90, 90)
    assert minima(known) == (MIN_TIME, MIN_TIME)
    assert known.update(LEFT, 3, 12, 1)
    assert (minima(known), known.is_complete) == ((12, 1), True)


def test_the_very_next_sequencer_may_be_the_successors_and_is_heard() -> None:
    known = halves()
    known.disown(1)
    assert known.update(LEFT, 2, 12, 1)
    assert (minima(known), known.is_complete) == ((12, 1), True)


def test_disowning_one_owner_leaves_the_others() -> None:
    known = confirmed(halves())
    known.update(LEFT, 1, 15, 3)
    known.update(RIGHT, 2, 30, 4)
    known.disown(1)
    assert known.unconfirmed().reporters == [(RIGHT, 2)]


def test_what_arrives_while_the_journal_is_written_is_not_confirmed_with_it() -> None:
    known = halves()
    journaled = known.unconfirmed()
    known.update(LEFT, 1, 15, 3)
    known.confirm(journaled)
    assert known.unconfirmed().reporters == [(LEFT, 1)]
    known.disown(1)
    assert minima(known) == (10, 1)


def test_a_value_that_a_new_owner_only_repeats_is_to_be_confirmed_as_well() -> None:
    known = IntervalMap()
    known.update(ALL_KEYS, 1, 10, 1)
    known.update(LEFT, 2, 10, 1)
    assert known.unconfirmed().reporters == [(RIGHT, 1), (LEFT, 2)]
    known.disown(1)
    known.disown(2)
    assert minima(known) == (MIN_TIME, MIN_TIME)


def test_an_interval_that_is_cut_while_the_journal_is_written_falls_back_to_what_was_confirmed_before() -> (
    None
):
    known = confirmed(halves())
    known.update(LEFT, 1, 15, 3)
    journaled = known.unconfirmed()
    known.update(KeyInterval("", "g"), 3, 16, 3)
    known.confirm(journaled)
    known.check_invariants()
    assert known.unconfirmed().reporters == [(KeyInterval("g", "m"), 1), (KeyInterval("", "g"), 3)]
    known.disown(1)
    known.disown(3)
    assert minima(known) == (10, 1)


def test_after_a_restart_every_interval_starts_from_the_journaled_minimum() -> None:
    known = IntervalMap()
    known.start_from(30, 3)
    assert (minima(known), known.is_complete) == ((30, 3), False)
    known.update(LEFT, 1, 50, 5)
    assert minima(known) == (30, 3)


def test_what_a_standby_has_heard_counts_until_it_is_disowned() -> None:
    known = confirmed(halves())
    known.start_from(5, 2)
    assert minima(known) == (10, 2)
    assert known.unconfirmed().reporters == [(LEFT, 1), (RIGHT, 2)]
    known.disown(1)
    assert minima(known) == (5, 2)


def test_a_standby_that_lagged_starts_from_the_journaled_minimum() -> None:
    known = halves()
    known.start_from(15, 9)
    assert minima(known) == (15, 9)
    assert known.unconfirmed().reporters == [(RIGHT, 2)]


def test_what_was_confirmed_of_the_disowned_counts_no_more_than_the_journal_after_a_restart() -> None:
    known = confirmed(halves())
    known.update(RIGHT, 2, 30, 3)
    known.disown(2)
    known.start_from(10, 1)
    assert known.unconfirmed().reporters == []
    known.update(LEFT, 1, 50, 5)
    assert minima(known) == (10, 1)


def test_pending_work_is_that_of_the_last_reports() -> None:
    known = IntervalMap()
    known.update(LEFT, 1, 10, 1, ((10, 2), (30, 1)))
    known.update(RIGHT, 2, 20, 2, ((20, 4),))
    known.update(LEFT, 1, 30, 1, ((30, 1),))
    assert list(known.pending()) == [(30, 1), (20, 4)]


def test_the_processes_of_an_injector_are_the_intervals_of_a_map() -> None:
    places = [interval_of_process(process, 12) for process in range(12)]
    assert [process_of_interval(place) for place in places] == list(range(12))
    known = IntervalMap()
    for process, place in enumerate(places):
        assert not known.is_complete
        known.update(place, 1, 100 + process, process)
    assert (minima(known), known.is_complete, len([*known.entries()])) == ((100, 0), True, 12)


def test_minima_stay_right_when_one_straggler_holds_while_all_others_rise() -> None:
    known = IntervalMap()
    lows = ["", *("".join(pair) for pair in itertools.product(ascii_lowercase, repeat=2))]
    intervals = [KeyInterval(low, high) for low, high in zip(lows, [*lows[1:], None], strict=True)]
    for sequencer, interval in enumerate(intervals, 1):
        known.update(interval, sequencer, 0, 0)
    for round_ in range(1, 6):
        for sequencer, interval in enumerate(intervals[1:], 2):
            known.update(interval, sequencer, round_ * 1_000 - sequencer, round_)
        assert minima(known) == (0, 0)
    known.update(intervals[0], 1, 10_000, 10)
    assert minima(known) == (5_000 - len(lows), 5)


def test_owners_that_keep_lowering_reports_do_not_fill_the_buckets() -> None:
    known = IntervalMap()
    for sequencer in range(1, 2_000):
        known.update(ALL_KEYS, sequencer, -sequencer, 0)
    assert minima(known) == (-1_999, 0)
    assert sum(map(len, known._low_watermarks._buckets.values())) < 100


KEYS = "abcdefgh"
MINTS = st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=6)
REPORTS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(-20, 20), st.sampled_from(["report", "confirm", "disown"])),
    max_size=40,
)


def minted(changes: list[tuple[str, bool]]) -> list[tuple[KeyInterval, int]]:
    """Every (interval, sequencer) of a master that splits at a key, or merges what meets there."""
    live = [(ALL_KEYS, 1)]
    ever = list(live)
    for key, split in changes:
        at = next(number for number, (interval, _) in enumerate(live) if interval.contains(key))
        one = live[at][0]
        if split and one.low != key:
            new = [KeyInterval(one.low, key), KeyInterval(key, one.high)]
        elif at + 1 < len(live):
            new = [KeyInterval(one.low, live[at + 1][0].high)]
        else:
            new = [one]
        gone = 2 if len(new) == 1 and new[0].high != one.high else 1
        made = [(interval, len(ever) + number) for number, interval in enumerate(new, 1)]
        live[at : at + gone] = made
        ever += made
    return ever


@given(MINTS, REPORTS)
def test_the_map_agrees_with_a_table_of_single_keys(
    changes: list[tuple[str, bool]], reports: list[tuple[int, int, str]]
) -> None:
    # Reports of all past owners, in any order, against a model that keeps one value for each key.
    owners = minted(changes)
    known = IntervalMap()
    keys = ["", *KEYS]
    sequencers, values = dict.fromkeys(keys, 0), dict.fromkeys(keys, MIN_TIME)
    for number, value, _ in reports:
        interval, sequencer = owners[number % len(owners)]
        mine = [key for key in keys if interval.contains(key)]
        counts = all(sequencers[key] <= sequencer for key in mine)
        assert known.update(interval, sequencer, value, -value) == counts
        for key in mine if counts else []:
            values[key] = max(values[key], value) if sequencers[key] == sequencer else value
            sequencers[key] = sequencer
        known.check_invariants()
        assert known.low_watermark == min(values.values())


@given(MINTS, REPORTS)
def test_after_all_owners_are_disowned_the_map_is_where_it_was_confirmed_last(
    changes: list[tuple[str, bool]], reports: list[tuple[int, int, str]]
) -> None:
    owners = minted(changes)
    known = IntervalMap()
    least = MIN_TIME
    for number, value, what in reports:
        interval, sequencer = owners[number % len(owners)]
        if what == "confirm":
            least = min(known.low_watermark, known.horizon)
            confirmed(known)
        elif what == "disown":
            known.disown(sequencer)
        else:
            known.update(interval, sequencer, value, value)
        known.check_invariants()
    for _, sequencer in known.unconfirmed().reporters:
        known.disown(sequencer)
    known.check_invariants()
    assert known.unconfirmed().reporters == []
    assert known.low_watermark >= least


def test_what_has_risen_past_others_unseen_is_not_the_minimum() -> None:
    known = IntervalMap()
    first, second, third = KeyInterval("", "g"), KeyInterval("g", "m"), KeyInterval("m")
    for interval, low_watermark in ((first, 0), (second, 5_000), (third, 9_000)):
        known.update(interval, 1, low_watermark, low_watermark)
    assert minima(known) == (0, 0)
    known.update(first, 1, 95_000, 95_000)
    known.update(second, 1, 90_000, 90_000)
    assert minima(known) == (9_000, 9_000)


@dataclass(slots=True)
class Piece:
    """What a model knows of one interval; the last two are (low watermark, horizon)."""

    keys: KeyInterval
    sequencer: int = 0
    heard: bool = False
    known: tuple[int, int] = (MIN_TIME, MIN_TIME)
    confirmed: tuple[int, int] = (MIN_TIME, MIN_TIME)


class Pieces:
    """A model of the map: a list of intervals, all of which are looked at each time."""

    def __init__(self) -> None:
        self.pieces = [Piece(ALL_KEYS)]
        self.journaled: list[tuple[Piece, tuple[int, int]]] = []

    def update(self, keys: KeyInterval, sequencer: int, known: tuple[int, int]) -> bool:
        met = [piece for piece in self.pieces if piece.keys.overlaps(keys)]
        if any(piece.sequencer > sequencer for piece in met):
            return False
        if [piece.keys for piece in met] == [keys]:
            (piece,) = met
            piece.known = least(known, piece.known, max) if piece.sequencer == sequencer else known
        else:
            confirmed = met[0].confirmed
            for entry in met:
                confirmed = least(confirmed, entry.confirmed)
            piece = Piece(keys, known=known, confirmed=confirmed)
            rest = [replace(old, keys=part) for old in met for part in outside(old.keys, keys)]
            self.pieces = [piece for piece in self.pieces if piece not in met] + rest + [piece]
        piece.sequencer, piece.heard = sequencer, True
        return True

    def unconfirmed(self) -> list[Piece]:
        return [piece for piece in self.pieces if piece.known != piece.confirmed]

    def journal(self) -> None:
        self.journaled = [(piece, piece.known) for piece in self.unconfirmed()]

    def confirm(self) -> None:
        for piece, known in self.journaled:
            piece.confirmed = known

    def disown(self, sequencer: int) -> None:
        for piece in self.unconfirmed():
            if piece.sequencer == sequencer:
                piece.known, piece.heard, piece.sequencer = piece.confirmed, False, sequencer + 1

    def start_from(self, start: tuple[int, int]) -> None:
        for piece in self.pieces:
            piece.known = least(start, piece.known, max) if piece.heard else start
            piece.confirmed = start


def least(
    first: tuple[int, int], second: tuple[int, int], of: Callable[[int, int], int] = min
) -> tuple[int, int]:
    return of(first[0], second[0]), of(first[1], second[1])


def outside(old: KeyInterval, keys: KeyInterval) -> list[KeyInterval]:
    """What is left of an interval beside others that overlap it."""
    left = [KeyInterval(old.low, keys.low)] if old.low < keys.low else []
    goes_on = keys.high is not None and (old.high is None or keys.high < old.high)
    return left + ([KeyInterval(keys.high or "", old.high)] if goes_on else [])


TIMES = st.sampled_from([0, 1, 7, 1_023, 1_024, 1_025, 5_000, 90_000, MAX_TIME])
BOUNDS = st.sampled_from(["", *"abcdefghijklmnop"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["report", "report", "report", "again", "copy", "journal", "confirm", "disown", "start"]),
        st.tuples(BOUNDS, BOUNDS),
        st.integers(1, 6),
        st.tuples(TIMES, TIMES),
    ),
    max_size=60,
)  # fmt: skip


@given(STEPS)
def test_the_map_does_what_a_list_of_all_intervals_does(
    steps: list[tuple[str, tuple[str, str], int, tuple[int, int]]],
) -> None:
    """Owners report as they like, again and with a copy of their interval, while some are confirmed and some disowned.

    The minima are looked at now and then. What is journaled is confirmed once, and no more if somebody was disowned, or all began
    anew, in the meantime.
    """
    known, model = IntervalMap(), Pieces()
    nothing = journaled = Unconfirmed([])
    owners = [(ALL_KEYS, 1)]
    for what, (low, high), number, values in steps:
        match what:
            case "report" | "again" | "copy":
                if what == "report":
                    owners.append(
                        (KeyInterval(min(low, high), max(low, high) if low != high else None), number)
                    )
                keys, sequencer = owners[-1 - number % len(owners)]
                keys = KeyInterval(keys.low, keys.high) if what == "copy" else keys
                assert known.update(keys, sequencer, *values) == model.update(keys, sequencer, values)
            case "journal":
                journaled = known.unconfirmed()
                model.journal()
            case "confirm":
                known.confirm(journaled)
                model.confirm()
                journaled, model.journaled = nothing, []
            case "disown":
                known.disown(number)
                model.disown(number)
                journaled, model.journaled = nothing, []
            case _:
                known.start_from(*values)
                model.start_from(values)
                journaled, model.journaled = nothing, []
        if number % 2:  # looking moves what has risen; without a look much may have
            continue
        known.check_invariants()
        pieces = [piece.known for piece in model.pieces]
        assert minima(known) == (min(low for low, _ in pieces), min(horizon for _, horizon in pieces))
        assert known.is_complete == all(piece.heard for piece in model.pieces)
    known.check_invariants()
    expected = [(piece.keys, piece.sequencer) for piece in model.unconfirmed()]
    assert sorted(known.unconfirmed().reporters, key=str) == sorted(expected, key=str)
