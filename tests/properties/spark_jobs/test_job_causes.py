"""Sessions with ``applyInPandasWithState``, as people write them: the sound job holds, and each mistake has its name."""

import re
import types
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F

from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.outcomes import check_again, check_job
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.spark_job import SparkJob

GAP_MS = 30_000
_seen: dict[Any, int] = {}
Function = Callable[[Any, Any, Any], Iterator[pd.DataFrame]]


def at(second: int) -> datetime:
    return datetime.fromtimestamp(1_900_000_000 + second)


FEED = [
    [("ann", at(1)), ("bob", at(2)), ("ann", at(5))],
    [("bob", at(12)), ("ann", at(20))],
    [("eve", at(90))],
    [("ann", at(95)), ("eve", at(300))],
]


def _row(key: Any, events: int) -> pd.DataFrame:
    return pd.DataFrame({"user": [key[0]], "events": [events]})


def sessions(key: Any, frames: Any, state: Any, earliest_ms: int | None = None) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        yield _row(key, state.get[0])
        state.remove()
        return
    events, end_ms = state.getOption or (0, 0)
    for frame in frames:
        events += len(frame)
        end_ms = max(end_ms, *(int(time.timestamp() * 1000) for time in frame["at"]))
    state.update((events, end_ms))
    limit = state.getCurrentWatermarkMs() if earliest_ms is None else earliest_ms
    state.setTimeoutTimestamp(max(end_ms + GAP_MS, limit))


