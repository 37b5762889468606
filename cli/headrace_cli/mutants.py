"""``headrace mutants``: are the oracles worth anything? Each broken protocol of the catalogue must be caught by one."""

import os
import signal
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headrace import HeadraceError, format_time
from headrace_cli._consoles import error_console, output_console
from headrace_cli._documents import print_document
from headrace_cli._exit import ExitCode, tidy_errors
from headrace_cli._options import JsonOption
from headrace_cli._render import plain_table, print_table
from headrace_cli._signals import signal_of
from headrace_properties.mutants import CATALOGUE, Mutant
from headrace_properties.mutants.hunt import Hunted, hunt_all

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace mutants
  headrace mutants "ack before commit" "timers latest first"
  headrace mutants --list
  headrace mutants --seeds 100 --jobs 2 --json > matrix.json

[bold]Exit codes[/]
  0 each mutant was activated and killed, 1 one survived, 2 wrong use"""


class UnknownMutantError(HeadraceError):
    """A mutant that there is not. Fields: name, known."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        """Say where to look."""
        near = [one for one in self.known if any(word in one.split() for word in self.name.split())]
        hint = f" Did you mean {' or '.join(map(repr, near[:3]))}?" if near else ""
        return f"there is no mutant {self.name!r}.{hint} See headrace mutants --list"


@app.command("mutants", epilog=_EXAMPLES)
def mutants(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which mutants. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs that each mutant may take to be killed.")] = 1_000,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes to spread them over. Default: one for each CPU.")
    ] = None,
    list_only: Annotated[  # noqa: FBT002  typer's way
        bool, typer.Option("--list", help="Say what each mutant gets wrong, and run nothing.")
    ] = False,
    as_json: JsonOption = False,  # noqa: FBT002  typer's way
) -> None:
    """Run broken protocols until an invariant catches each: a matrix of mutants and what kills them.

    Each is the engine with one rule broken. A mutant that no oracle catches, or that never does anything wrong, shows that the
    oracles, or the faults, are too weak. A plan that kills is shrunk; 0 faults: it shows in a healthy run.
    """
    with tidy_errors():
        chosen = _chosen(names or [])
        if list_only:
            _print_list(chosen, as_json=as_json)
            return
        names_chosen = [mutant.name for mutant in chosen]
        found, stopped_by = _hunt(names_chosen, seeds, jobs or os.cpu_count() or 1)
        if as_json:
            print_document([_document(one) for one in found])
        else:
            _print_matrix(found)
        if stopped_by is not None:
            error_console().print(
                f"Stopped by {stopped_by.name} after {len(found)} of {len(chosen)} mutants."
            )
            raise typer.Exit(128 + stopped_by)
        survivors = [one for one in found if not one.killed or not one.activated]
        raise typer.Exit(ExitCode.VIOLATED if survivors else ExitCode.HOLDS)


def _chosen(names: list[str]) -> list[Mutant]:
    for name in names:
        if name not in CATALOGUE:
            raise UnknownMutantError(name, tuple(CATALOGUE))
    return [CATALOGUE[name] for name in dict.fromkeys(names)] or list(CATALOGUE.values())


def _hunt(names: list[str], seeds: int, jobs: int) -> tuple[list[Hunted], signal.Signals | None]:
    """Run the mutants until all are done or a signal arrives, which is returned, too; in the order of the names."""
    stopped_by = None
    found: dict[str, Hunted] = {}
    console = error_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("hunting", total=len(names))
        try:
            for hunted in hunt_all(names, seeds, jobs):
                found[hunted.name] = hunted
                bar.update(task, completed=len(found))
        except KeyboardInterrupt as stop:
            stopped_by = signal_of(stop)
    return [found[name] for name in names if name in found], stopped_by


# What is said of it


def _document(one: Hunted) -> dict[str, Any]:
    mutant = CATALOGUE[one.name]
    faults = [] if one.plan is None else one.plan.faults.describe().splitlines()
    return {
        "name": one.name,
        "invariant": ", ".join(one.breaks),
        "activated": one.activated,
        "killed": one.killed,
        "killed_by": list(one.killed_by),
        "runs": one.runs,
        "faults": one.faults,
        "section": mutant.section,
        "wrong": mutant.wrong,
        "workload": mutant.workload,
        "directed": one.directed,
        "why_directed": mutant.directed.why if one.directed and mutant.directed else "",
        "fault_schedule": faults if one.faults else [],
        "feed_seed": one.feed_seed,
        "message": one.message,
    }


def _print_list(chosen: list[Mutant], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "name": one.name,
                "invariant": ", ".join(one.breaks),
                "section": one.section,
                "rules": list(one.rules),
                "wrong": one.wrong,
            }
            for one in chosen
        ]
        print_document(rows)
        return
    table = plain_table("mutant", "section", "rule", "breaks", "what is wrong")
    for one in chosen:
        table.add_row(one.name, one.section, ", ".join(one.rules), ", ".join(one.breaks), one.wrong)
    print_table(output_console(), table)


def _print_matrix(found: list[Hunted]) -> None:
    console = output_console()
    table = plain_table("mutant", "breaks", "activated", "killed by", "runs", "faults")
    for one in found:
        killed_by = ", ".join(one.killed_by) or "nobody: it survived"
        runs = f"{one.runs}, directed" if one.directed else str(one.runs)
        faults = "-" if one.faults is None else str(one.faults)
        activated = "yes" if one.activated else "no"
        table.add_row(one.name, ", ".join(one.breaks), activated, killed_by, runs, faults)
    print_table(console, table)
    console.print()
    killed = [one for one in found if one.killed]
    console.print(
        f"{sum(one.activated for one in found)} of {len(found)} mutants activated, {len(killed)} killed"
        f" by {len({oracle for one in killed for oracle in one.killed_by})} oracles"
    )
    for one in found:
        if not one.killed:
            console.print(f"{one.name} survived {one.runs} runs: {CATALOGUE[one.name].wrong}", soft_wrap=True)
    if len(found) == 1 and killed:
        _print_kill(killed[0])


def _print_kill(one: Hunted) -> None:
    """One mutant alone is told in full."""
    assert one.plan is not None
    console = output_console()
    console.print()
    console.print(f"{CATALOGUE[one.name].wrong} (MillWheel {CATALOGUE[one.name].section})", soft_wrap=True)
    console.print(f"{one.killed_by[0]}: {one.message}", soft_wrap=True)
    healed = f", healed at {format_time(one.plan.faults.heals_at_us)}" if one.faults else ""
    console.print(f"The smallest plan{healed}:", soft_wrap=True)
    console.print(one.plan.faults.describe(), soft_wrap=True)
