"""The feeds and schedules of Spark jobs are made small by the driver of all targets, in few runs."""

from headrace_properties.spark_jobs.smaller_feeds import shrunk
from headrace_sim.spark.query.schedules import FaultKind, Schedule, ScheduledFault

FAULTS = tuple(ScheduledFault(FaultKind.TASK_DIES, batch) for batch in range(4))
SCHEDULE = Schedule(
    cuts=(2, 3, 1), idle_after=frozenset({0, 2}), steps_ms=(5, 7), faults=FAULTS, delayed=(4, 9), twice=(1, 6)
)


def shrink_to(rows: int, least: Schedule, needed: set[int]) -> tuple[tuple[int, ...], Schedule, int]:
    """Shrink to what has these rows, and of a schedule as many items as this one; return also the number of runs."""
    runs = 0

    def fails(kept: tuple[int, ...], schedule: Schedule) -> bool:
        nonlocal runs
        runs += 1
        assert kept
        assert schedule.faults
        return (
            needed <= {*kept}
            and len(schedule.faults) >= len(least.faults)
            and len(schedule.delayed) >= len(least.delayed)
            and len(schedule.cuts or ()) >= len(least.cuts or ())
        )

    kept, schedule = shrunk(rows, SCHEDULE, fails)
    return kept, schedule, runs


def test_only_what_it_takes_is_left_of_rows_and_schedule() -> None:
    kept, schedule, _ = shrink_to(23, Schedule(faults=FAULTS[:2], delayed=(0,), cuts=(1, 1)), {3, 17})
    assert kept == (3, 17)
    assert schedule == Schedule(cuts=(0, 0), faults=FAULTS[2:], delayed=(0,))


def test_rows_are_left_out_from_the_end_and_one_row_and_one_fault_stay() -> None:
    kept, schedule, _ = shrink_to(23, Schedule(), set())
    assert kept == (0,)
    assert len(schedule.faults) == 1
    assert (schedule.delayed, schedule.twice, schedule.steps_ms, schedule.idle_after) == (
        (),
        (),
        (),
        frozenset(),
    )


def test_parts_that_could_not_be_left_out_are_not_tried_after_each_part_that_could() -> None:
    """Starting anew after each success took more than 300 runs here."""
    *_, runs = shrink_to(64, Schedule(), {0, 9, 21, 40, 63})
    assert runs <= 100
