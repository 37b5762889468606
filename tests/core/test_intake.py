"""Position, low watermark and horizon of what an injector's process has read (MillWheel 4.5, 5.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import MAX_TIME, MIN_TIME
from millrace._intake import Entry, Intake
from millrace._messages import Progress


def intake_at(position: int = 0, journaled: Progress | None = None, settled_us: int = MIN_TIME) -> Intake:
    return Intake(position, journaled or Progress(), settled_us)


def read(intake: Intake, now: int, timestamp: int) -> Entry:
    offset = intake.next_offset
    assert intake.is_next(offset)
    return intake.read(now, offset, timestamp)


def read_watermark(intake: Intake, now: int, low_watermark: int) -> bool:
    offset = intake.next_offset
    assert intake.is_next(offset)
    return intake.read_watermark(now, offset, low_watermark)


def promised(intake: Intake, now: int) -> tuple[int, int, int]:
    intake.promise(now)
    intake.check_invariants()
    return intake.position, intake.promised.low_watermark, intake.promised.horizon


def test_with_nothing_read_the_position_stays_and_the_horizon_is_the_clock() -> None:
    intake = intake_at(position=3)
    assert promised(intake, now=50) == (3, MIN_TIME, 50)


def test_the_position_is_the_first_unfinished_offset_and_the_horizon_its_origin() -> None:
    intake = intake_at()
    first, second, third = (read(intake, now, timestamp=7) for now in (10, 20, 30))
    assert promised(intake, now=40)[0::2] == (0, 10)
    intake.finish(second)
    assert promised(intake, now=40)[0::2] == (0, 10)
    intake.finish(first)
    assert promised(intake, now=40)[0::2] == (2, 30)
    intake.finish(third)
    assert promised(intake, now=40)[0::2] == (3, 40)


def test_a_record_read_after_an_idle_horizon_is_not_before_it_whatever_the_clock_says() -> None:
    intake = intake_at()
    assert promised(intake, now=100) == (0, MIN_TIME, 100)
    assert read(intake, now=60, timestamp=1).origin == 100


def test_the_low_watermark_is_the_oldest_of_the_source_and_of_unfinished_records() -> None:
    intake = intake_at()
    old, new = read(intake, 1, timestamp=70), read(intake, 2, timestamp=90)
    assert read_watermark(intake, 3, 80)
    assert promised(intake, 4) == (0, 70, 1)
    intake.finish(old)
    assert promised(intake, 5) == (1, 80, 2)
    intake.finish(new)
    assert promised(intake, 6) == (3, 80, 6)
    assert read_watermark(intake, 7, MAX_TIME)
    assert promised(intake, 8) == (4, MAX_TIME, 8)


def test_a_record_behind_the_promise_is_late_and_holds_the_horizon_but_not_the_watermark() -> None:
    intake = intake_at()
    read_watermark(intake, 1, 80)
    intake.promise(2)
    late = read(intake, 3, timestamp=79)
    assert late.late
    assert promised(intake, 4) == (1, 80, 3)
    intake.finish(late)
    assert promised(intake, 5) == (2, 80, 5)


def test_a_record_at_the_promise_is_not_late() -> None:
    intake = intake_at()
    read_watermark(intake, 1, 80)
    intake.promise(2)
    assert not read(intake, 3, timestamp=80).late


def test_a_record_behind_the_source_but_not_behind_the_promise_holds_the_watermark() -> None:
    intake = intake_at()
    read_watermark(intake, 1, 80)
    early = read(intake, 2, timestamp=50)
    assert not early.late
    assert promised(intake, 3)[1] == 50


def test_the_position_does_not_pass_a_source_watermark_that_is_not_reached() -> None:
    """The source promises 80 and then breaks it. A successor that began after the promise would never hear of it again."""
    intake = intake_at()
    read_watermark(intake, 1, 80)
    read(intake, 2, timestamp=90)
    early = read(intake, 3, timestamp=50)
    assert promised(intake, 4) == (0, 50, 1)
    intake.finish(early)
    assert promised(intake, 5) == (1, 80, 2)


def test_a_lower_source_watermark_changes_nothing() -> None:
    intake = intake_at()
    assert read_watermark(intake, 1, 80)
    assert not read_watermark(intake, 2, 80)
    assert not read_watermark(intake, 3, 20)
    assert promised(intake, 4) == (3, 80, 4)


def test_promising_again_without_a_change_is_no_news() -> None:
    intake = intake_at()
    entry = read(intake, 1, timestamp=5)
    assert intake.promise(2)
    assert not intake.promise(3)
    intake.finish(entry)
    assert intake.promise(4)


def test_a_position_that_moves_alone_is_news() -> None:
    intake = intake_at()
    first, _second = read(intake, 1, timestamp=5), read(intake, 1, timestamp=5)
    intake.promise(2)
    intake.finish(first)
    assert intake.promise(3)
    assert (intake.position, intake.promised.horizon) == (1, 1)


def test_after_recovery_it_goes_on_from_the_journal() -> None:
    intake = intake_at(position=7, journaled=Progress(60, 500))
    assert (intake.source_us, intake.next_offset) == (60, 7)
    assert read(intake, now=400, timestamp=59).late
    assert promised(intake, now=400) == (7, 60, 500)


def test_what_a_predecessor_may_have_sent_holds_the_journaled_horizon() -> None:
    """Its predecessor's copies carry origins from 500 on; the horizon must not pass those while ours are under way."""
    intake = intake_at(position=7, journaled=Progress(60, 500), settled_us=2_000)
    again, new = read(intake, now=1_999, timestamp=70), read(intake, now=2_000, timestamp=71)
    assert (again.origin, new.origin) == (500, 2_000)
    assert promised(intake, 2_100) == (7, 60, 500)
    intake.finish(again)
    assert promised(intake, 2_100) == (8, 60, 2_000)


