"""Position, low watermark and horizon of what an injector's process has read (MillWheel 4.5, 5.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import MAX_TIME, MIN_TIME
from headrace.injector.intake import Intake, IntakeRecord
from headrace.wire.messages import Progress


def intake_at(position: int = 0, journaled: Progress | None = None) -> Intake:
    return Intake(position, journaled or Progress())


def read(intake: Intake, arrived_us: int, timestamp: int) -> IntakeRecord:
    offset = intake.next_offset
    assert intake.is_next(offset)
    return intake.read(arrived_us, offset, timestamp)


def read_watermark(intake: Intake, arrived_us: int, low_watermark: int) -> bool:
    offset = intake.next_offset
    assert intake.is_next(offset)
    return intake.read_watermark(arrived_us, offset, low_watermark)


def promised(intake: Intake) -> tuple[int, int, int]:
    intake.promise()
    intake.check_invariants()
    return intake.position, intake.promised.low_watermark, intake.promised.horizon


def test_with_nothing_read_position_and_horizon_stay() -> None:
    intake = intake_at(position=3)
    assert not intake.promise()
    assert promised(intake) == (3, MIN_TIME, MIN_TIME)


def test_the_position_is_the_first_unfinished_offset_and_the_horizon_its_origin() -> None:
    intake = intake_at()
    first, second, third = (read(intake, arrived_us, timestamp=7) for arrived_us in (10, 20, 30))
    assert promised(intake)[0::2] == (0, 10)
    intake.finish(second)
    assert promised(intake)[0::2] == (0, 10)
    intake.finish(first)
    assert promised(intake)[0::2] == (2, 30)
    intake.finish(third)
    assert promised(intake)[0::2] == (3, 30)


def test_with_nothing_unfinished_the_horizon_is_the_latest_stamp_read_also_a_watermarks() -> None:
    intake = intake_at()
    intake.finish(read(intake, 10, timestamp=7))
    assert promised(intake) == (1, MIN_TIME, 10)
    assert read_watermark(intake, 25, 5)
    assert promised(intake) == (2, 5, 25)
    assert not read_watermark(intake, 40, 5), "it says nothing new of the watermark, but brings a stamp"
    assert promised(intake) == (3, 5, 40)


def test_a_record_at_the_idle_horizon_is_not_before_it() -> None:
    intake = intake_at()
    read_watermark(intake, 100, 5)
    assert promised(intake) == (1, 5, 100)
    assert read(intake, 100, timestamp=7).origin == 100
    assert promised(intake) == (1, 5, 100)


def test_origins_are_the_sources_stamps_and_never_go_back() -> None:
    intake = intake_at()
    origins = [read(intake, arrived_us, timestamp=1).origin for arrived_us in (30, 20, 40)]
    read_watermark(intake, 70, 1)
    assert [*origins, read(intake, 60, timestamp=1).origin] == [30, 30, 40, 70]


def test_the_low_watermark_is_the_oldest_of_the_source_and_of_unfinished_records() -> None:
    intake = intake_at()
    old, new = read(intake, 1, timestamp=70), read(intake, 2, timestamp=90)
    assert read_watermark(intake, 3, 80)
    assert promised(intake) == (0, 70, 1)
    intake.finish(old)
    assert promised(intake) == (1, 80, 2)
    intake.finish(new)
    assert promised(intake) == (3, 80, 3)


def test_at_the_end_of_the_source_the_horizon_is_the_end_of_time_once_all_is_finished() -> None:
    intake = intake_at()
    last, late = read(intake, 5, timestamp=70), read(intake, 6, timestamp=71)
    assert read_watermark(intake, 7, MAX_TIME)
    assert promised(intake) == (0, 70, 5)
    intake.finish(last)
    assert promised(intake) == (1, 71, 6)
    intake.finish(late)
    assert promised(intake) == (3, MAX_TIME, MAX_TIME)


def test_a_late_record_that_is_unfinished_holds_the_horizon_at_the_end_of_the_source() -> None:
    intake = intake_at()
    read_watermark(intake, 1, 80)
    intake.promise()
    late = read(intake, 2, timestamp=79)
    read_watermark(intake, 3, MAX_TIME)
    assert late.late
    assert promised(intake) == (1, MAX_TIME, 2)
    intake.finish(late)
    assert promised(intake) == (3, MAX_TIME, MAX_TIME)


def test_a_record_behind_the_promise_is_late_and_holds_the_horizon_but_not_the_watermark() -> None:
    intake = intake_at()
    read_watermark(intake, 1, 80)
    intake.promise()
    late = read(intake, 3, timestamp=79)
    assert late.late
    read_watermark(intake, 4, 85)
    assert promised(intake) == (1, 85, 3)
    intake.finish(late)
    assert promised(intake) == (3, 85, 4)


def test_a_record_at_the_promise_is_not_late() -> None:
    intake = intake_at()
    read_watermark(intake, 1, 80)
    intake.promise()
    assert not read(intake, 3, timestamp=80).late


def test_a_record_behind_the_source_but_not_behind_the_promise_holds_the_watermark() -> None:
    intake = intake_at()
    read_watermark(intake, 1, 80)
    early = read(intake, 2, timestamp=50)
    assert not early.late
    assert promised(intake)[1] == 50


def test_the_position_does_not_pass_a_source_watermark_that_is_not_reached() -> None:
    """The source promises 80 and then breaks it. A successor that began after the promise would never hear of it again."""
    intake = intake_at()
    read_watermark(intake, 1, 80)
    read(intake, 2, timestamp=90)
    early = read(intake, 3, timestamp=50)
    assert promised(intake) == (0, 50, 1)
    intake.finish(early)
    assert promised(intake) == (1, 80, 2)


def test_a_lower_source_watermark_changes_nothing() -> None:
    intake = intake_at()
    assert read_watermark(intake, 1, 80)
    assert not read_watermark(intake, 2, 80)
    assert not read_watermark(intake, 3, 20)
    assert promised(intake) == (3, 80, 3)


def test_repeating_a_promise_is_not_a_change() -> None:
    intake = intake_at()
    entry = read(intake, 1, timestamp=5)
    assert intake.promise()
    assert not intake.promise()
    intake.finish(entry)
    assert intake.promise()
    assert not intake.promise()


def test_a_changed_position_alone_is_a_change() -> None:
    intake = intake_at()
    first, _second = read(intake, 1, timestamp=5), read(intake, 1, timestamp=5)
    intake.promise()
    intake.finish(first)
    assert intake.promise()
    assert (intake.position, intake.promised.horizon) == (1, 1)


def test_after_recovery_it_continues_from_the_journal() -> None:
    intake = intake_at(position=7, journaled=Progress(60, 500))
    assert (intake.source_us, intake.next_offset) == (60, 7)
    assert promised(intake) == (7, 60, 500)
    late = read(intake, arrived_us=400, timestamp=59)
    assert (late.late, late.origin) == (True, 500)
    assert promised(intake) == (7, 60, 500)


def test_a_record_that_is_read_again_has_the_same_origin() -> None:
    """Offset 1 is stamped before the horizon that offset 0 made: also a successor that begins at 1 must raise it."""
    stamps = (500, 400, 450, 600)
    first = intake_at()
    entries = [read(first, arrived_us, timestamp=70) for arrived_us in stamps]
    origins = [entry.origin for entry in entries]
    assert origins == [500, 500, 500, 600]
    for position, entry in enumerate(entries):
        first.promise()
        second = intake_at(first.position, first.promised)
        again = [read(second, arrived_us, timestamp=70).origin for arrived_us in stamps[position:]]
        assert (first.position, again) == (position, origins[position:])
        first.finish(entry)


def test_offsets_are_taken_once_and_a_gap_is_a_bug_of_the_host() -> None:
    intake = intake_at(position=2)
    assert [intake.is_next(offset) for offset in (0, 1, 2, 2, 3)] == [False, False, True, False, True]
    with pytest.raises(AssertionError, match="the source jumps from offset 4 to 5"):
        intake.is_next(5)


def test_a_record_after_the_end_of_the_source_is_a_bug_of_the_host() -> None:
    """All its receivers would take it for a remnant."""
    intake = intake_at()
    read_watermark(intake, 1, MAX_TIME)
    intake.promise()
    with pytest.raises(AssertionError, match="the source goes on at offset 1 after its end"):
        read(intake, 2, timestamp=5)


def test_pending_timestamps_are_counted_without_late_and_finished_ones() -> None:
    intake = intake_at()
    read_watermark(intake, 0, 10)
    intake.promise()
    read(intake, 1, timestamp=9)
    read(intake, 1, timestamp=14)
    done = read(intake, 1, timestamp=25)
    read(intake, 1, timestamp=26)
    intake.finish(done)
    assert intake.buckets(10) == ((10, 1), (20, 1))


step = st.tuples(
    st.sampled_from(["record", "watermark", "end", "finish", "promise", "restart"]),
    st.integers(0, 20),
    st.integers(-2, 3),
)


@given(steps=st.lists(step, max_size=50))
def test_whatever_happens_promises_rise_cover_all_that_is_unfinished_and_origins_stay(
    steps: list[tuple[str, int, int]],
) -> None:
    """Stamps may go back; a successor begins at the position, and reads on, from the log, as far as its predecessor was."""
    intake = intake_at()
    log: list[tuple[str, int, int]] = []
    origins: dict[int, int] = {}
    entries: list[IntakeRecord] = []
    arrived_us = 0
    before = (0, MIN_TIME, MIN_TIME)

    def take(kind: str, argument: int, stamp_us: int) -> None:
        if kind == "record":
            entry = read(intake, stamp_us, argument)
            assert origins.setdefault(entry.offset, entry.origin) == entry.origin, (
                "read again, with another origin"
            )
            entries.append(entry)
        else:
            read_watermark(intake, stamp_us, argument)

    for verb, argument, pause_us in steps:
        arrived_us += pause_us
        match verb:
            case "record" | "watermark" | "end" if intake.source_us < MAX_TIME:
                log.append((verb, MAX_TIME if verb == "end" else argument, arrived_us))
                take(*log[-1])
            case "finish" if entries:
                intake.finish(entries.pop(argument % len(entries)))
            case "restart":
                intake, entries = intake_at(intake.position, intake.promised), []
                for logged in log[intake.position :]:
                    take(*logged)
            case _:
                after = promised(intake)
                assert all(new >= old for new, old in zip(after, before, strict=True)), "a promise went back"
                assert after[1] <= intake.source_us
                before = after
        intake.check_invariants()
