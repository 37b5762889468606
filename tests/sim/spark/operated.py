"""Queries that keep state in Spark's own operators: run on Spark and in the simulated one.

Each is a function of two streams; a query that needs one of them ignores the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

OPERATED = Path(__file__).parent / "operator_outcomes.json"
"""What Spark came to. Written by tests/spark/recorded/test_operators.py."""

Rows = tuple[tuple[str | None, float | None, int | None], ...]

STEADY: tuple[Rows, ...] = (
    (("a", 1, 1), ("b", 3, 2), ("a", 4, 4)),
    (("a", 11, 8), ("b", 12, 16)),
    (("a", 21, 32),),
    (("b", 22, 64), ("a", 35, 128)),
)
"""Times advance from batch to batch."""
LATE: tuple[Rows, ...] = (
    (("a", 1, 1), ("b", 12, 2)),
    (("a", 8, 4), ("a", 25, 8)),
    (("a", 5, 16), ("b", 14, 32), ("a", 20, 64)),
    (("b", 9, 128), ("a", 40, 256)),
    (("a", 24, 512), ("b", 41, 1024)),
)
"""Rows come behind the watermark by more and more."""
EDGES: tuple[Rows, ...] = (
    (("a", 5, 1), ("a", 10, 2)),
    (("a", 10, 4), ("a", 9.999, 8), ("b", 20, 16)),
    (("a", 20, 32), ("b", 20.001, 64), ("b", 30, 128)),
    (("a", 30, 256), ("a", 15, 512)),
)
"""Times are just at the end of a window, and at the watermark."""
GAPPED: tuple[Rows, ...] = (
    (("a", 1, 1), ("a", 13, 2), ("b", 2, 4)),
    (("a", 7, 8), ("b", 30, 16)),
    (("a", 18, 32), ("a", 33, 64), ("b", 31, 128)),
    (("a", 60, 256), ("b", 61, 512), ("b", 45, 1024)),
    (("a", 64.999, 2048), ("a", 70, 4096)),
)
"""What comes later joins sessions that were apart."""
REPEATED: tuple[Rows, ...] = (
    (("a", 1, 1), ("a", 1, 1), ("b", 2, 2)),
    (("a", 1, 1), ("a", 3, 1), ("b", 12, 2)),
    (("c", 30, 3), ("a", 1, 1)),
    (("a", 31, 1), ("b", 12, 2), ("c", 30, 3)),
    (("a", 60, 1), ("b", 33, 2), ("c", 61, 3)),
)
"""Rows come again, sooner and later."""
NULLS: tuple[Rows, ...] = (
    (("a", None, 1), (None, 2, 2), ("b", 3, None)),
    (("a", 12, 4), (None, 13, 8), ("b", None, 16)),
    (("a", 40, 32),),
    (("a", 41, None),),
)
EMPTY: tuple[Rows, ...] = ((), (("a", 1, 1),), (), (("a", 12, 2), ("b", 30, 4)), ())
"""Some batches have no rows."""
MATCHING: tuple[Rows, ...] = (
    (("a", 2, 10), ("c", 2, 20)),
    (("a", 12, 30), ("b", 9, 40)),
    (("b", 14, 50), ("d", 30, 60)),
    (("a", 36, 70),),
)
"""Rows of the right stream, for STEADY."""
MATCHING_LATE: tuple[Rows, ...] = (
    (("b", 12, 10), ("a", 30, 20)),
    (("a", 2, 30), ("a", 26, 40)),
    (("b", 13, 50), ("c", 45, 60)),
    (("a", 33, 70), ("a", 41, 80)),
    (("b", 42, 90),),
)
MATCHING_EDGES: tuple[Rows, ...] = (
    (("a", 5, 10), ("a", 15, 20)),
    (("a", 20, 30), ("b", 25, 40)),
    (("b", 30, 50), ("b", 10, 60), ("a", 25, 70)),
    (("a", 35, 80), ("a", 40, 90)),
)
"""Times are just as far from those of EDGES as a bound lets them be."""
AHEAD: tuple[Rows, ...] = (
    (("a", 5, 10), ("b", 50, 20)),
    (("a", 51, 30),),
    (("a", 52, 40), ("c", 90, 50)),
    (("b", 91, 60),),
)
"""The right stream is far ahead of STEADY."""


def timed(frame: Any, delay: str = "0 seconds") -> Any:
    return frame.withWatermark("at", delay)


def windows(*lengths: str) -> Any:
    return F.window("at", *lengths)


def totals(grouped: Any) -> Any:
    return grouped.agg(F.count("*").alias("rows"), F.sum("n").alias("total"))


def in_windows(delay: str = "0 seconds", *lengths: str, keys: tuple[str, ...] = ("k",)) -> Any:
    """Total each key in windows of time."""
    return lambda left, _: totals(timed(left, delay).groupBy(windows(*(lengths or ("10 seconds",))), *keys))


def in_sessions(*keys: str, delay: str = "0 seconds", gap: Any = "5 seconds") -> Any:
    return lambda left, _: totals(timed(left, delay).groupBy(F.session_window("at", gap), *keys))


def with_bounds(
    how: str, *, more: Any = None, left_delay: str | None = "0 seconds", right_delay: str | None = "0 seconds"
) -> Any:
    """Join rows of a key whose times are not far from each other."""

    def build(left: Any, right: Any) -> Any:
        one = left.alias("one") if left_delay is None else timed(left, left_delay).alias("one")
        other = right.alias("other") if right_delay is None else timed(right, right_delay).alias("other")
        near = F.expr(
            "one.k = other.k AND other.at >= one.at - INTERVAL 5 SECONDS AND other.at <= one.at + INTERVAL 10 SECONDS"
        )
        return one.join(other, near if more is None else near & F.expr(more), how)

    return build


def strictly_after(how: str) -> Any:
    def build(left: Any, right: Any) -> Any:
        one, other = timed(left).alias("one"), timed(right).alias("other")
        near = F.expr("one.k = other.k AND other.at > one.at AND other.at < one.at + INTERVAL 10 SECONDS")
        return one.join(other, near, how)

    return build


def on_names(how: str = "inner", *names: str, delay: str | None = "0 seconds") -> Any:
    """Join on the columns of these names."""

    def build(left: Any, right: Any) -> Any:
        mine, its = (left, right) if delay is None else (timed(left, delay), timed(right, delay))
        return mine.join(its.withColumnRenamed("n", "m"), list(names or ("k",)), how)

    return build


def of_windows(how: str, grouped: bool = False) -> Any:
    """Join rows, or totals, on windows of time and the key."""

    def build(left: Any, right: Any) -> Any:
        if grouped:
            mine, its = (totals(timed(side).groupBy(windows("10 seconds"), "k")) for side in (left, right))
        else:
            mine, its = (timed(side).select(windows("10 seconds"), "k", "n") for side in (left, right))
        return mine.join(its, ["window", "k"], how)

    return build


def then_in_windows(joined: Any, of: str = "one.at") -> Any:
    def build(left: Any, right: Any) -> Any:
        return joined(left, right).groupBy(F.window(of, "10 seconds")).agg(F.count("*").alias("rows"))

    return build


def in_windows_of_windows(by: Any) -> Any:
    def build(left: Any, _: Any) -> Any:
        some = totals(timed(left).groupBy(windows("5 seconds"), "k"))
        return some.groupBy(F.window(by(), "10 seconds")).agg(
            F.sum("total").alias("total"), F.count("*").alias("keys")
        )

    return build


def kept_once(*names: str, delay: str | None = None, within: bool = False) -> Any:
    def build(left: Any, _: Any) -> Any:
        frame = left if delay is None else timed(left, delay)
        return (frame.dropDuplicatesWithinWatermark if within else frame.dropDuplicates)(list(names) or None)

    return build


def united_in_windows(left_delay: str, right_delay: str) -> Any:
    return lambda left, right: totals(
        timed(left, left_delay).union(timed(right, right_delay)).groupBy(windows("10 seconds"))
    )


def of_another_time(left: Any, _: Any) -> Any:
    """The windows are not of the time that has the watermark."""
    frame = timed(left.withColumn("other", F.col("at") + F.expr("INTERVAL 1 SECOND")))
    return totals(frame.groupBy(F.window("other", "10 seconds")))


def renamed_in_windows(left: Any, _: Any) -> Any:
    return totals(timed(left).withColumnRenamed("at", "time").groupBy(F.window("time", "10 seconds")))


def shown_windows(left: Any, _: Any) -> Any:
    counted = timed(left.filter("n > 1")).groupBy(windows("10 seconds"), "k").count()
    return counted.filter("count > 1 OR k = 'b'").select(
        "window.start", "k", (F.col("count") * 2).alias("twice")
    )


def three_joined(left: Any, right: Any) -> Any:
    """Join windows of three streams, of which one comes twice."""
    mine, its, again = (timed(side).select(windows("10 seconds"), "k", "n") for side in (left, right, left))
    both = mine.join(its.withColumnRenamed("n", "m"), ["window", "k"])
    return both.join(again.withColumnRenamed("n", "o"), ["window", "k"])


def with_table(left: Any, _: Any) -> Any:
    table = left.sparkSession.createDataFrame([("a", "Ann"), ("c", "Cid")], "k STRING, name STRING")
    return totals(timed(left).join(table, "k", "left").groupBy(windows("10 seconds"), "name"))


def then_joined(left: Any, right: Any) -> Any:
    """Keep rows once, and then join them."""
    one = timed(left).dropDuplicates(["k", "at"]).alias("one")
    near = F.expr("one.k = other.k AND other.at BETWEEN one.at AND one.at + INTERVAL 10 SECONDS")
    return one.join(timed(right).alias("other"), near, "left_outer")


def once_in_windows(left: Any, _: Any) -> Any:
    return totals(timed(left).dropDuplicates(["k", "at"]).groupBy(windows("10 seconds")))


def once_within_in_windows(left: Any, _: Any) -> Any:
    return totals(
        timed(left, "5 seconds").dropDuplicatesWithinWatermark(["k"]).groupBy(windows("10 seconds"))
    )


def by_columns_of_frames(left: Any, right: Any) -> Any:
    """Join on columns that are taken from both frames and have one name."""
    mine, its = timed(left), timed(right)
    near = (mine.k == its["k"]) & (its.at >= mine.at) & (its.at <= mine.at + F.expr("INTERVAL 10 SECONDS"))
    return mine.join(its, near, "left_outer")


def united_totals(left: Any, right: Any) -> Any:
    """Bring together what both streams come to."""
    mine, its = (totals(timed(side).groupBy(windows("10 seconds"), "k")) for side in (left, right))
    return mine.union(its)


def totals_with_rows(left: Any, right: Any) -> Any:
    """Join the totals of one stream with the rows of the other."""
    rows = timed(right).select(windows("10 seconds"), "k", F.col("n").alias("m"))
    return totals(timed(left).groupBy(windows("10 seconds"), "k")).join(rows, ["window", "k"])


def totals_once(left: Any, _: Any) -> Any:
    return totals(timed(left).groupBy(windows("10 seconds"), "k")).dropDuplicates(["window"]).select("window")


def sets_by_key(left: Any, _: Any) -> Any:
    told = (
        F.sort_array(F.collect_set("n")).alias("seen"),
        F.max("at").alias("latest"),
        F.avg("n").alias("mean"),
    )
    return left.groupBy("k").agg(*told)


def by_key(left: Any, _: Any) -> Any:
    return totals(left.groupBy("k"))


def timed_by_key(left: Any, _: Any) -> Any:
    return totals(timed(left).groupBy("k"))


def of_all(left: Any, _: Any) -> Any:
    return totals(left.groupBy())


def timed_of_all(left: Any, _: Any) -> Any:
    return totals(timed(left).groupBy())


@dataclass(frozen=True, slots=True)
class Operated:
    """A query, and its rows.

    Attributes:
        build: The user's function.
        left: Rows of the first stream in each batch.
        right: Rows of the second one.
        mode: The query's output mode.
        pauses: Whether the sources have nothing for a while after each batch, so that Spark may run batches without data.
        policy: Which watermark counts.

    """

    build: Callable[[Any, Any], Any]
    left: tuple[Rows, ...] = STEADY
    right: tuple[Rows, ...] = ()
    mode: str = "append"
    pauses: bool = False
    policy: str = "min"

    def rows(self, batch: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The rows of both streams in a batch."""
        left, right = (
            [(k, None if second is None else datetime.fromtimestamp(second), n) for k, second, n in rows]
            for rows in (self.left[batch], self.right[batch] if self.right else ())
        )
        return left, right


