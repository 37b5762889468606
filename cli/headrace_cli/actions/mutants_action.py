"""The work of ``headrace mutants``."""

import signal
from functools import partial
from typing import Any

from rich.console import Console

from headrace import HeadraceError, format_time
from headrace.api.errors import did_you_mean
from headrace_cli.options.pools import PoolOptions
from headrace_cli.targets.protocols import load_rules
from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.documents import fields_of, show
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.render import plain_table, print_table
from headrace_cli.terminal.signals import signal_of
from headrace_properties.proof.mutants import CATALOGUE, Mutant
from headrace_properties.proof.mutants.hunt import Hunted, hunt_all, hunt_everywhere
from headrace_properties.search.parallel import Jobs


def hunt_mutants(names: list[str], seeds: int, pools: PoolOptions, *, as_json: bool) -> int:
    """Hunt the mutants of these names, or all, print the matrix, and return the exit code."""
    chosen = _chosen(names)
    names_chosen = [mutant.name for mutant in chosen]
    with pools.pool() as jobs:
        hunts, stopped_by = _hunt(names_chosen, seeds, jobs)
    show(
        lambda: [_document(hunted, CATALOGUE[hunted.name]) for hunted in hunts],
        lambda console: _print_matrix(console, hunts),
        as_json=as_json,
    )
    if stopped_by is not None:
        error_console().print(f"Stopped by {stopped_by.name} after {len(hunts)} of {len(chosen)} mutants.")
        return 128 + stopped_by
    survivors = [hunted for hunted in hunts if not hunted.killed or not hunted.activated]
    return ExitCode.VIOLATED if survivors else ExitCode.HOLDS


def hunt_own(name: str, seeds: int, *, as_json: bool) -> int:
    """Hunt rules of the user's own on all workloads, print what caught them, and return the exit code.

    ``name``: ``MODULE:NAME`` of a class of `Rules`. ``seeds``: how many runs each workload may take.
    """
    with RunProgress("hunting") as progress:
        mutant, hunted = hunt_everywhere(
            name, load_rules(name), seeds, partial(progress.on_part, "workloads")
        )
    show(
        lambda: _document(hunted, mutant),
        lambda console: _print_own(console, hunted, mutant),
        as_json=as_json,
    )
    return ExitCode.HOLDS if hunted.killed else ExitCode.VIOLATED


def _print_own(console: Console, hunted: Hunted, mutant: Mutant) -> None:
    if hunted.killed:
        oracles = ", ".join(hunted.killed_by)
        console.print(
            f"{mutant.name} is caught by {oracles} on {mutant.workload!r}, in run {hunted.runs}",
            soft_wrap=True,
        )
        _print_kill(console, hunted, mutant)
        return
    decided = (
        "not all of them as the sound protocol does" if hunted.activated else "as the sound protocol does"
    )
    console.print(f"{mutant.name} survived {hunted.runs} runs, and decided {decided}", soft_wrap=True)


class UnknownMutantError(HeadraceError):
    """There is no such mutant. Fields: name, known."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        """Suggest similar names."""
        near = [known for known in self.known if any(word in known.split() for word in self.name.split())]
        hint = f"Did you mean {' or '.join(map(repr, near[:3]))}? " if near else ""
        hint = hint or did_you_mean(self.name, self.known)
        return f"there is no mutant {self.name!r}. {hint}List them with headrace mutants --list"


def _chosen(names: list[str]) -> list[Mutant]:
    for name in names:
        if name not in CATALOGUE:
            raise UnknownMutantError(name, tuple(CATALOGUE))
    return [CATALOGUE[name] for name in dict.fromkeys(names)] or list(CATALOGUE.values())


def _hunt(names: list[str], seeds: int, jobs: Jobs) -> tuple[list[Hunted], signal.Signals | None]:
    """Run the mutants until all are done or a signal arrives, which is returned, too; in the order of the names."""
    stopped_by = None
    hunts: dict[str, Hunted] = {}
    with RunProgress("hunting") as progress:
        try:
            for hunted in hunt_all(names, seeds, jobs):
                hunts[hunted.name] = hunted
                progress.on_part("hunting", len(hunts), len(names))
        except KeyboardInterrupt as stop:
            stopped_by = signal_of(stop)
    return [hunts[name] for name in names if name in hunts], stopped_by


# Output


def _document(hunted: Hunted, mutant: Mutant) -> dict[str, Any]:
    faults = [] if hunted.plan is None else hunted.plan.describe()
    return {
        **fields_of(hunted, "name", "activated", "killed", "killed_by", "runs", "faults", "directed"),
        **fields_of(mutant, "section", "wrong", "workload"),
        **fields_of(hunted, "feed_seed", "message"),
        "invariant": ", ".join(hunted.breaks),
        "why_directed": mutant.directed.why if hunted.directed and mutant.directed else "",
        "fault_schedule": faults if hunted.faults else [],
    }


def print_catalogue(names: list[str], *, as_json: bool) -> None:
    """Print the mutants of these names, or all, without running them."""
    chosen = _chosen(names)
    columns = ("mutant", "section", "rule", "breaks", "what is wrong")
    rows = [
        (mutant.name, mutant.section, ", ".join(mutant.rules), ", ".join(mutant.breaks), mutant.wrong)
        for mutant in chosen
    ]
    show(
        lambda: [
            {"invariant": ", ".join(mutant.breaks)} | fields_of(mutant, "name", "section", "rules", "wrong")
            for mutant in chosen
        ],
        lambda console: print_table(console, plain_table(*columns, rows=rows)),
        as_json=as_json,
    )


def _print_matrix(console: Console, hunts: list[Hunted]) -> None:
    table = plain_table("mutant", "breaks", "activated", "killed by", "runs", "faults")
    for hunted in hunts:
        killed_by = ", ".join(hunted.killed_by) or "nothing: it survived"
        runs = f"{hunted.runs}, directed" if hunted.directed else str(hunted.runs)
        faults = "-" if hunted.faults is None else str(hunted.faults)
        activated = "yes" if hunted.activated else "no"
        table.add_row(hunted.name, ", ".join(hunted.breaks), activated, killed_by, runs, faults)
    print_table(console, table)
    console.print()
    killed = [hunted for hunted in hunts if hunted.killed]
    console.print(
        f"{sum(hunted.activated for hunted in hunts)} of {len(hunts)} mutants activated, {len(killed)} killed"
        f" by {len({oracle for hunted in killed for oracle in hunted.killed_by})} oracles"
    )
    for hunted in hunts:
        if not hunted.killed:
            console.print(
                f"{hunted.name} survived {hunted.runs} runs: {CATALOGUE[hunted.name].wrong}", soft_wrap=True
            )
    if len(hunts) == 1 and killed:
        _print_kill(console, killed[0], CATALOGUE[killed[0].name])


def _print_kill(console: Console, hunted: Hunted, mutant: Mutant) -> None:
    """Print one mutant in full."""
    assert hunted.plan is not None
    console.print()
    console.print(mutant.wrong + (f" (MillWheel {mutant.section})" if mutant.section else ""), soft_wrap=True)
    console.print(f"{hunted.killed_by[0]}: {hunted.message}", soft_wrap=True)
    healed = f", healed at {format_time(hunted.plan.faults.heals_at_us)}" if hunted.faults else ""
    console.print(f"The smallest plan{healed}:", soft_wrap=True)
    console.print("\n".join(hunted.plan.describe()), soft_wrap=True)
