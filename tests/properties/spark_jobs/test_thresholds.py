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


def by_name(rows: list[int]) -> bool:
    return len(rows) == LIMIT


def beyond(n: int) -> bool:
    return n > MOST or n > 400 or n == 1 or n < -3


def in_turns(n: int) -> bool:
    return n % 4 == 0 and n is not True and n != 2.5


@pytest.mark.parametrize(
    ("handlers", "number"),
    [([Waits()], 12), ([Counts()], 12), ([by_name], 17), ([beyond], MOST), ([in_turns], 4), ([in_turns, by_name], 17),
     ([len], 0), ([], 0)],
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
