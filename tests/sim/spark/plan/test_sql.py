"""`spark.sql` gives in memory what it gives on Spark, also when a view is a stream, and changes the tables of a sink."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from headrace_properties.sinks import check_sink
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.real.answers import SWITCH
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.spark_job import Columns
from tests.sim.spark.apart import call
from tests.sim.spark.frame_programs import outcome, set_as_recorded
from tests.sim.spark.sql_queries import OUTCOMES, QUERIES, SELECT_WITH, VIEWS

_ASKED_OF_SPARK = (
    " IN (SELECT", "EXISTS (", "(SELECT max(id)", "ROLLUP", "CUBE", "PIVOT", "WINDOW w", "NATURAL", "OFFSET", "INTERSECT",
    "MINUS", "SORT BY", " div ", "SELECT from", "SELECT user FROM orders GROUP BY id", "SELECT :x",
    "nosuch",
)  # fmt: skip
"""What only a real Spark can answer."""


@pytest.fixture
def spark() -> Iterator[Any]:
    session = ClientSession()
    with connected(session):
        set_as_recorded(session)
        for name, (schema, rows) in VIEWS.items():
            session.createDataFrame(rows, schema).createOrReplaceTempView(name)
        yield session


def test_queries_give_what_they_give_on_spark(spark: Any) -> None:
    recorded = json.loads(OUTCOMES.read_text())
    for text, args in [*((text, None) for text in QUERIES), *SELECT_WITH]:
        if any(part in text for part in _ASKED_OF_SPARK) and "SELECT :x + 1" not in text:
            continue
        assert outcome(spark, lambda spark: spark.sql(text, args)) == recorded[text], text  # noqa: B023


def test_query_over_a_view_of_a_stream_becomes_steps_of_the_job() -> None:
    def built(df: Any) -> Any:
        df.createOrReplaceTempView("words")
        spark = df.sparkSession
        return spark.sql(
            "WITH long AS (SELECT upper(word) AS word FROM words WHERE length(word) > :least) "
            "SELECT long.word, w.worth FROM long LEFT JOIN {worth} w ON long.word = w.word",
            {"least": 1},
            worth=spark.createDataFrame([("AA", 1)], "word STRING, worth INT"),
        )

    job = record(built, "word STRING")
    rows = Rows(job.input, [(("aa",), ("b",), (None,), ("cc",))])
    for step in job.steps:
        assert isinstance(step, Columns)
        assert ".py:" in step.place
        rows = step.compute(rows)
    assert rows.all() == [("AA", 1), ("CC", None)]


@pytest.mark.parametrize(
    "text", ["SELECT word FROM v WHERE word IN (SELECT max(word) FROM v)", "SELECT word FROM v SORT BY word"]
)
def test_query_over_a_stream_that_is_not_understood_is_refused_with_its_place(text: str) -> None:
    def built(df: Any) -> Any:
        df.createOrReplaceTempView("v")
        return df.sparkSession.sql(text).select("word")

    with pytest.raises(
        CannotFollowError,
        match=r"test_sql.py:\d+: cannot follow (this query in spark.sql\(\) of a stream|spark.sql\('SELECT)",
    ):
        record(built, "word STRING")


def _upsert(df: Any, batch_id: int) -> None:
    df.createOrReplaceTempView("updates")
    df.sparkSession.sql(
        "MERGE INTO sales t USING (SELECT id, max(v) AS v FROM updates GROUP BY id) u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def _add(df: Any, batch_id: int) -> None:
    df.createOrReplaceTempView("updates")
    df.sparkSession.sql(
        "MERGE INTO sales t USING updates u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET v = t.v + u.v WHEN NOT MATCHED THEN INSERT *"
    )


def _insert(df: Any, batch_id: int) -> None:
    df.sparkSession.sql("INSERT INTO sales SELECT * FROM {df}", df=df)


@pytest.mark.parametrize(("sink", "holds"), [(_upsert, True), (_add, False), (_insert, False)])
def test_changes_of_tables_in_text_are_judged(sink: Any, holds: bool) -> None:
    report = call(check_sink, sink, [[(1, 1.0), (2, 2.0)], [(3, 3.0)]], "id INT, v DOUBLE")
    assert report.holds is holds


def test_text_changes_views_and_settings(spark: Any) -> None:
    spark.sql("CREATE OR REPLACE TEMP VIEW big AS SELECT id FROM updates WHERE id > 2")
    assert [row.id for row in spark.sql("SELECT * FROM big").collect()] == [5]
    assert spark.table("big").columns == ["id"]
    spark.sql("SET spark.sql.shuffle.partitions = 7")
    assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
    spark.sql("DROP VIEW big")
    with pytest.raises(AnalysisException, match="is a temporary view"):
        spark.sql("DELETE FROM updates")


@pytest.mark.spark
def test_spark_answers_the_queries_that_are_not_understood(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH)
    recorded = json.loads(OUTCOMES.read_text())
    asked = [text for text in QUERIES if any(part in text for part in _ASKED_OF_SPARK)]
    given = {text: outcome(spark, lambda spark: spark.sql(text)) for text in asked if "nosuch" not in text}  # noqa: B023
    assert given == {text: recorded[text] for text in given}
