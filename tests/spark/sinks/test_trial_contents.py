"""Undisturbed, a sink leaves on Spark what it leaves in its trial: the same files, SQLite tables and Parquet rows."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.sinks.processes import Sink
from headrace_sim.spark.sinks.sink_runs import undisturbed
from headrace_sim.spark.sinks.trial_contents import Raw, collected
from tests.sim.spark import sink_functions as sinks

SAMPLE = (sinks.partition_of_a_table_overwritten,)
MORE = (
    sinks.balances_and_batch_id_in_one_transaction, sinks.rows_of_a_batch_replaced_in_one_transaction,
    sinks.directory_by_batch_id_renamed, sinks.file_by_batch_id_replaced, sinks.file_appended, sinks.appended_with_spark,
)  # fmt: skip


@pytest.mark.parametrize(
    "function",
    [*SAMPLE, *(pytest.param(one, marks=pytest.mark.nightly) for one in MORE)],
    ids=lambda function: function.__name__,
)
def test_sink_leaves_on_spark_what_it_leaves_in_its_trial(
    function: Callable[..., Any], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sinks, "LAKE", str(tmp_path / "lake"))
    sinks.make_tables()
    for batch_id, rows in enumerate(sinks.BATCHES):
        function(spark.createDataFrame(rows, sinks.SCHEMA), batch_id)
    on_spark = _compared(collected(tmp_path, []), spark, tmp_path)

    batches = tuple(tuple(rows) for rows in sinks.BATCHES)
    monkeypatch.setattr(sinks, "LAKE", "lake")
    trial = undisturbed(Sink(function, parse_schema(sinks.SCHEMA), batches, sinks.make_tables))
    assert _compared(trial.contents, spark, tmp_path) == on_spark


def _compared(raw: Raw, spark: SparkSession, folder: Path) -> dict[str, Counter[str]]:
    """Without the names that Spark gives to files, and with the rows of Parquet files."""
    found = {name: Counter(map(str, items)) for name, items in raw.items() if not name.startswith("lake")}
    if "lake/payments" in raw:
        found["lake"] = Counter(str(sorted(item)) for item in raw["lake/payments"])
    elif (folder / "lake").exists() and any(name.startswith("lake") for name in raw):
        rows = spark.read.parquet(str(folder / "lake/payments")).collect()
        found["lake"] = Counter(
            str(sorted((name, repr(value)) for name, value in row.asDict().items())) for row in rows
        )
    return found