def told(outputs: dict[int, list[Any]]) -> list[list[Any]]:
    """Return the output of each batch, in an order that both of them have."""
    return [sorted(map(_plain, rows), key=repr) for _, rows in sorted(outputs.items())]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


CASES: dict[str, Operated] = {
    "windows": Operated(in_windows()),
    "windows, with pauses": Operated(in_windows(), pauses=True),
    "windows without a key": Operated(in_windows(keys=())),
    "sliding windows": Operated(in_windows("0 seconds", "10 seconds", "5 seconds")),
    "sliding windows, updated": Operated(
        in_windows("0 seconds", "10 seconds", "5 seconds"), LATE, mode="update"
    ),
    "windows that begin elsewhere": Operated(
        in_windows("0 seconds", "10 seconds", "10 seconds", "3 seconds")
    ),
    "windows, updated": Operated(in_windows(), mode="update"),
    "windows, updated, with pauses": Operated(in_windows(), LATE, mode="update", pauses=True),
    "windows, complete": Operated(in_windows(), mode="complete"),
    "windows, late rows": Operated(in_windows(), LATE),
    "windows, late rows, with pauses": Operated(in_windows(), LATE, pauses=True),
    "windows, late rows within the delay": Operated(in_windows("15 seconds"), LATE),
    "windows, late rows within the delay, with pauses": Operated(in_windows("15 seconds"), LATE, pauses=True),
    "windows, late rows, updated": Operated(in_windows(), LATE, mode="update"),
    "windows, late rows, complete": Operated(in_windows(), LATE, mode="complete"),
    "windows, at the edges": Operated(in_windows(), EDGES),
    "windows, at the edges, with pauses": Operated(in_windows(), EDGES, pauses=True),
    "windows, nulls": Operated(in_windows(), NULLS),
    "windows, empty batches": Operated(in_windows(), EMPTY),
    "windows, empty batches, complete": Operated(in_windows(), EMPTY, mode="complete"),
    "windows without a watermark": Operated(lambda left, _: totals(left.groupBy(windows("10 seconds")))),
    "windows without a watermark, updated": Operated(
        lambda left, _: totals(left.groupBy(windows("10 seconds"))), LATE, mode="update"
    ),
    "windows of another time": Operated(of_another_time),
    "windows of another time, updated": Operated(of_another_time, LATE, mode="update"),
    "windows of a renamed time": Operated(renamed_in_windows, LATE),
    "windows, filtered and shown": Operated(shown_windows),
    "windows, of a filter of nothing": Operated(
        lambda left, _: totals(timed(left).filter("k = 'a'").groupBy(windows("10 seconds")))
    ),
    "groups by event time": Operated(lambda left, _: totals(timed(left).groupBy("at")), EDGES, pauses=True),
    "groups": Operated(by_key),
    "groups, updated": Operated(by_key, LATE, mode="update"),
    "groups, updated, empty batches": Operated(by_key, EMPTY, mode="update"),
    "groups, updated, nulls": Operated(by_key, NULLS, mode="update"),
    "groups, complete": Operated(by_key, EMPTY, mode="complete"),
    "groups with a watermark": Operated(timed_by_key),
    "groups with a watermark, updated": Operated(timed_by_key, LATE, mode="update", pauses=True),
    "sets of groups, updated": Operated(sets_by_key, REPEATED, mode="update"),
    "one group, updated": Operated(of_all, EMPTY, mode="update"),
    "one group, complete": Operated(of_all, EMPTY, mode="complete"),
    "one group, updated, with a watermark": Operated(timed_of_all, EMPTY, mode="update", pauses=True),
    "distinct values counted": Operated(
        lambda left, _: left.groupBy("k").agg(F.count_distinct("n").alias("found")), mode="update"
    ),
    "groups, ordered": Operated(
        lambda left, right: by_key(left, right).orderBy(F.desc("total")).limit(1), LATE, mode="complete"
    ),
    "groups, ordered, updated": Operated(lambda left, right: by_key(left, right).orderBy("k"), mode="update"),
    "windows with a table": Operated(with_table),
    "sessions": Operated(in_sessions("k"), GAPPED),
    "sessions, with pauses": Operated(in_sessions("k"), GAPPED, pauses=True),
    "sessions within the delay": Operated(in_sessions("k", delay="20 seconds"), GAPPED, pauses=True),
    "sessions, at the edges": Operated(in_sessions("k", delay="10 seconds"), EDGES, pauses=True),
    "sessions, complete": Operated(in_sessions("k"), GAPPED, mode="complete"),
    "sessions, updated": Operated(in_sessions("k"), GAPPED, mode="update"),
    "sessions without a key": Operated(in_sessions(), GAPPED),
    "sessions without a watermark": Operated(
        lambda left, _: totals(left.groupBy(F.session_window("at", "5 seconds"), "k")), GAPPED
    ),
    "sessions of gaps of their own": Operated(
        lambda left, _: totals(
            timed(left).groupBy(
                F.session_window("at", F.when(F.col("n") > 8, "5 seconds").otherwise("15 seconds")), "k"
            )
        ),
        GAPPED,
    ),
    "once": Operated(kept_once("k"), REPEATED),
    "once, updated": Operated(kept_once("k"), REPEATED, mode="update"),
    "once, complete": Operated(kept_once("k"), REPEATED, mode="complete"),
    "once, of all columns": Operated(kept_once(), REPEATED),
    "once, distinct": Operated(lambda left, _: left.select("k").distinct(), REPEATED),
    "once, with a watermark": Operated(kept_once("k", delay="0 seconds"), LATE, pauses=True),
    "once at a time": Operated(kept_once("k", "at", delay="0 seconds"), REPEATED),
    "once at a time, with pauses": Operated(kept_once("k", "at", delay="0 seconds"), REPEATED, pauses=True),
    "once at a time, with a delay": Operated(kept_once("k", "at", delay="30 seconds"), REPEATED, pauses=True),
    "once at a time, nulls": Operated(kept_once("k", "at", delay="0 seconds"), NULLS),
    "once within the watermark": Operated(kept_once("k", delay="5 seconds", within=True), REPEATED),
    "once within the watermark, with pauses": Operated(
        kept_once("k", delay="5 seconds", within=True), REPEATED, pauses=True
    ),
    "once within the watermark, at the edges": Operated(
        kept_once("k", delay="10 seconds", within=True), EDGES, pauses=True
    ),
    "once within the watermark, without one": Operated(kept_once("k", within=True), REPEATED),
    "once within the watermark, updated": Operated(
        kept_once("k", delay="5 seconds", within=True), REPEATED, mode="update"
    ),
    "once within the watermark, nulls": Operated(kept_once("k", delay="5 seconds", within=True), NULLS),
    "once, then windows": Operated(once_in_windows, REPEATED),
    "once, then windows, with pauses": Operated(once_in_windows, REPEATED, pauses=True),
    "once, then windows, updated": Operated(once_in_windows, REPEATED, mode="update"),
    "once within the watermark, then windows": Operated(once_within_in_windows, REPEATED, pauses=True),
    "once, then groups, complete": Operated(
        lambda left, _: totals(left.dropDuplicates(["n"]).groupBy("k")), REPEATED, mode="complete"
    ),
    "windows of windows": Operated(in_windows_of_windows(lambda: F.col("window")), LATE, pauses=True),
    "windows of windows, with no pauses": Operated(in_windows_of_windows(lambda: F.col("window")), LATE),
    "windows of times of windows": Operated(in_windows_of_windows(lambda: F.window_time("window")), STEADY),
    "windows of windows, updated": Operated(in_windows_of_windows(lambda: F.col("window")), mode="update"),
    "windows of a union": Operated(united_in_windows("0 seconds", "5 seconds"), STEADY, AHEAD),
    "windows of a union, with pauses": Operated(
        united_in_windows("0 seconds", "5 seconds"), STEADY, AHEAD, pauses=True
    ),
    "windows of a union, the higher watermark counts": Operated(
        united_in_windows("0 seconds", "5 seconds"), STEADY, AHEAD, policy="max"
    ),
    "join": Operated(on_names(delay=None), STEADY, MATCHING),
    "join, nulls": Operated(on_names(delay=None), NULLS, NULLS),
    "join, updated": Operated(on_names(delay=None), STEADY, MATCHING, mode="update"),
    "join, complete": Operated(on_names(delay=None), STEADY, MATCHING, mode="complete"),
    "join with watermarks": Operated(on_names(), LATE, MATCHING_LATE, pauses=True),
    "join on event time": Operated(on_names("inner", "k", "at"), LATE, MATCHING_LATE, pauses=True),
    "left join on event time": Operated(on_names("left", "k", "at"), LATE, MATCHING_LATE, pauses=True),
    "join, bounded": Operated(with_bounds("inner"), STEADY, MATCHING),
    "join, bounded, late rows": Operated(with_bounds("inner"), LATE, MATCHING_LATE),
    "join, bounded, late rows, with pauses": Operated(with_bounds("inner"), LATE, MATCHING_LATE, pauses=True),
    "join, bounded, at the edges": Operated(with_bounds("inner"), EDGES, MATCHING_EDGES, pauses=True),
    "left join, bounded": Operated(with_bounds("left"), STEADY, MATCHING),
    "left join, bounded, with pauses": Operated(with_bounds("left"), STEADY, MATCHING, pauses=True),
    "left join, bounded, late rows": Operated(with_bounds("left"), LATE, MATCHING_LATE),
    "left join, bounded, late rows, with pauses": Operated(
        with_bounds("left"), LATE, MATCHING_LATE, pauses=True
    ),
    "left join, bounded, at the edges": Operated(with_bounds("left"), EDGES, MATCHING_EDGES, pauses=True),
    "left join, bounded, nulls": Operated(with_bounds("left"), NULLS, STEADY, pauses=True),
    "left join, bounded, with a filter": Operated(
        with_bounds("left", more="one.n > 2"), STEADY, MATCHING, pauses=True
    ),
    "left join, bounded, with a filter of a fraction": Operated(
        with_bounds("left", more="one.n >= 20.5"), STEADY, MATCHING, pauses=True
    ),
    "left join, bounded, with a filter of text": Operated(
        with_bounds("left", more="one.k >= 'a'"), STEADY, MATCHING, pauses=True
    ),
    "full join, bounded, with filters": Operated(
        with_bounds("full", more="one.n > 1 AND other.n > 20"), STEADY, MATCHING, pauses=True
    ),
    "left join, by columns of frames": Operated(by_columns_of_frames, LATE, MATCHING_LATE, pauses=True),
    "left join, bounded, with a filter of the right": Operated(
        with_bounds("left", more="other.n <> 30"), STEADY, MATCHING, pauses=True
    ),
    "left join, bounded, with a filter of both": Operated(
        with_bounds("left", more="one.n + other.n <> 14"), STEADY, MATCHING, pauses=True
    ),
    "right join, bounded": Operated(with_bounds("right"), STEADY, MATCHING, pauses=True),
    "right join, bounded, late rows": Operated(with_bounds("right"), LATE, MATCHING_LATE, pauses=True),
    "full join, bounded": Operated(with_bounds("full"), STEADY, MATCHING),
    "full join, bounded, late rows": Operated(with_bounds("full"), LATE, MATCHING_LATE, pauses=True),
    "semi join, bounded": Operated(with_bounds("leftsemi"), STEADY, MATCHING, pauses=True),
    "semi join, bounded, late rows": Operated(with_bounds("leftsemi"), LATE, MATCHING_LATE, pauses=True),
    "semi join, without bounds": Operated(on_names("leftsemi", delay=None), STEADY, MATCHING),
    "anti join, bounded": Operated(with_bounds("leftanti"), STEADY, MATCHING),
    "left join without bounds": Operated(on_names("left"), STEADY, MATCHING),
    "left join without watermarks": Operated(on_names("left", delay=None), STEADY, MATCHING),
    "left join, watermark of the left only": Operated(
        with_bounds("left", right_delay=None), STEADY, MATCHING
    ),
    "left join, watermark of the right only": Operated(
        with_bounds("left", left_delay=None), STEADY, MATCHING, pauses=True
    ),
    "join, watermark of the right only": Operated(
        with_bounds("inner", left_delay=None), STEADY, MATCHING, pauses=True
    ),
    "join, strictly after": Operated(strictly_after("inner"), EDGES, MATCHING_EDGES, pauses=True),
    "left join, strictly after": Operated(strictly_after("left"), EDGES, MATCHING_EDGES, pauses=True),
    "full join, strictly after": Operated(strictly_after("full"), LATE, MATCHING_LATE, pauses=True),
    "join of windows": Operated(of_windows("inner"), STEADY, MATCHING, pauses=True),
    "left join of windows": Operated(of_windows("left"), STEADY, MATCHING, pauses=True),
    "full join of windows, late rows": Operated(of_windows("full"), LATE, MATCHING_LATE, pauses=True),
    "join of totals of windows": Operated(of_windows("inner", grouped=True), STEADY, MATCHING, pauses=True),
    "left join of totals of windows": Operated(
        of_windows("left", grouped=True), STEADY, MATCHING, pauses=True
    ),
    "full join of totals of windows, late rows": Operated(
        of_windows("full", grouped=True), LATE, MATCHING_LATE, pauses=True
    ),
    "union of totals": Operated(united_totals, STEADY, MATCHING, pauses=True),
    "join of totals with rows": Operated(totals_with_rows, LATE, MATCHING_LATE, pauses=True),
    "totals, once": Operated(totals_once, LATE, pauses=True),
    "join of three streams": Operated(three_joined, STEADY, MATCHING, pauses=True),
    "join, bounded, then windows": Operated(
        then_in_windows(with_bounds("inner")), STEADY, MATCHING, pauses=True
    ),
    "join, bounded, then windows, late rows": Operated(
        then_in_windows(with_bounds("inner")), LATE, MATCHING_LATE, pauses=True
    ),
    "left join, bounded, then windows": Operated(
        then_in_windows(with_bounds("left")), STEADY, MATCHING, pauses=True
    ),
    "join, bounded, then windows of the other time": Operated(
        then_in_windows(with_bounds("inner"), "other.at"), STEADY, MATCHING, pauses=True
    ),
    "join of windows, then windows": Operated(
        then_in_windows(of_windows("inner"), "window"), STEADY, MATCHING, pauses=True
    ),
    "join, delays of their own": Operated(
        with_bounds("inner", left_delay="2 seconds", right_delay="20 seconds"),
        LATE,
        (*AHEAD, ()),
        pauses=True,
    ),
    "join, the higher watermark counts": Operated(
        with_bounds("left", left_delay="2 seconds"), STEADY, AHEAD, pauses=True, policy="max"
    ),
    "left join, one stream is ahead": Operated(with_bounds("left"), STEADY, AHEAD, pauses=True),
    "once, then left join": Operated(then_joined, REPEATED, MATCHING_LATE, pauses=True),
    "limit": Operated(lambda left, _: left.select(F.lit(1).alias("one")).limit(4)),
    "limit, updated": Operated(lambda left, _: left.limit(4), mode="update"),
    "limit, of totals, complete": Operated(lambda left, right: by_key(left, right).limit(5), mode="complete"),
    "limit, then groups, complete": Operated(
        lambda left, _: left.limit(4).groupBy().agg(F.count("*").alias("rows")), mode="complete"
    ),
    "limit of windows": Operated(lambda left, right: in_windows(keys=())(left, right).limit(2), pauses=True),
}
"""Each of them, with what Spark has for it in `OPERATED`."""
