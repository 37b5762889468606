"""The work of ``headrace recheck``."""

import dataclasses
import signal
from pathlib import Path

from rich.console import Console

from headrace_cli.targets.loading import load_pipeline
from headrace_cli.terminal.documents import show, stdout_reserved
from headrace_cli.terminal.exit import RESULT_WORDS, ExitCode
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.render import counted, print_heading, print_result, print_text
from headrace_cli.terminal.signals import stop_requested
from headrace_properties.recheck import Difference, Recheck, read_recording, recheck


def recheck_history(history: Path, pipeline: str, plans: int, seed: int, *, as_json: bool) -> ExitCode:
    """Compare today's code with a recorded run, print the differences, and return the exit code."""
    wanted = plans + 1
    with stdout_reserved(), RunProgress(f"rechecking {history.name}") as progress:
        today = load_pipeline(pipeline)
        progress.advance(0.0, "reading")
        recording = read_recording(history, today)
        with stop_requested() as stop:
            result = recheck(
                recording,
                today,
                plans=plans,
                seed=seed,
                on_run=lambda runs: progress.advance(runs / wanted),
                should_stop=stop,
            )
    code = _code(result, stop.signal)
    if stop.signal is not None:
        so_far = (
            f"{stop.signal.name} after {result.runs:,} of {counted(wanted, 'run')}; the rest was not compared"
        )
        result.unknown.append(so_far)
    about = {"history": history, "pipeline": pipeline, "result": RESULT_WORDS[code]}
    show(
        lambda: about | dataclasses.asdict(result),
        lambda console: _print(console, history, pipeline, result, code),
        as_json=as_json,
    )
    return code


_MOST_INPUTS = 10
"""Choice: this many records of the input are shown; the others are counted."""


def _code(result: Recheck, stopped_by: signal.Signals | None) -> ExitCode:
    if stopped_by is not None:
        return ExitCode(128 + stopped_by)
    if result.differences:
        return ExitCode.VIOLATED
    return ExitCode.UNKNOWN if result.unknown else ExitCode.HOLDS


def _print(console: Console, history: Path, pipeline: str, result: Recheck, code: ExitCode) -> None:
    if result.differences:
        first = f"{pipeline} does not reproduce what was recorded"
    elif code is ExitCode.HOLDS:
        first = f"{pipeline} reproduces what was recorded"
    else:
        first = "not everything could be compared"
    print_result(console, f"{RESULT_WORDS[code].upper()}: {first}", code)
    print_text(
        console,
        f"{history}: {counted(result.inputs, 'record')} of input, {counted(result.steps, 'step')} the same,"
        f" {counted(result.runs, 'run')} compared",
    )
    for difference in result.differences:
        _print_difference(console, difference)
    if result.by_order:
        print_text(
            console,
            "Every recorded step has the same result, so the order or the time of arrival decides the outcome, or a timer that is"
            " set differently now. Code that depends on the order can say so: Pipeline.add(..., ordered=True).",
            indent=2,
        )
    if result.unknown:
        print_heading(console, "Unknown")
    for why in result.unknown:
        print_text(console, why, indent=2)
    if result.declared:
        print_heading(console, "Not compared")
    for name, reason in result.declared:
        print_text(console, f"{name}: {reason}", indent=2)


def _print_difference(console: Console, difference: Difference) -> None:
    print_heading(console, f"In {difference.found_in}: {difference.what}")
    print_text(console, f"recorded: {difference.recorded}", indent=2)
    print_text(console, f"today:    {difference.today}", indent=2)
    if difference.inputs:
        print_text(console, "from:", indent=2)
    for line in difference.inputs[:_MOST_INPUTS]:
        print_text(console, line, indent=4)
    if len(difference.inputs) > _MOST_INPUTS:
        print_text(console, f"and {len(difference.inputs) - _MOST_INPUTS:,} more", indent=4)
    if difference.others:
        print_text(console, f"{difference.others:,} more differ there.", indent=2)
