"""A query that goes on from the checkpoint of an earlier version: what is found, asked, and left alone."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from headrace_properties.findings import FindingClass
from headrace_properties.spark_jobs.explaining import explain_upgrade
from headrace_properties.spark_jobs.outcomes import without_sink
from headrace_properties.spark_jobs.upgrades import Earlier, Upgrade, UpgradeReport
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.query.schedules import Feed

SCHEMA = "user STRING, amount LONG, at TIMESTAMP"
FEED = [[("a", 5, None)], [("a", 7, None), ("b", 1, None)], [("b", 2, None)]]
VIOLATED, ASKED = FindingClass.VIOLATED, FindingClass.UNDECLARED


class Cents:
    """Keeps a total in cents, and gives it out in euros."""

    unit = 100

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "cents LONG")

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:
        total = (self.total.get()[0] if self.total.exists() else 0) + sum(
            row.amount * self.unit for row in rows
        )
        self.total.update((total,))
        yield Row(user=key[0], total=total / self.unit)

    def close(self) -> None:
        pass


class Euros(Cents):
    """The same in euros: alone it gives out the same."""

    unit = 1


class Fails(Cents):
    """Expects that the total is odd, as its own would be."""

    unit = 1

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:
        if self.total.exists() and self.total.get()[0] > 99:
            raise ValueError("a total of another unit")
        yield from super().handleInputRows(key, rows, timers)


def _with(processor: Any) -> Callable[[Any], Any]:
    return lambda frame: frame.groupBy("user").transformWithState(
        processor, "user STRING, total DOUBLE", "update", "none"
    )


def _upgraded(
    old: Callable[[Any], Any], new: Callable[[Any], Any], *, mode: str = "update", feed: Feed = FEED
) -> Upgrade:
    before, after = (
        without_sink(
            record(lambda frame, build=build: build(frame).writeStream.outputMode(mode).start(), SCHEMA)
        )
        for build in (old, new)
    )
    return Upgrade(Earlier("v1.py", before, nullcontext), after, feed)


def _checked(old: Callable[[Any], Any], new: Callable[[Any], Any], **given: Any) -> UpgradeReport:
    return _upgraded(old, new, **given).check()


def _summed(frame: Any) -> Any:
    return frame.groupBy("user").agg(F.sum("amount").alias("x"))


@pytest.mark.parametrize(
    ("old", "new", "claim", "said"),
    [
        (_with(Cents()), _with(Euros()), VIOLATED, "('a', 507.0) instead of ('a', 12.0)"),
        (_with(Cents()), _with(Fails()), VIOLATED, "raises ValueError: a total of another unit"),
        (_summed, lambda frame: _summed(frame.filter("amount > 5")), ASKED, "('a', 12) instead of ('a', 7)"),
        (
            _summed,
            lambda frame: frame.groupBy("user").agg(F.max("amount").alias("x")),
            ASKED,
            "is read as max(amount)",
        ),
        (
            _summed,
            lambda frame: _summed(frame.dropDuplicates(["user", "amount"])),
            VIOLATED,
            "Spark refuses the checkpoint of v1.py",
        ),
    ],
)
def test_upgrade_is_judged(old: Any, new: Any, claim: FindingClass, said: str) -> None:
    (finding,) = _checked(old, new).findings
    assert (finding.finding_class, said in str(finding)) == (claim, True), str(finding)


def test_explanation_shows_the_query_on_its_own_and_behind_its_earlier_version() -> None:
    upgrade = _upgraded(_with(Cents()), _with(Euros()))
    (finding,) = upgrade.check().findings
    calm, resumed = (explanation := explain_upgrade(upgrade, finding.trial)).runs
    assert (calm.title, resumed.title) == ("On its own, from batch 1 on", "From batch 1 on, behind v1.py")
    assert "batch 1 gives ('a', 12.0)" in calm.outcome
    assert "batch 1 gives ('a', 507.0)" in resumed.outcome
    assert [line.partition("  (")[0] for line in explanation.parting] == [
        "on its own: a: total.get() -> (5,)",
        "resumed:    a: total.get() -> (500,)",
    ]
    assert "has: batch 1 gives ('a', 507.0)" in explanation.difference


def test_explanation_of_a_checkpoint_that_is_refused_shows_what_it_is() -> None:
    upgrade = _upgraded(_summed, lambda frame: _summed(frame.dropDuplicates(["user", "amount"])))
    (finding,) = upgrade.check().findings
    (run,) = explain_upgrade(upgrade, finding.trial).runs
    assert run.title == "The checkpoint of v1.py"
    assert run.steps


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (_with(Cents()), _with(Cents())),
        (_summed, lambda frame: _summed(frame).withColumn("twice", F.col("x") * 2)),
        (_summed, lambda frame: frame.groupBy("user").agg(F.sum("amount").alias("total"))),
        (lambda frame: frame.select("user"), lambda frame: frame.select("user", "amount")),
    ],
    ids=["the same", "a column more", "renamed", "no state"],
)
def test_upgrade_that_goes_on_is_left_alone(old: Any, new: Any) -> None:
    assert _checked(old, new) == UpgradeReport()


def test_join_of_streams_that_keeps_other_columns_is_not_judged() -> None:
    def joined(*columns: str) -> Callable[[Any], Any]:
        def build(frame: Any) -> Any:
            its = frame.selectExpr("user AS whom", "amount AS its_amount", "at AS its_at")
            return frame.join(its, F.expr("user = whom AND at = its_at")).select("user", *columns)

        return build

    assert (
        "columns that are read behind it"
        in _checked(joined(), joined("its_amount"), mode="append").unknown[0]
    )
    twice = [[(row, None) for row in batch] + [(None, row) for row in batch] for batch in FEED]
    assert _checked(joined(), joined(), mode="append", feed=twice) == UpgradeReport()


def test_version_that_reads_what_the_rows_do_not_have_is_not_judged() -> None:
    before = without_sink(record(lambda frame: frame.select("other").writeStream.start(), "other STRING"))
    after = without_sink(record(lambda frame: frame.select("user").writeStream.start(), SCHEMA))
    report = Upgrade(Earlier("v1.py", before, nullcontext), after, FEED).check()
    assert "it reads other" in report.unknown[0]
