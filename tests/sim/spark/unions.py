"""Jobs that bring several streams together, each with a watermark of its own: run on Spark and in the simulated one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from headrace_sim.spark.client.recording import record
from headrace_sim.spark.query.schedules import FaultKind, Schedule, ScheduledFault
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.spark_job import WatermarkPolicy
from tests.sim.spark.failures import Totals
from tests.sim.spark.processors import INPUT, OUTPUT, as_text

UNITED = Path(__file__).parent / "union_outcomes.json"
"""What Spark came to. Written by tests/spark/recorded/test_unions.py."""

Rows = tuple[tuple[str, float, int], ...]


def _totals(frame: Any) -> Any:
    return frame.groupBy("k").transformWithState(Totals(), OUTPUT, "Append", "EventTime")


def both_timed(left: Any, right: Any) -> Any:
    """Each stream has a watermark."""
    return _totals(left.withWatermark("at", "1 second").union(right.withWatermark("at", "2 seconds")))


def second_timed(left: Any, right: Any) -> Any:
    """The first stream has none."""
    return _totals(left.union(right.withWatermark("at", "0 seconds")))


def first_timed(left: Any, right: Any) -> Any:
    """The second stream has none."""
    return _totals(left.withWatermark("at", "0 seconds").unionByName(right.select("n", "at", "k")))


def timed_together(left: Any, right: Any) -> Any:
    """They have one together."""
    return _totals(left.unionAll(right).withWatermark("at", "1 second"))


def timed_apart_and_together(left: Any, right: Any) -> Any:
    """They have one each, and another one together, which Spark refuses once the watermark has advanced."""
    both = left.withWatermark("at", "1 second").union(right.withWatermark("at", "2 seconds"))
    return _totals(both.withWatermark("at", "4 seconds"))


def three_in_two_steps(left: Any, right: Any) -> Any:
    """One of the streams comes twice, the second time with other names."""
    some = left.withWatermark("at", "0 seconds").union(right.withWatermark("at", "1 second"))
    again = left.withWatermark("at", "3 seconds").select(
        F.concat("k", F.lit("!")).alias("key"), "at", F.col("n") + 10
    )
    return _totals(some.filter(F.col("n") != 3).union(again))


@dataclass(frozen=True, slots=True)
class United:
    """A job, and the rows of both streams in each batch.

    Attributes:
        build: The user's function.
        policy: Which watermark counts.
        dies_after: In this batch the driver dies after the sink.
        batches: The rows of the left and the right stream.

    """

    build: Callable[[Any, Any], Any]
    policy: WatermarkPolicy = WatermarkPolicy.MIN
    dies_after: int | None = None
    batches: tuple[tuple[Rows, Rows], ...] = (
        ((("a", 1.0, 1), ("b", 9.0, 2)), (("a", 2.0, 4),)),
        ((("b", 12.0, 3),), (("c", 8.0, 5), ("a", 3.0, 6))),
        ((("a", 6.5, 7), ("c", 20.0, 8)), ()),
        ((), (("b", 7.0, 9),)),
        ((("d", 30.0, 10),), ()),
    )

    def rows(self, batch: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The rows of both streams in a batch."""
        left, right = (
            [(k, datetime.fromtimestamp(second), n) for k, second, n in rows] for rows in self.batches[batch]
        )
        return left, right

    def simulated(self) -> dict[str, Any]:
        """Return what the simulated Spark gives."""
        job = replace(record(self.build, INPUT), policy=self.policy)
        feed = [
            [*((row, None) for row in left), *((None, row) for row in right)]
            for left, right in map(self.rows, range(len(self.batches)))
        ]
        dies = self.dies_after
        faults = () if dies is None else (ScheduledFault(FaultKind.DRIVER_DIES_AFTER_SINK, dies),)
        return as_text(run_job(job, feed, Schedule(faults=faults)))


AHEAD = (
    ((("a", 1.0, 1),), (("b", 50.0, 2),)),
    ((("a", 10.0, 4),), ()),
    ((("c", 20.0, 5), ("a", 9.5, 6)), ()),
    ((), (("a", 8.0, 7),)),
)
"""The right stream is far ahead, and then silent."""

CASES = {
    "the lower watermark counts": United(both_timed),
    "the higher watermark counts": United(both_timed, WatermarkPolicy.MAX),
    "one stream is ahead": United(both_timed, batches=AHEAD),
    "a new driver does not know of the one that is ahead": United(both_timed, dies_after=1, batches=AHEAD),
    "a new driver, and the higher watermark counts": United(both_timed, WatermarkPolicy.MAX, dies_after=2),
    "only the first stream has a watermark": United(first_timed),
    "only the second stream has a watermark": United(second_timed),
    "one watermark for both": United(timed_together),
    "three streams": United(three_in_two_steps),
}
