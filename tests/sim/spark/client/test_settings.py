"""Settings of a session count where they change values: what Spark gives under them is given, or left to the real Spark."""

import json
from contextlib import nullcontext
from datetime import datetime
from threading import Thread
from typing import Any

import pytest
from pyspark.errors import ArithmeticException, IllegalArgumentException
from pyspark.sql import functions as F

from headrace_properties.spark_jobs.query_review import review_query
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.columns.in_force import ZONE
from headrace_sim.spark.columns.zones import zone_of
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.real.answers import SWITCH
from headrace_sim.spark.refusals import CannotFollowError
from tests.sim.spark.frame_programs import set_as_recorded
from tests.sim.spark.settings_table import CASES, LEFT, OUTCOMES, outcomes


def _of_rows(name: str) -> dict[str, Any]:
    with connected(ClientSession()) as session:
        set_as_recorded(session)
        made: dict[str, Any] = json.loads(json.dumps(outcomes(session, name)))
        return made


@pytest.mark.parametrize("name", CASES)
def test_columns_have_sparks_values_under_settings(name: str) -> None:
    found, recorded = _of_rows(name), json.loads(OUTCOMES.read_text())[name]
    followed = {program: outcome for program, outcome in found.items() if outcome != LEFT}
    assert followed == {program: recorded[program] for program in followed}


def test_few_columns_are_left_to_spark_for_a_time_zone() -> None:
    assert [*_of_rows("Zurich").values()].count(LEFT) <= 9


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_what_is_left_to_spark_is_asked_with_the_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH)
    recorded = json.loads(OUTCOMES.read_text())[name]
    assert {
        program: outcome for program, outcome in _of_rows(name).items() if outcome != recorded[program]
    } == {}


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("GMT+2", 120),
        ("+05:30", 330),
        ("-3", -180),
        ("PST", -420),
        ("Europe/Zurich", 120),
    ],
)
def test_zone_has_the_name_that_java_knows(name: str, offset: int) -> None:
    away = zone_of(name).utcoffset(datetime(2024, 7, 1))
    assert away is not None
    assert away.total_seconds() == offset * 60


def test_zone_that_nobody_knows_is_refused_where_it_is_set() -> None:
    with (
        connected(ClientSession()) as session,
        pytest.raises(IllegalArgumentException, match="TIME_ZONE"),
    ):
        session.conf.set(ZONE, "Europe/Atlantis")


TIMES: list[str] = []


def _keep_times(df: Any, _batch_id: int) -> None:
    spark = df.sparkSession
    TIMES.append(df.first().text)
    hour = df.select(F.hour("t").alias("hour"))
    spark.conf.set(ZONE, "Asia/Kolkata")
    thread = Thread(target=lambda: TIMES.append(hour.first().hour))
    thread.start()
    thread.join()


def _as_texts(spark: Any, df: Any) -> Any:
    """Read times in the zone that is set when the query starts: neither before, nor afterwards."""
    spark.conf.set(ZONE, "Asia/Tokyo")
    texts = df.withColumn("text", F.col("t").cast("string"))
    spark.conf.set(ZONE, "America/New_York")
    query = texts.writeStream.foreachBatch(_keep_times).start()
    spark.conf.set(ZONE, "Asia/Tokyo")
    return query


def test_query_has_the_settings_of_its_start_and_a_batch_its_own() -> None:
    TIMES.clear()
    job = record(_as_texts, {"df": "t TIMESTAMP"})
    assert run_job(job, [[(datetime(2024, 1, 1, 12),)]]).failure is None
    assert TIMES == ["2024-01-01 07:00:00", 17]


@pytest.mark.parametrize(
    ("zone", "gap", "followed"),
    [
        ("Europe/Zurich", "1 day", False),
        ("Europe/Zurich", "24 hours", True),
        ("+02:00", "1 day", True),
        ("UTC", "1 day", True),
    ],
)
def test_session_of_days_needs_days_of_one_length(zone: str, gap: str, followed: bool) -> None:
    def build(spark: Any, df: Any) -> Any:
        spark.conf.set(ZONE, zone)
        sessions = df.withWatermark("t", "1 minute").groupBy(F.session_window("t", gap), "k").count()
        return sessions.writeStream.format("noop").start()

    job = record(build, {"df": "t TIMESTAMP, k STRING"})
    with (
        nullcontext() if followed else pytest.raises(CannotFollowError, match="a gap of 1 day in a time zone")
    ):
        assert run_job(job, [[(datetime(2024, 3, 30, 12), "a")]]).failure is None


def test_columns_are_cast_for_a_table_in_ansi_mode_or_refused() -> None:
    with connected(ClientSession()) as session:
        session.conf.set("spark.sql.ansi.enabled", "false")
        session.createDataFrame([(1,)], "n INT").write.saveAsTable("numbers")
        long = session.createDataFrame([(1 << 40,)], "n BIGINT").write
        with pytest.raises(ArithmeticException, match="CAST_OVERFLOW"):
            long.insertInto("numbers")
        session.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
        session.createDataFrame([(2,)], "n INT").write.insertInto("numbers")
        with pytest.raises(
            CannotFollowError, match=r"spark.sql.storeAssignmentPolicy=LEGACY for a column of another type"
        ):
            long.insertInto("numbers")


def test_legacy_setting_that_is_not_heeded_is_told() -> None:
    def build(spark: Any, df: Any) -> Any:
        spark.conf.set("spark.sql.legacy.setopsPrecedence.enabled", "true")
        spark.conf.set("spark.sql.shuffle.partitions", "4")
        return df.writeStream.format("delta").option("checkpointLocation", "/c").start("/out")

    (note,) = [note for note in review_query(record(build, {"df": "n INT"})).notes if "legacy" in note]
    assert note.startswith("spark.sql.legacy.setopsPrecedence.enabled=true is set")