def timeout_behind_the_watermark(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    yield from sessions(key, frames, state, earliest_ms=0)


def first_frame_only(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    yield from sessions(key, iter([next(iter(frames))]), state)


def count_in_a_module(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    _seen[key] = _seen.get(key, 0) + 1
    for _ in sessions(key, frames, state):
        yield _row(key, _seen[key])


def number_calls(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    _seen["calls"] = _seen.get("calls", 0) + 1
    for _ in sessions(key, frames, state):
        yield _row(key, _seen["calls"])


def _of_a_script(function: Function) -> Function:
    """Return the function as one of a script, which Spark pickles with a copy of the variables that it names."""
    return types.FunctionType(function.__code__, {**globals(), "_seen": {}, "__name__": "__main__"})


def _closing_over(seen: dict[str, int]) -> Function:
    def number(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        seen["calls"] = seen.get("calls", 0) + 1
        for _ in sessions(key, frames, state):
            yield _row(key, seen["calls"])

    return number


def row_for_each_call(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    yield from sessions(key, frames, state)
    if not state.hasTimedOut:
        yield _row(key, state.get[0])


def never_removed(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    events = (state.getOption or (0, 0))[0] + sum(map(len, frames))
    state.update((events, 0))
    yield from ()


def _job(function: Function) -> SparkJob:
    def build(events: Any) -> Any:
        groups = events.withWatermark("at", "10 seconds").groupBy("user")
        state, timeout = "n INT, end BIGINT", "EventTimeTimeout"
        made = groups.applyInPandasWithState(function, "user STRING, events INT", state, "append", timeout)
        return made.writeStream.format("memory").queryName("q").start()

    return record(build, "user STRING, at TIMESTAMP")


def test_what_a_function_of_a_column_keeps_in_its_module_is_found() -> None:
    numbers: dict[str, int] = {}

    def numbered(user):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  PySpark takes annotations for pandas types
        numbers[user] = numbers.get(user, 0) + 1
        return f"{user}{numbers[user]}"

    def build(events: Any) -> Any:
        groups = events.withColumn("user", F.udf(numbered)("user")).groupBy("user")
        made = groups.applyInPandasWithState(
            never_removed, "user STRING, events INT", "n INT, end BIGINT", "append", "NoTimeout"
        )
        return made.writeStream.format("memory").queryName("q").start()

    report = check_job(record(build, "user STRING, at TIMESTAMP"), FEED, schedules=40, allow={Cause.GROWTH})
    assert {finding.trial.cause for finding in report.findings} == {Cause.MEMORY}


def _text(key: Any, count: int) -> pd.DataFrame:
    return pd.DataFrame({"text": [f"{key[0]}={count}"]})


def _counts_in_state(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    state.update(((state.getOption or (0,))[0] + sum(map(len, frames)),))
    yield _text(key, state.get[0])


def _counts_calls_apart(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    state.update((1,))
    yield _text(key, sum(map(len, frames)))


def _only_whole(text: str) -> bool:
    return not text.endswith("=1")


@pytest.mark.parametrize(
    ("function", "filtered", "causes"),
    [
        (_counts_in_state, False, set()),
        (_counts_calls_apart, False, {Cause.BATCHING}),
        (_counts_in_state, True, set()),
    ],
    ids=["total", "of a batch", "total, filtered"],
)
def test_updates_are_compared_by_key_though_the_output_lacks_it(
    function: Function, filtered: bool, causes: set[Cause]
) -> None:  # fmt: skip
    """As of a topic, whose value is all that is written. State says nothing of what is wrong."""

    def build(events: Any) -> Any:
        made = events.groupBy("user").applyInPandasWithState(
            function, "text STRING", "n INT", "update", "NoTimeout"
        )
        made = made.filter(F.udf(_only_whole, "boolean")("text")) if filtered else made
        value = made.select(F.concat("text", F.lit(";")).alias("value"))
        return value.writeStream.outputMode("update").format("memory").queryName("q").start()

    job = record(build, "user STRING, at TIMESTAMP")
    found = check_job(job, FEED, schedules=60, allow={Cause.GROWTH}).findings
    assert {finding.trial.cause for finding in found} == causes


def test_sound_sessions_hold() -> None:
    report = check_job(_job(sessions), FEED, schedules=60)
    assert (report.findings, report.unknown) == ((), ())


@pytest.mark.parametrize(
    ("function", "cause", "told"),
    [
        (timeout_behind_the_watermark, Cause.ERROR, "INVALID_TIMEOUT_TIMESTAMP"),
        (first_frame_only, Cause.FRAMES, "1 row in each frame"),
        (count_in_a_module, Cause.MEMORY, "kept outside state .*_seen"),
        (_of_a_script(number_calls), Cause.MEMORY, "kept outside state .*_seen"),
        (_closing_over({}), Cause.MEMORY, "kept outside state .*seen"),
        (row_for_each_call, Cause.BATCHING, "cut into batches"),
        (never_removed, Cause.GROWTH, "nothing will ever remove"),
    ],
)
def test_mistake_is_found_by_its_name_and_again_from_its_schedule(
    function: Function, cause: Cause, told: str
) -> None:
    job = _job(function)
    found = {finding.trial.cause: finding for finding in check_job(job, FEED, schedules=80).findings}
    assert cause in found
    assert re.search(told, str(found[cause]))
    one = found[cause]
    again = check_again(job, FEED, one.trial)
    assert again is not None
    assert again.kind == one.kind


@pytest.mark.parametrize("value", [at(1), None, pd.Timestamp(at(1))])
def test_time_in_state_is_kept(value: Any) -> None:
    def keep(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        before = state.get[0] if state.exists else None
        state.update((value,))
        yield pd.DataFrame({"user": [f"{before}"], "events": [1]})

    def build(events: Any) -> Any:
        made = events.groupBy("user").applyInPandasWithState(
            keep, "user STRING, events INT", "at TIMESTAMP", "append", "NoTimeout"
        )
        return made.writeStream.format("memory").queryName("q").start()

    report = check_job(record(build, "user STRING, at TIMESTAMP"), FEED, schedules=0)
    assert Cause.VALUE not in {finding.trial.cause for finding in report.findings}
    assert (f"{value}", 1) in {row for rows in report.outcome.outputs.values() for row in rows}
