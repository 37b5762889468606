"""What is shown of a run while it lasts: a table of the computations on a terminal, lines elsewhere, figures in JSON."""

import io
import json
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from headrace import MAX_TIME, MIN_TIME, SECOND, ComputationProgress
from headrace_cli.terminal import live_progress
from headrace_cli.terminal.documents import progress_document
from headrace_cli.terminal.live_progress import RunProgress, SearchProgress, progress_line
from headrace_cli.terminal.signals import Stopped, stop_requested
from headrace_properties.search.judging import Failure
from headrace_properties.search.plans import Plan
from headrace_properties.search.verification import Verification
from headrace_properties.verdict import Violated
from headrace_sim import NO_FAULTS, ClusterOptions
from tests.cli.rig import Run, plain

COUNTER = ComputationProgress("counter", 1_234, 3, 55, 1_357_000_000 * SECOND, 90 * SECOND, 17, 30, 12_345)
WORDS = ["counter", "1,234", "3", "55", "2013-01-01 00:26:40", "90.0s", "17", "30", "12.3 kB"]


def shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=130, markup=False, highlight=False)
    monkeypatch.setattr(live_progress, "error_console", lambda: console)
    monkeypatch.setattr(live_progress, "_LINE_PERIOD_S", 0.0)
    with RunProgress("job on spark") as progress:
        progress.advance(0.25, computations=[COUNTER])
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_on_a_terminal_there_is_a_table_beside_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    text = plain(shown(monkeypatch, terminal=True))
    assert "job on spark" in text
    assert "computation records late out low watermark lag timers keys state" in text
    assert " ".join(WORDS) in text


def test_elsewhere_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, terminal=False) == (
        "job on spark: 25%\n  counter: records 1,234, late 3, out 55, low watermark 2013-01-01 00:26:40, lag 90.0s, "
        "timers 17, keys 30, state 12.3 kB\n"
    )


def test_unknown_figures_are_left_out_or_marked() -> None:
    unknown = ComputationProgress("sorter", 0, 0, 0, MIN_TIME, None)
    assert progress_line(unknown) == "sorter: records 0, late 0, out 0, low watermark unknown"
    done = ComputationProgress("sorter", 0, 0, 0, MAX_TIME, 0)
    assert "low watermark the end, lag 0.0s" in progress_line(done)
    found = [
        (entry["low_watermark"], entry["ended"], entry["lag_us"])
        for entry in progress_document([unknown, done, COUNTER])
    ]
    assert found == [(None, False, None), (None, True, 0), (COUNTER.low_watermark, False, COUNTER.lag_us)]


def test_json_has_the_final_figures(folder: Path, run: Run) -> None:
    document = json.loads(run("run", "views:pipeline", "--on", "sim", "--json").stdout)
    (counter,) = document["progress"]
    assert (counter["name"], counter["records"], counter["outputs"]) == ("counter", document["records"], 8)
    assert (counter["ended"], counter["timers"], counter["state_bytes"]) == (True, 0, None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_ends(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_requested() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop()
        assert stop.signal is number
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_a_stopped_run_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=130, markup=False, highlight=False)
    monkeypatch.setattr(live_progress, "error_console", lambda: console)

    def stopped() -> None:
        with RunProgress("report") as progress:
            progress.advance(0.25, "depth")
            raise Stopped(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "report: depth: stopped at 25%\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_measurement_names_its_current_part(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=130, markup=False, highlight=False)
    monkeypatch.setattr(live_progress, "error_console", lambda: console)
    monkeypatch.setattr(live_progress, "_LINE_PERIOD_S", 0.0)
    with RunProgress("measuring") as progress:
        progress.on_part("hunting mutants", 3, 1_080)
    assert isinstance(console.file, io.StringIO)
    text = plain(console.file.getvalue())
    assert ("hunting mutants" if terminal else "hunting mutants: 3 of 1,080") in text


def test_what_a_search_finds_is_shown_before_it_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=130, markup=False, highlight=False)
    monkeypatch.setattr(live_progress, "error_console", lambda: console)
    failure = Failure(Plan(NO_FAULTS, ClusterOptions(), 0), 0, {"S6": Violated("late", ())}, "")
    with SearchProgress(20) as progress:
        progress.on_run(Verification(runs=1))
        for _ in range(3):
            progress.on_run(Verification(runs=2, failure=failure))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("VIOLATED in run 2: S6. The report follows.\n") == 1
