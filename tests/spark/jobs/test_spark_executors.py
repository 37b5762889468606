"""Searches whose runs Spark's executors make: they come to what they come to on one machine, and outlive an executor."""

import ctypes
import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import headrace.spark
from headrace import Computation, Context, Pipeline, Record
from headrace.spark import SparkHostError
from headrace_cli.main import app
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.proof.mutants.hunt import Hunted, hunt_all
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.application import Application
from headrace_properties.search.enumeration import Enumeration
from headrace_properties.search.exhaustive_search import ExhaustiveSearch
from headrace_properties.search.lineage import LineageSearch
from headrace_properties.search.parallel import Jobs
from headrace_properties.search.scope import Scope
from headrace_properties.search.spark_executors import SparkExecutors
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_properties.search.verification import Verification
from headrace_scenarios.chaos.system_processes import ancestor, processes_of, send
from tests.cli.rig import VIEWS, environment
from tests.sim.rig import letters

TALLIES = WORKLOADS["tallies"].application
BROKEN = MUTANTS["without sequencers"]
SMALL = Scope(records=1, faults=1, delays=0, kinds=("crash",))

SEARCHES: dict[str, Callable[[Jobs], Verification]] = {
    "random": lambda jobs: search(Steering(TALLIES), examples=40, jobs=jobs),
    "random, which finds a failure": lambda jobs: search(
        Steering(TALLIES, protocol=BROKEN), examples=40, jobs=jobs
    ),
    "exhaustive": lambda jobs: search(ExhaustiveSearch(TALLIES, SMALL), examples=60, jobs=jobs),
    "lineage": lambda jobs: search(LineageSearch(TALLIES, SMALL), examples=30, jobs=jobs),
    "enumerate": lambda jobs: search(Enumeration(TALLIES, protocol=BROKEN, first=1), jobs=jobs),
}


@pytest.fixture
def executors(spark: SparkSession) -> SparkExecutors:
    return SparkExecutors(spark.sparkContext)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_comes_to_the_same_as_on_one_machine(search: str, executors: SparkExecutors) -> None:
    there, here = SEARCHES[search](executors), SEARCHES[search](1)
    assert there == here
    assert (there.failure is not None) == (search in ("random, which finds a failure", "enumerate"))


def test_broken_protocols_are_hunted_as_on_one_machine(executors: SparkExecutors) -> None:
    names = ["ack before commit", "keys are not serial"]

    def hunted(jobs: Jobs) -> dict[str, Hunted]:
        return {one.name: one for one in hunt_all(names, 100, jobs)}

    assert hunted(executors) == hunted(1)


class Deadly(Computation):
    """Kills any process but the one that it was made in."""

    def __init__(self) -> None:
        self.made_in = os.getpid()

    def process_record(self, context: Context, record: Record) -> None:
        if os.getpid() != self.made_in:
            faulthandler.disable()
            ctypes.string_at(0)  # no guard of Python code can keep it from that


def test_code_that_ends_its_process_is_a_finding_there_too(executors: SparkExecutors) -> None:
    pipeline = Pipeline("deadly")
    pipeline.injector("mail")
    pipeline.add(Deadly(), name="deadly", inputs=["mail"])
    application = Application.with_input(pipeline, letters(pipeline, 3))
    there, here = (search(Steering(application), examples=40, jobs=jobs) for jobs in (executors, 2))
    assert there.failure is not None
    assert str(there.failure.error).startswith(
        "ProcessEnded: user code ended its process (killed by signal SIGSEGV)"
    )
    assert there == here


class Locked(Computation):
    """Holds what cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_pipeline_that_cannot_be_sent_is_refused_with_what_to_do(executors: SparkExecutors) -> None:
    pipeline = Pipeline("locked")
    pipeline.injector("mail")
    pipeline.add(Locked(), name="locked", inputs=["mail"])
    application = Application.with_input(pipeline, letters(pipeline, 3))
    expected = (
        r"'locked' cannot be sent to executors: TypeError: cannot pickle '_thread.lock' object\. .* --jobs"
    )
    with pytest.raises(SparkHostError, match=expected):
        search(Steering(application), examples=40, jobs=executors)


def test_another_job_of_the_session_outlives_a_search(
    spark: SparkSession, executors: SparkExecutors, tmp_path: Path
) -> None:
    begun, searched = tmp_path / "begun", tmp_path / "searched"

    def wait(number: int) -> int:
        begun.touch()
        while not searched.exists():
            time.sleep(0.01)
        return number

    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(spark.sparkContext.parallelize([7], 1).map(wait).collect)
        try:
            while not begun.exists():
                assert not other.done()
                time.sleep(0.01)
            assert list(executors.spread(abs, [-1])) == [1]
        finally:
            searched.touch()
        assert other.result() == [7]


def begins_and_waits(path: str) -> None:
    Path(path).touch()
    time.sleep(20)


def test_what_is_under_way_is_cancelled_when_a_search_stops(
    executors: SparkExecutors, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    with executors._threads() as threads:
        under_way = threads.submit(executors._do, begins_and_waits, str(begun))
        while not begun.exists():
            assert not under_way.done()
            time.sleep(0.01)
    with pytest.raises(SparkHostError, match="cancelled"):
        under_way.result()


def fails(_: int) -> int:
    raise LookupError("no such thing")


def test_an_exception_of_work_is_raised_as_it_is(executors: SparkExecutors) -> None:
    with pytest.raises(LookupError, match="no such thing"):
        list(executors.spread(fails, [1, 2]))


def ends(_: int) -> int:
    os._exit(3)


def test_work_that_ends_its_process_is_an_error_that_says_so(executors: SparkExecutors) -> None:
    with pytest.raises(SparkHostError, match="a Python process of an executor ended"):
        list(executors.spread(ends, [1]))


def test_the_command_says_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headrace.spark, "session", lambda *_: nullcontext(spark))
    arguments = ["mutants", "ack before commit", "--json"]
    there = CliRunner().invoke(app, [*arguments, "--master", "local[2]"], catch_exceptions=False)
    here = CliRunner().invoke(app, [*arguments, "--jobs", "1"], catch_exceptions=False)
    assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)


def verdict(document: str) -> dict[str, Any]:
    """What a search has found, without the times that it took."""
    found: dict[str, Any] = json.loads(document)
    return {name: value for name, value in found.items() if name not in ("elapsed_s", "runs_per_second")}


@pytest.mark.nightly
def test_the_runs_of_a_killed_executor_are_made_again(tmp_path: Path) -> None:
    (tmp_path / "views.py").write_text(VIEWS)
    command = [
        sys.executable,
        "-m",
        "headrace_cli",
        "verify",
        "views:pipeline",
        "--examples",
        "200",
        "--json",
    ]
    printed = tmp_path / "there.json"
    with printed.open("w") as output:  # a pipe that nobody reads yet could fill up
        there = subprocess.Popen(
            [*command, "--master", "local-cluster[2,1,1024]"],
            cwd=tmp_path, env=environment(), stdout=output, start_new_session=True,
        )  # fmt: skip
    killed = None
    while killed is None:
        assert there.poll() is None, "it ended before an executor was at work"
        time.sleep(0.1)
        processes = processes_of(there.pid)
        workers = [process.pid for process in processes if not process.is_executor]
        killed = next(filter(None, (ancestor(processes, pid) for pid in workers)), None)
    send(killed.pid, signal.SIGKILL)
    there.wait()
    here = subprocess.run(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True, check=False
    )
    assert (there.returncode, verdict(printed.read_text())) == (here.returncode, verdict(here.stdout))