def test_until_it_is_settled_an_idle_process_leaves_the_horizon_where_it_was() -> None:
    intake = intake_at(position=7, journaled=Progress(60, 500), settled_us=2_000)
    assert not intake.promise(1_999)
    assert intake.promise(2_000)


def test_offsets_are_taken_once_and_a_gap_is_a_bug_of_the_host() -> None:
    intake = intake_at(position=2)
    assert [intake.is_next(offset) for offset in (0, 1, 2, 2, 3)] == [False, False, True, False, True]
    with pytest.raises(AssertionError, match="the source jumps from offset 4 to 5"):
        intake.is_next(5)


def test_pending_timestamps_are_counted_without_late_and_finished_ones() -> None:
    intake = intake_at()
    read_watermark(intake, 0, 10)
    intake.promise(0)
    read(intake, 1, timestamp=9)
    read(intake, 1, timestamp=14)
    done = read(intake, 1, timestamp=25)
    read(intake, 1, timestamp=26)
    intake.finish(done)
    assert intake.buckets(10) == ((10, 1), (20, 1))
    assert intake.oldest() == 14


step = st.tuples(
    st.sampled_from(["record", "watermark", "finish", "promise"]), st.integers(0, 20), st.integers(0, 3)
)


@given(steps=st.lists(step, max_size=50))
def test_whatever_happens_promises_rise_and_cover_all_that_is_unfinished(
    steps: list[tuple[str, int, int]],
) -> None:
    intake = intake_at()
    entries: list[Entry] = []
    now = 0
    before = (0, MIN_TIME, MIN_TIME)
    for verb, argument, pause_us in steps:
        now += pause_us
        match verb:
            case "record":
                entries.append(read(intake, now, argument))
            case "watermark":
                read_watermark(intake, now, argument)
            case "finish" if entries:
                intake.finish(entries.pop(argument % len(entries)))
            case _:
                after = promised(intake, now)
                assert all(new >= old for new, old in zip(after, before, strict=True)), "a promise went back"
                assert after[1] <= intake.source_us
                before = after
        intake.check_invariants()
