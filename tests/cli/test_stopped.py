"""Ctrl-C and SIGTERM in the middle of a command: what was found so far is printed or saved, with the shell's exit code."""

import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_benchmarks.section8.markdown import DATA
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.signals import STOPPED, Stopped
from headrace_scenarios.chaos.plan import ChaosPlan
from tests.cli.rig import Run

STOPS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def stop(number: signal.Signals) -> None:
    """What `signals_raised`, which the tests' command has not, does about a signal."""
    raise KeyboardInterrupt if number is signal.SIGINT else Stopped(number)


@STOPS
def test_recheck_prints_the_runs_so_far(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    assert run("run", "views:pipeline", "--history", "yesterday.jsonl").exit_code == 0

    def advance(_progress: RunProgress, done: float, _what: str = "") -> None:
        if done:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(RunProgress, "advance", advance)
    done = run("recheck", "yesterday.jsonl", "views:pipeline", "--examples", "4")
    assert done.exit_code == 128 + number, done.output
    assert done.stdout.startswith(f"{STOPPED[number].upper()}: not everything could be compared\n")
    assert f"{number.name} after 1 of 5 runs; the rest was not compared" in done.stdout
    assert ", 1 run compared" in done.stdout


@STOPS
def test_mutate_says_how_far_the_runs_without_mutation_came(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(RunProgress, "on_part", lambda *_: stop(number))
    done = run("mutate", "views:pipeline", "--examples", "40", "--jobs", "1")
    assert done.exit_code == 128 + number, done.output
    assert (
        done.stdout
        == f"Stopped by {number.name} after 50% of the runs without mutation: no mutant was judged.\n"
    )


@STOPS
def test_paper_report_saves_the_experiments_that_are_complete(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    pytest.importorskip("matplotlib")
    small = dataclasses.replace(EXPERIMENTS["figure-14"], quick=("20 CPUs", "50 CPUs"))
    monkeypatch.setitem(EXPERIMENTS, "figure-14", small)

    def advance(_progress: RunProgress, _done: float, name: str = "") -> None:
        if name != small.name:
            stop(number)

    monkeypatch.setattr(RunProgress, "advance", advance)
    output = tmp_path / "REPORT.md"
    command = ("paper", "report", "--quick", "--seeds", "1", "--jobs", "1", "--output", str(output))
    done = run(*command, "--only", "hot-key")
    assert (done.exit_code, output.exists()) == (128 + number, False), done.output
    assert f"Stopped by {number.name} after 0 of 1 experiment: nothing was written." in done.stderr
    done = run(*command, "--only", "figure-14", "--only", "hot-key")
    assert done.exit_code == 128 + number, done.output
    assert f"Stopped by {number.name} after 1 of 2 experiments: {output}: figure-14." in done.stderr
    assert "headrace paper report --quick --only figure-14 --seeds 1`" in output.read_text()
    measured = json.loads((tmp_path / DATA).read_text())["measured"]
    assert [experiment["name"] for experiment in measured] == ["figure-14"]


@pytest.mark.spark
@STOPS
def test_chaos_prints_the_faults_so_far(
    run: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    chaos_run = pytest.importorskip("headrace_scenarios.chaos.chaos_run")

    def run_chaos(*arguments: Any) -> None:
        plan = next(argument for argument in arguments if isinstance(argument, ChaosPlan))
        arguments[-1](
            chaos_run.StrikeResult(plan.strikes[0], struck=True, notes=["executor killed"], recovered_s=2.0)
        )
        stop(number)

    monkeypatch.setattr(chaos_run, "run_chaos", run_chaos)
    done = run("chaos", "--faults", "3")
    assert done.exit_code == 128 + number, done.output
    assert done.stdout.startswith(
        f"{STOPPED[number].upper()} after 1 of 3 faults; the output was not compared\n"
    )
    assert "executor killed" in done.stdout
    assert "logs, checkpoint and outputs so far: " in done.stdout
    document = json.loads(run("chaos", "--faults", "3", "--json").stdout)
    assert (document["result"], len(document["faults"])) == (STOPPED[number], 1)
