"""A sampled History: the checkers raise no false alarm, and find what is broken at a key that is in it."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import OptionsError, Pipeline
from headrace.history import (
    Applied,
    Delivered,
    Event,
    Executed,
    History,
    IntervalMinted,
    KeysSampled,
    Published,
)
from headrace.spark import Sample
from headrace.spark.hosting import chunks as _chunks
from headrace.spark.hosting import interval_task as _interval_task
from headrace.spark.hosting.history_export import history_of
from headrace.spark.hosting.interval_task import _IntervalTask
from headrace.store.mediator import StoredRow
from headrace.wire.effects import SourceRecord
from headrace.wire.rows import Production
from headrace_properties.checkers import judge
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from tests.sim.rig import letters, mail
from tests.spark.hosting.test_interval_task import held_pipeline, run_with_a_clock
from tests.spark.microbatches import Query, query, run_in_batches

HALF = Sample(1 / 2)
PER_ROW = ("S1", "S2", "S3", "S4", "S5", "S6", "S8", "S9", "S11", "L1", "L2", "L4")
"""What a sample can confirm, for the keys that it has."""


def history(running: Query) -> History:
    return history_of(running.plan.pipeline, running.events)


def verdicts(running: Query) -> dict[str, Verdict]:
    return judge(history(running), [running.plan.pipeline])


def broken(found: dict[str, Verdict]) -> set[str]:
    return {name for name, one in found.items() if isinstance(one, Violated)}


def of_rows(events: Iterable[Event]) -> list[tuple[str, str, str, object]]:
    """What happened to rows, without their productions, some of which go to keys that are not in a sample."""
    found: list[tuple[str, str, str, object]] = []
    for event in events:
        if isinstance(event, Applied):
            found.append(("applied", event.computation, event.delta.key, event.delta.seen))
        elif isinstance(event, Executed):
            found.append(("executed", event.computation, event.key, event.cause))
        elif isinstance(event, Delivered):
            found.append(("delivered", event.computation, event.key, event.record_id))
    return found


@given(
    fraction=st.sampled_from([0.001, 0.2, 0.5, 0.8, 1.0]),
    size=st.integers(1, 70),
    intervals=st.integers(1, 4),
    held=st.booleans(),
)
def test_a_sample_of_a_sound_run_raises_no_alarm(
    fraction: float, size: int, intervals: int, *, held: bool
) -> None:
    pipeline = held_pipeline() if held else mail(processes=2)
    feed, sample = letters(pipeline), Sample(fraction)
    if held:
        running = run_with_a_clock(pipeline, feed, size, history=sample)
    else:
        running = run_in_batches(pipeline, feed, [size], intervals=intervals, history=sample)
    found = verdicts(running)
    assert not broken(found)
    if fraction < 1:
        assert isinstance(found["S10"], Unknown)


def test_everything_of_a_sampled_key_is_there() -> None:
    pipeline = mail(processes=2)
    feed = letters(pipeline)
    sampled = history(run_in_batches(pipeline, feed, [7], history=HALF))
    full = history(run_in_batches(pipeline, feed, [7], history=True))
    kept = of_rows(sampled)
    assert kept == [row for row in of_rows(full) if HALF.has(row[2].partition("/")[2])]
    assert 0 < len(kept) < len(of_rows(full))
    assert isinstance(sampled.events[0], KeysSampled)
    assert not any(isinstance(event, KeysSampled) for event in full)
    for kind in (IntervalMinted, Published):
        assert [event for event in sampled if isinstance(event, kind)] == [
            event for event in full if isinstance(event, kind)
        ]


def test_what_is_said_of_each_row_is_confirmed_and_what_is_said_of_all_work_is_not() -> None:
    pipeline = mail(processes=2)
    found = verdicts(run_in_batches(pipeline, letters(pipeline), [7], history=HALF))
    assert {name: one for name, one in found.items() if name in PER_ROW and not isinstance(one, Holds)} == {}
    assert found["S10"] == Unknown(
        "the History has 0.5 of the keys, and work that is pending may be of the others"
    )


# What is broken at a key that is in the sample


def test_a_lost_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    send = _IntervalTask._send

    def lose_some(self: _IntervalTask, productions: list[Production]) -> None:
        send(
            self,
            [
                production
                for production in productions
                if (production.consumer, production.key) != ("counter", "riva")
            ],
        )

    monkeypatch.setattr(_IntervalTask, "_send", lose_some)
    pipeline = mail(processes=2)
    found = verdicts(run_in_batches(pipeline, letters(pipeline), [7], history=HALF))
    assert {"S1", "L2"} <= broken(found)


def repeated(pipeline: Pipeline) -> Query:
    """All letters come a second time."""
    running, entries = query(pipeline, history=HALF), list(letters(pipeline).entries)
    records = [entry for entry in entries if isinstance(entry.event, SourceRecord)]
    running.batch(entries[:20])
    running.batch([entry for entry in entries[:20] if entry in records])
    running.batch(entries[20:])
    running.batch()
    return running


def test_a_record_that_counts_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not broken(verdicts(repeated(mail())))
    pack = _chunks._pack

    def forget_ids(row: StoredRow, reported: int) -> object:
        row.seen = {}
        return pack(row, reported)

    monkeypatch.setattr(_chunks, "_pack", forget_ids)
    assert "S2" in broken(verdicts(repeated(mail())))


def test_a_watermark_that_runs_ahead_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = held_pipeline()
    assert not broken(verdicts(run_with_a_clock(pipeline, letters(pipeline), 1, history=HALF)))
    monkeypatch.setattr(_interval_task._IntervalTask, "_tell_holds", lambda _self: None)
    assert "S10" in broken(verdicts(run_with_a_clock(pipeline, letters(pipeline), 1, history=HALF)))


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.01])
def test_a_sample_is_part_of_the_keys(fraction: float) -> None:
    with pytest.raises(OptionsError, match="more than 0, and up to 1"):
        Sample(fraction)
