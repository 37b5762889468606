"""`headrace chaos`: plans, what is compared, and runs on Spark in which processes are really killed, stopped and continued."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from headrace.spark.runtime.spark_session import worker_path
from headrace_cli.main import app
from headrace_properties.reference import RunResult
from headrace_properties.spark_jobs.hosted_outcomes import Row, outcome_of
from headrace_properties.verdict import Holds, Unknown, Violated
from headrace_scenarios.chaos import turnstiles
from headrace_scenarios.chaos.chaos_job import (
    ADDED,
    BatchMoment,
    SavedState,
    held,
    hold,
    pass_moment,
    release,
)
from headrace_scenarios.chaos.chaos_run import (
    ChaosOptions,
    ChaosReport,
    StrikeResult,
    read_rows,
    read_states,
    run_chaos,
)
from headrace_scenarios.chaos.plan import (
    MOMENTS,
    ChaosPlan,
    ChaosPlanError,
    Strike,
    Verb,
    draw_plan,
)
from headrace_scenarios.chaos.system_processes import processes_of, send, signal_all, wait_until_gone

TARGET = "headrace_scenarios.chaos.turnstiles:pipeline"
ONE_EXECUTOR = ChaosOptions(master="local-cluster[1,1,1024]")
IN_THE_DRIVER = ChaosOptions(master="local[1]")

# Plans


def test_the_same_seed_draws_the_same_plan() -> None:
    assert draw_plan(20, 3, 150) == draw_plan(20, 3, 150)
    assert draw_plan(20, 3, 150) != draw_plan(20, 4, 150)


@pytest.mark.parametrize("seed", range(20))
def test_each_strike_has_a_part_of_its_own_and_a_moment_that_fits(seed: int) -> None:
    plan = draw_plan(16, seed, 150)
    parts = [strike.part for strike in plan.strikes]
    assert parts == sorted(set(parts))
    assert parts[-1] < plan.parts == 17
    for strike in plan.strikes:
        assert strike.moment in MOMENTS[strike.verb]


def test_no_kind_comes_again_before_all_others_have_come() -> None:
    verbs = [strike.verb for strike in draw_plan(2 * len(Verb), 0, 150).strikes]
    assert Counter(verbs[: len(Verb)]) == Counter(verbs[len(Verb) :]) == Counter(Verb)


def test_only_the_kinds_that_are_wanted_are_drawn() -> None:
    assert draw_plan(5, 0, 150, [Verb.ZOMBIE, Verb.CHANGE]).verbs in (
        (Verb.ZOMBIE, Verb.CHANGE),
        (Verb.CHANGE, Verb.ZOMBIE),
    )


def test_a_plan_can_be_written_and_read() -> None:
    plan = draw_plan(7, 1, 150)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=ChaosPlan) == plan


def test_more_faults_than_input_are_refused() -> None:
    with pytest.raises(ChaosPlanError, match=r"8 faults need more than 8 entries.*Use fewer faults"):
        draw_plan(8, 0, 8)


# What is found


def _report(rows: Sequence[Row], *, struck: bool = True) -> ChaosReport:
    strike = Strike(0, Verb.ZOMBIE, BatchMoment.READING)
    outcome = outcome_of(turnstiles.pipeline, rows)
    findings = tuple(outcome.findings(RunResult(Counter(), {})))
    return ChaosReport(ChaosPlan(1, (strike,)), (StrikeResult(strike, struck),), outcome, findings, 1, 0.0)


def test_what_differs_from_the_reference_is_violated_and_a_fault_that_never_struck_is_unknown() -> None:
    assert _report([]).verdict == Holds(1)
    assert _report([("hall_counts", "north", b"1", 10)]).verdict == Violated(
        "outputs: 0 missing, 1 extra, 0 as expected", ()
    )
    assert _report([], struck=False).verdict == Unknown("never struck: part 0: zombie, reading")


def test_what_was_never_written_is_empty_and_states_of_additions_do_not_count(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "none.sqlite") == []
    path = tmp_path / "states.jsonl"
    assert read_states(path) == {}
    rows = (SavedState("hall_counter", "north", b"3"), SavedState(f"{ADDED}0", "n1", b"20"))
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    assert read_states(path) == {("hall_counter", "north"): b"3"}


# Processes and holds


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process with one child, in a session of its own; both end with the test."""
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).wait()"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as process:
        yield process
        signal_all(process.pid, signal.SIGKILL)


