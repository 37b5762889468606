"""Where Spark puts key intervals: evenly on as few partitions as the job needs, whatever their computation is called."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from headrace.spark.hosting.layout import computation_of, number_of
from headrace.spark.hosting.placement import partition_of, partitions_for, placed_groups
from headrace.spark.jobs.deployment_settings import DeploymentSettings, Shape
from headrace.spark.jobs.migration import needs_migration
from headrace.spark.runtime.spark_session import files_managed, most_partitions, partitions_set
from headrace.spark.sinks.job_sinks import Sinks


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    intervals=st.integers(1, 40),
    partitions=st.integers(0, 20),
)
def test_intervals_are_spread_evenly_and_keep_their_numbers(
    name: str, intervals: int, partitions: int
) -> None:
    groups = placed_groups(name, intervals, partitions)
    assert [number_of(group) for group in groups] == list(range(intervals))
    assert {computation_of(group) for group in groups} == {name}
    if partitions:
        loads = Counter(partition_of(group, partitions) for group in groups)
        assert max(loads.values()) == -(-intervals // partitions)


def test_names_stay_as_they_are_because_state_is_stored_under_them() -> None:
    assert placed_groups("counter", 4, 4) == ("counter/0.6", "counter/1", "counter/2.2", "counter/3.10")
    assert placed_groups("counter", 2, 0) == ("counter/0", "counter/1")


@pytest.mark.parametrize(("partitions", "layout"), [(0, "pipelined"), (2, "pipelined"), (2, "one variable")])
def test_a_directory_keeps_its_partitions_unless_an_earlier_version_noted_none_and_old_state_moves(
    partitions: int, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.spark.jobs.deployment_settings.most_partitions", lambda _spark: 4)
    before = Shape("mail", 4, ["mail"], [["sorter"], ["counter"]], partitions=partitions, layout=layout)
    none: Any = None
    settings = DeploymentSettings(none, Path(), Sinks({}), 4, None, None).placed(before)
    assert settings.partitions == (partitions or 4)
    now = msgspec.structs.replace(before, partitions=settings.partitions, layout="one variable")
    assert needs_migration(before, now) is (layout == "pipelined")


@given(intervals=st.integers(1, 300), most=st.integers(1, 300))
def test_no_fewer_partitions_would_do(intervals: int, most: int) -> None:
    found = partitions_for(intervals, most)
    assert 1 <= found <= most
    assert -(-intervals // found) == -(-intervals // most)
    assert found == 1 or -(-intervals // (found - 1)) > -(-intervals // most)


@pytest.mark.spark
def test_the_hash_is_sparks(spark: SparkSession) -> None:
    names = ["", "a", "abc", "Spark", "counter/12.7", "münze/3", "\U0001f9ed/0", "x" * 99]
    (found,) = spark.range(1).select(*[F.pmod(F.hash(F.lit(name)), F.lit(16)) for name in names]).collect()
    assert list(found) == [partition_of(name, 16) for name in names]


@pytest.mark.spark
def test_partitions_are_set_for_a_query_and_then_as_before(fresh_session: SparkSession) -> None:
    """A session that is not set to a number, as on a cluster, uses the tasks that run at once, and not Spark's 200."""
    name = "spark.sql.shuffle.partitions"
    fresh_session.conf.unset(name)
    assert most_partitions(fresh_session) == 2
    with partitions_set(fresh_session, 5):
        assert (fresh_session.conf.get(name), most_partitions(fresh_session)) == ("5", 5)
        with partitions_set(fresh_session, 3):
            assert fresh_session.conf.get(name) == "3"
        assert fresh_session.conf.get(name) == "5"


@pytest.mark.spark
def test_a_checkpoint_on_this_machine_is_kept_without_processes_unless_the_session_names_a_manager(
    fresh_session: SparkSession,
) -> None:
    name = "spark.sql.streaming.checkpointFileManagerClass"
    fresh_session.conf.unset(name)
    with files_managed(fresh_session, "hdfs://cluster/job"):
        assert fresh_session.conf.get(name, None) is None
    with files_managed(fresh_session, Path("job")):
        assert str(fresh_session.conf.get(name)).endswith(".FileSystemBasedCheckpointFileManager")
    assert fresh_session.conf.get(name, None) is None
    fresh_session.conf.set(name, "my.Manager")
    with files_managed(fresh_session, Path("job")):
        assert fresh_session.conf.get(name) == "my.Manager"
