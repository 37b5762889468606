"""What ``headrace verify`` has not seen: the chance of news, and the lines of user code that no run reached."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace_cli.terminal.documents import fields_of
from headrace_cli.terminal.render import counted, print_text
from headrace_properties.search.novelty import Novelty
from headrace_properties.search.verification import Verification

_ENOUGH = 10
"""Choice: an estimate from fewer runs tells nothing."""

_STOPPED = {
    "quiet": "The search stopped since the runs had little more to show (--until-quiet).",
    "minutes": "The search stopped after its time (--minutes).",
}


def print_unseen(console: Console, verification: Verification) -> None:
    """Print how much of what can happen has probably not been seen."""
    if verification.stopped_for:
        print_text(console, _STOPPED[verification.stopped_for])
    if not verification.novelty.runs or verification.exploration is not None:
        return
    shown = counted(verification.novelty.things, "kind")
    news = _chance("run shows", verification.novelty)
    print_text(console, f"{shown} of behaviour seen{news}")
    if verification.code.things:
        branches = counted(verification.code.things, "branch").replace("branchs", "branches")
        watched = counted(verification.code.runs, "watched run")
        print_text(
            console, f"{branches} of your code taken in {watched}{_chance('takes', verification.code)}"
        )


def print_unreached(console: Console, verification: Verification) -> None:
    """List the lines of user code that no watched run reached."""
    for file, lines in groupby(verification.unreached, lambda place: place[0]):
        named = ", ".join(line_ranges(line for _, line in lines))
        print_text(console, f"{shown_path(file)}: no watched run reached line {named}", indent=2)


def unseen_document(verification: Verification) -> dict[str, Any]:
    """Return it for ``--json``."""
    return {
        "behaviour": {
            "seen": verification.novelty.things,
            **fields_of(verification.novelty, "chance", "curve"),
        },
        "branches": {"seen": verification.code.things, **fields_of(verification.code, "chance", "curve")},
        "watched_runs": verification.code.runs,
        "unreached_lines": [{"file": file, "line": line} for file, line in verification.unreached],
        "stopped_for": verification.stopped_for,
    }


def _chance(next_does: str, novelty: Novelty) -> str:
    """Return the estimate that the next run brings news, if there were runs enough to tell."""
    if novelty.runs < _ENOUGH:
        return ""
    chance = novelty.chance
    return f"; chance that the next {next_does} a new one: {f'about {chance:.1%}' if chance < 0.1 else f'about {chance:.0%}'}"


def line_ranges(lines: Iterable[int]) -> Iterator[str]:
    """Write successive lines as one range."""
    for _, group in groupby(enumerate(lines), lambda pair: pair[1] - pair[0]):
        numbers = [line for _, line in group]
        yield str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def shown_path(file: str) -> str:
    """Write a path relative to the current directory, if it is below."""
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
