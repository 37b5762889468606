"""Work spread over processes: all results come back, and a killed process is reported instead of awaited."""

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from headrace import Computation, Context, Pipeline, Record
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.limits import CodeLimits
from headrace_properties.search.parallel import KilledProcessError, runner, spread
from headrace_properties.search.plans import Plan
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_sim import NO_FAULTS, SOUND, ClusterOptions
from tests.sim.rig import letters

HERE = os.getpid()


def _square_unless_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


class _Deadly(Computation):
    """Kills the process that it runs in, but for the one that the test runs in."""

    def process_record(self, context: Context, record: Record) -> None:
        if os.getpid() != HERE:
            faulthandler.disable()  # pytest's would print its stacks into the log
            ctypes.string_at(0)


def _deadly() -> Pipeline:
    pipeline = Pipeline("deadly")
    pipeline.injector("mail")
    pipeline.add(_Deadly(), name="deadly", inputs=["mail"])
    return pipeline


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_item_is_processed_once(jobs: int) -> None:
    assert sorted(spread(_square_unless_seven, range(5), jobs)) == [0, 1, 4, 9, 16]


def test_a_killed_process_ends_the_work_with_an_error_that_says_so() -> None:
    with pytest.raises(KilledProcessError, match="one of the 2 processes at work was killed"):
        list(spread(_square_unless_seven, range(20), 2))


def _pools_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "ExecutorManager" in type(thread).__name__]


def test_nothing_of_interrupted_work_is_left_for_the_exit_of_python() -> None:
    """Its thread would write to a pipe that is closed meanwhile."""
    results = spread(_square_unless_seven, range(8, 300), 2)
    next(results)
    assert len(_pools_threads()) == 1
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)  # type: ignore[attr-defined]  # it is a generator
    assert (_pools_threads(), multiprocessing.active_children()) == ([], [])


def test_a_signal_amid_the_start_of_a_pool_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    really = ProcessPoolExecutor._launch_processes  # type: ignore[attr-defined]  # its steps are the point

    def launch(pool: ProcessPoolExecutor) -> None:
        really(pool)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ProcessPoolExecutor, "_launch_processes", launch)
    application = Application.with_input(_deadly(), letters(_deadly(), 1))
    try:
        with pytest.raises(KeyboardInterrupt), runner(application, SOUND, 2) as run:
            next(iter(run([PipelineTrial(Plan(NO_FAULTS, ClusterOptions(), 0), 0)])))
        assert multiprocessing.active_children() == []
    finally:
        for process in multiprocessing.active_children():
            process.kill()


def test_a_run_that_kills_its_process_is_a_failure_that_names_the_call() -> None:
    found = search(Steering(Application.with_input(_deadly(), letters(_deadly(), 3))), examples=40, jobs=2)
    assert found.failure is not None
    assert str(found.failure.error).startswith(
        "ProcessEnded: user code ended its process (killed by signal SIGSEGV), on mail"
    )
    assert "at 'deadly'" in str(found.failure.error)
    assert found.failure.kept is not None
    assert len(found.failure.kept) == 1


class _Stuck(Computation):
    """Never ends on one record, and leaves on another."""

    def process_record(self, context: Context, record: Record) -> None:
        time.sleep(60)


class _Leaving(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        sys.exit(0)


class _Greedy(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        bytearray(1 << 31)


@pytest.mark.parametrize(
    ("computation", "says", "jobs"),
    [
        (_Stuck(), "never ends", 1),
        (_Stuck(), "never ends", 2),
        (_Leaving(), "SystemExit", 1),
        (_Leaving(), "SystemExit", 2),
        (_Greedy(), "MemoryError", 2),  # this process is not limited
    ],
)
def test_a_run_that_never_ends_leaves_or_eats_memory_is_a_failure(
    computation: Computation, says: str, jobs: int
) -> None:
    pipeline = Pipeline("stuck")
    pipeline.injector("mail")
    pipeline.add(computation, name="stuck", inputs=["mail"])
    application = Application.with_input(pipeline, letters(pipeline, 1))
    limited = replace(application, limits=CodeLimits(call_s=0.1))
    with runner(limited, SOUND, jobs) as run:
        judged = list(run([PipelineTrial(Plan(NO_FAULTS, ClusterOptions(), seed)) for seed in range(2)]))
    assert all(says in str(judged_run.error) for judged_run in judged)
