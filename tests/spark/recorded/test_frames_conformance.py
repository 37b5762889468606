"""What frames in memory are judged by is what Spark gives: names, types and rows, or an error of the same class."""

import json
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from headrace_sim.spark.client.sessions import ClientSession, connected
from tests.sim.spark import settings_table, snippets, sql_queries, sql_texts
from tests.sim.spark.drawn_expressions import drawn_expression
from tests.sim.spark.frame_programs import OUTCOMES, PROGRAMS, ROWS, SCHEMA, outcome
from tests.sim.spark.outcomes import keep_if_asked

SAMPLE = ("add overflows", "logic of nulls", "to string", "from json", "totals", "udf by names")


def _of_spark(spark: SparkSession, names: tuple[str, ...]) -> dict[str, object]:
    df = spark.createDataFrame(ROWS, SCHEMA).coalesce(1).cache()
    return {name: outcome(df, PROGRAMS[name]) for name in names}


def test_spark_gives_what_is_recorded_of_it(spark: SparkSession) -> None:
    recorded = json.loads(OUTCOMES.read_text())
    assert _of_spark(spark, SAMPLE) == {name: recorded[name] for name in SAMPLE}


def _compare_drawn(spark: SparkSession, seed: int, count: int) -> None:
    random = Random(seed)
    programs = {
        text: lambda df, text=text: df.selectExpr(f"({text}) as x")
        for text in (drawn_expression(random) for _ in range(count))
    }
    df = spark.createDataFrame(ROWS, SCHEMA).coalesce(1).cache()
    of_spark = {text: outcome(df, program) for text, program in programs.items()}
    session = ClientSession()
    with connected(session):
        simulated = session.createDataFrame(ROWS, SCHEMA)
        assert {text: outcome(simulated, program) for text, program in programs.items()} == of_spark
    assert sum(isinstance(given, list) for given in of_spark.values()) > count // 2


def test_drawn_expressions_mean_what_they_mean_to_spark(spark: SparkSession) -> None:
    _compare_drawn(spark, 1, 20)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 6))
def test_hundreds_of_drawn_expressions_mean_what_they_mean_to_spark(spark: SparkSession, seed: int) -> None:
    _compare_drawn(spark, seed, 400)


@pytest.mark.nightly
def test_spark_gives_what_is_recorded_of_it_for_all_programs(spark: SparkSession) -> None:
    outcomes = _of_spark(spark, tuple(PROGRAMS))
    keep_if_asked(OUTCOMES, outcomes)
    assert outcomes == json.loads(OUTCOMES.read_text())


@pytest.mark.nightly
def test_spark_gives_what_is_recorded_of_it_for_sql_texts(spark: SparkSession) -> None:
    df = spark.createDataFrame(ROWS, SCHEMA).coalesce(1).cache()
    outcomes = {text: outcome(df, program) for text, program in sql_texts.programs().items()}
    keep_if_asked(sql_texts.OUTCOMES, outcomes)
    assert outcomes == json.loads(sql_texts.OUTCOMES.read_text())


@pytest.mark.nightly
def test_spark_gives_what_is_recorded_of_it_for_sql_queries(spark: SparkSession) -> None:
    for name, (schema, rows) in sql_queries.VIEWS.items():
        spark.createDataFrame(rows, schema).createOrReplaceTempView(name)
    given = [*((text, None) for text in sql_queries.QUERIES), *sql_queries.SELECT_WITH]
    outcomes = {text: outcome(spark, lambda spark: spark.sql(text, args)) for text, args in given}  # noqa: B023
    keep_if_asked(sql_queries.OUTCOMES, outcomes)
    assert outcomes == json.loads(sql_queries.OUTCOMES.read_text())


@pytest.mark.nightly
def test_spark_gives_what_is_recorded_of_it_under_settings(fresh_session: SparkSession) -> None:
    outcomes = {name: settings_table.outcomes(fresh_session, name) for name in settings_table.CASES}
    keep_if_asked(settings_table.OUTCOMES, outcomes)
    assert outcomes == json.loads(settings_table.OUTCOMES.read_text())


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The return type of DataFrame.toJSON")
def test_spark_gives_what_is_recorded_of_it_for_snippets(spark: SparkSession, tmp_path: Path) -> None:
    names = [name for name in snippets.SNIPPETS if name not in snippets.WITHOUT_JAR]
    outcomes = {name: snippets.result(spark, name, str(tmp_path)) for name in names}
    keep_if_asked(snippets.OUTCOMES, outcomes)
    assert outcomes == json.loads(snippets.OUTCOMES.read_text())
