"""Code that waits for a number of rows of one key gets them."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import Row

from headrace_properties.spark_jobs.feeds.thresholds import MOST, rows_waited_for
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.outcomes import check_job
from tests.properties.spark_jobs.planted import Processor

LIMIT = 17


class Waits(Processor):
    """Yields a key once: what it has yielded is on the object, and gone with the task."""

    ENOUGH = 12

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n INT")
        self.told: set[str] = set()

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        n = (self.count.get() or (0,))[0] + sum(1 for _ in rows)
        self.count.update((n,))
        if n >= self.ENOUGH and key[0] not in self.told:
            self.told.add(key[0])
            yield Row(k=key[0])


class Counts(Waits):
    """The same, and right: each row is counted once."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        before = (self.count.get() or (0,))[0]
        n = before + sum(1 for _ in rows)
        self.count.update((n,))
        if before < 12 <= n:
            yield Row(k=key[0])


def started(processor: Any, condition: str = "") -> Callable[[Any], Any]:
    def build(spark: Any) -> Any:
        rows = spark.readStream.schema("k STRING, ok BOOLEAN").json("/landing")
        rows = rows.filter(condition) if condition else rows
        keyed = rows.groupBy("k").transformWithState(processor, "k STRING", "Append", "None")
        return keyed.writeStream.format("noop").start()

    return build


_enough, _counted = {"rows": 900, "few": 9}, Counter[str]()


class OnSelf(Counts):
    """Counts outside state, in a place that each relative chooses, up to a limit that no drawn key reaches."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.rows = Counter[str]()

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for _ in rows:
            self.count.update(((self.count.get() or (0,))[0] + 1,))
            yield Row(k=key[0] if self.is_enough(key[0]) else "")

    def is_enough(self, key: str) -> bool:
        self.rows[key] += 1
        return self.rows[key] == _enough["rows"]


class InModule(OnSelf):
    def is_enough(self, key: str) -> bool:
        _counted[key] += 1
        return _counted[key] == _enough["rows"]


def in_closure() -> type[OnSelf]:
    calls = 0

    class InClosure(OnSelf):
        def is_enough(self, key: str) -> bool:
            nonlocal calls
            calls += 1
            return calls == _enough["rows"]

    return InClosure


class InState(OnSelf):
    def is_enough(self, key: str) -> bool:
        return int(self.count.get()[0]) == _enough["rows"]


class OfDict(Waits):
    """Its number is in a dict."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for _ in rows:
            self.told.add(f"{key}{len(self.told)}")
        if len(self.told) == _enough["few"]:
            yield Row(k=key[0])


def by_name(rows: list[int]) -> bool:
    return len(rows) == LIMIT


def beyond(n: int) -> bool:
    return n > MOST or n > 400 or n == 1 or n < -3


def in_turns(n: int) -> bool:
    return n % 4 == 0 and n is not True and n != 2.5


@pytest.mark.parametrize(
    ("handlers", "number"),
    [([Waits()], 12), ([Counts()], 12), ([by_name], 17), ([beyond], MOST), ([in_turns], 4), ([in_turns, by_name], 17),
     ([OfDict()], 9), ([OnSelf()], 0), ([len], 0), ([], 0)],
)  # fmt: skip
def test_numbers_that_code_compares_with_are_read(handlers: list[Any], number: int) -> None:
    assert rows_waited_for(handlers) == number


@pytest.mark.parametrize("condition", ["", "NOT ok"])
def test_one_key_has_more_rows_than_are_waited_for(condition: str) -> None:
    for seed in range(3):
        feed = spark_target("job", started(Waits(), condition), seed=seed).feed
        taken = Counter(k for batch in feed for k, ok in batch if not (condition and ok))
        assert max(taken.values()) > Waits.ENOUGH, feed


@pytest.mark.parametrize("condition", ["", "NOT ok"])
def test_what_shows_only_behind_the_number_is_found_in_the_rows_that_are_drawn(condition: str) -> None:
    target = spark_target("job", started(Waits(), condition))
    (finding,) = check_job(target.job, target.feed, schedules=60, allow={Cause.GROWTH}).findings
    assert finding.trial.cause is Cause.MEMORY
    target = spark_target("job", started(Counts(), condition))
    assert not check_job(target.job, target.feed, schedules=60, allow={Cause.GROWTH}).findings


@pytest.mark.parametrize(
    ("processor", "kept"),
    [(OnSelf(), "self.rows"), (InModule(), "_counted"), (in_closure()(), "calls"), (InState(), "")],
)
def test_what_is_kept_outside_state_is_told_though_no_drawn_key_reaches_the_limit(
    processor: OnSelf, kept: str
) -> None:
    target = spark_target("job", started(processor))
    report = check_job(target.job, target.feed, schedules=40, allow={Cause.GROWTH})
    assert not report.findings
    most = max(Counter(k for batch in target.feed for k, _ in batch).values())
    told = [note for note in report.notes if "outside state" in note]
    assert len(told) == bool(kept)
    assert all(f"keeps {kept} outside" in note and f"more than {most} rows" in note for note in told), told
