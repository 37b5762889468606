"""Trials that several processes share."""

import os
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import types as t

from headrace_properties.sinks.parallel_trials import in_order
from headrace_properties.sinks.sink_check import SinkCheck
from headrace_properties.sinks.sink_reports import SinkReport
from headrace_sim.spark.sinks.processes import SIMULATED, AttemptHost, Sink
from headrace_sim.spark.sinks.sink_runs import UnfollowableSinkError

SCHEMA = t.StructType([t.StructField("id", t.LongType())])


def appended(df: object, _batch: int) -> None:
    with Path("rows.txt").open("a") as rows:
        rows.writelines(f"{row.id}\n" for row in df.collect())  # type: ignore[attr-defined]


def checked(processes: int) -> SinkReport:
    return SinkCheck(Sink(appended, SCHEMA, (((1,),), ((2,),)), None), processes=processes).run()


def test_the_report_does_not_depend_on_how_many_share_the_trials() -> None:
    alone = checked(1)
    assert alone.findings
    assert checked(3) == alone


def own(_host: AttemptHost, fault: int) -> tuple[int, int]:
    return fault, os.getpid()


def test_each_process_takes_its_share() -> None:
    trials = list(in_order(own, SIMULATED, range(7), 3))
    assert [fault for fault, _ in trials] == [*range(7)]
    assert [pid for _, pid in trials[:3]] == [pid for _, pid in trials[3:6]]
    assert len({pid for _, pid in trials}) == 3


def refused(_host: AttemptHost, fault: int) -> int:
    if fault == 4:
        raise UnfollowableSinkError("job.py:1: it cannot be followed")
    return fault


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_what_one_of_them_raises_is_raised_in_its_turn(processes: int) -> None:
    trials = in_order(refused, SIMULATED, range(9), processes)
    assert [next(trials) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(UnfollowableSinkError, match=r"job\.py:1"):
        next(trials)


def test_processes_end_when_nobody_waits_for_them() -> None:
    with closing(in_order(own, SIMULATED, range(1_000), 2)) as trials:
        pids = {next(trials)[1], next(trials)[1]} - {os.getpid()}
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