def _is_stopped(pid: int) -> bool:
    """Return whether the process has obeyed SIGSTOP: one that runs on another CPU takes its time to."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def _until(condition: Callable[[], bool]) -> None:
    """Wait for it; the limit is for one that never comes, on the slowest and busiest machine."""
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_session_is_stopped_continued_and_killed_with_all_that_it_started(
    parent: subprocess.Popen[bytes],
) -> None:
    _until(lambda: len(processes_of(parent.pid)) == 2)
    child = next(process for process in processes_of(parent.pid) if process.pid != parent.pid)
    assert child.parent == parent.pid
    assert signal_all(parent.pid, signal.SIGSTOP) == 2
    _until(lambda: _is_stopped(child.pid))
    assert not wait_until_gone(parent.pid, 0.05)
    assert signal_all(parent.pid, signal.SIGCONT) == 2
    assert signal_all(parent.pid, signal.SIGKILL) == 2
    parent.wait()
    assert wait_until_gone(parent.pid, 300)
    send(child.pid, signal.SIGKILL)


def test_whoever_comes_to_a_hold_says_so_and_waits(tmp_path: Path) -> None:
    hold(tmp_path, BatchMoment.WRITTEN)
    pass_moment(tmp_path, BatchMoment.READING)
    assert held(tmp_path) == ()
    waiting = threading.Thread(target=pass_moment, args=(tmp_path, BatchMoment.WRITTEN))
    waiting.start()
    _until(lambda: len(held(tmp_path)) == 1)
    assert waiting.is_alive()
    release(tmp_path)
    waiting.join(300)
    assert not waiting.is_alive()


# The command


def test_each_kind_is_in_the_help() -> None:
    result = CliRunner().invoke(app, ["chaos", "--help"], env={"COLUMNS": "400"})
    assert all(verb in result.stdout for verb in Verb)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kinds", "meteor"], r"--kinds: there is no kind 'meteor'. The kinds are: kill_executor"),
        (["--faults", "500"], r"500 faults need more than 151 entries"),
        (["--keep", "."], r"--keep: . is not empty"),
    ],
)
def test_wrong_use_is_one_message(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["chaos", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


# On Spark


def _run(place: Path, *strikes: Strike, options: ChaosOptions = ONE_EXECUTOR) -> ChaosReport:
    plan = ChaosPlan(len(strikes) + 1, strikes)
    return run_chaos(TARGET, turnstiles.pipeline, turnstiles.feed(0), plan, place / "run", options)


def test_a_run_that_is_terminated_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace_cli", "chaos", "--keep", str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONPATH": worker_path()}
    with (tmp_path / "stderr").open("w") as stderr:
        chaos = subprocess.Popen(command, env=environment, stderr=stderr)
    children = Path(f"/proc/{chaos.pid}/task/{chaos.pid}/children")

    def has_begun() -> bool:
        assert chaos.poll() is None, (tmp_path / "stderr").read_text()
        return any(
            "chaos.driver" in process.command
            for pid in children.read_text().split()
            for process in processes_of(int(pid))
        )

    _until(has_begun)
    sessions = [int(pid) for pid in children.read_text().split()]
    chaos.send_signal(signal.SIGTERM)
    assert chaos.wait(300) == 143
    assert all(wait_until_gone(session, 300) for session in sessions)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_killed_executor_and_a_zombie_leave_no_trace(tmp_path: Path) -> None:
    """The zombie is a driver that is stopped in mid-batch; its successor does the batch, and the driver goes on."""
    report = _run(
        tmp_path,
        Strike(0, Verb.KILL_EXECUTOR, BatchMoment.READING),
        Strike(1, Verb.ZOMBIE, BatchMoment.READING),
    )
    assert report.verdict == Holds(2)
    assert report.drivers == 2
    assert any("refused by the sink: a newer epoch owns the table" in note for note in report.seen[1].notes)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("object_store", [False, True])
def test_a_zombie_leaves_no_trace(tmp_path: Path, *, object_store: bool) -> None:
    """Like the one above, without what takes long: executors of their own, one of which is killed."""
    options = replace(IN_THE_DRIVER, object_store=object_store)
    report = _run(tmp_path, Strike(0, Verb.ZOMBIE, BatchMoment.READING), options=options)
    assert report.verdict == Holds(1)
    assert any("refused by the sink: a newer epoch owns the table" in note for note in report.seen[0].notes)


@pytest.mark.nightly
def test_a_driver_killed_in_a_batch_and_one_killed_after_its_sinks_wrote_leave_no_trace(
    tmp_path: Path,
) -> None:
    strikes = [
        Strike(part, Verb.KILL_DRIVER, moment) for part, moment in enumerate(MOMENTS[Verb.KILL_DRIVER])
    ]
    assert _run(tmp_path, *strikes).verdict == Holds(2)


@pytest.mark.nightly
@pytest.mark.parametrize("object_store", [False, True])
@pytest.mark.parametrize("moment", [BatchMoment.CHANGING, BatchMoment.READING])
def test_a_driver_killed_in_a_change_of_its_job_leaves_no_trace(
    tmp_path: Path, moment: BatchMoment, *, object_store: bool
) -> None:
    options = replace(IN_THE_DRIVER, object_store=object_store)
    strikes = [  # part 0 gives the job a state
        Strike(part, verb, moment)
        for part, verb in enumerate([Verb.RESHARD, Verb.CHANGE, Verb.CHANGE, Verb.RESHARD], 1)
    ]
    report = _run(tmp_path, *strikes, options=options)
    assert report.verdict == Holds(4)
    assert (report.outcome.outputs.total(), len(report.outcome.states)) == (156, 9)
    assert [note for seen in report.seen for note in seen.notes] == [
        "2 intervals became 3",
        "the pipeline has chaos addition 0",
        "the pipeline has chaos addition 1",
        "3 intervals became 3, one of them split",
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("object_store", [False, True])
def test_a_hundred_faults_leave_no_trace(tmp_path: Path, seed: int, *, object_store: bool) -> None:
    """Ten in each run, of all kinds. All runs take more than half an hour on two cores."""
    feed = turnstiles.feed(seed)
    plan = draw_plan(10, seed, len(feed.entries))
    options = ChaosOptions(object_store=object_store)
    report = run_chaos(TARGET, turnstiles.pipeline, feed, plan, tmp_path / "run", options)
    assert report.verdict == Holds(10)


@pytest.mark.nightly
def test_without_fencing_a_zombie_writes_what_was_written(tmp_path: Path) -> None:
    arguments = ["--faults", "1", "--kinds", "zombie", "--without", "fencing", "--seed", "2", "--json"]
    arguments += ["--master", "local-cluster[1,1,1024]"]
    result = CliRunner().invoke(app, ["chaos", *arguments], catch_exceptions=False)
    document: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["result"] == "violated"
    assert [finding["message"].partition(",")[0] for finding in document["findings"]] == [
        "outputs: 0 missing"
    ]
    assert "refused by Spark" in document["faults"][0]["seen"][0]
