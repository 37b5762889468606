"""The work of ``headrace mutate``."""

import json
import signal
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace_cli.reports.unseen import shown_path
from headrace_cli.targets.loading import load_target
from headrace_cli.terminal.documents import fields_of, show, stdout_reserved
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.render import (
    counted,
    plain_table,
    print_heading,
    print_lines,
    print_table,
    print_text,
)
from headrace_cli.terminal.signals import signal_of
from headrace_properties.mutation.measuring import MutantResult, measure
from headrace_properties.mutation.notes import Key, key_of, load_notes, survivors_of, void
from headrace_properties.mutation.sampling import in_workers, module_of, sample
from headrace_properties.mutation.survey import survey
from headrace_properties.search.application import Application
from headrace_properties.search.origins import user_modules
from headrace_properties.search.parallel import cores
from headrace_properties.search.user_lines import modules_of


def judge_mutants(
    target: str,
    feed: str,
    count: int,
    seed: int,
    runs: int,
    notes: Path | None,
    again: Path | None,
    jobs: int | None,
    *,
    as_json: bool,
) -> int:
    """Judge a sample of a pipeline's mutants, print the report, and return the exit code."""
    result = MutationReport(target)
    with stdout_reserved(), RunProgress("mutating") as progress:
        load = partial(load_application, target, feed)
        application, jobs = load(), jobs or cores()
        modules = [module_of(module.__name__) for module in _modules(target, application)]
        noted = {} if notes is None else load_notes(notes)
        files = frozenset(module.file for module in modules)

        def on_part(done: int, of: int) -> None:
            result.surveyed = done / of
            progress.on_part("runs without mutation", done, of)

        try:
            surveyed = survey(load, files, runs, jobs, on_part)
            mutants = in_workers(application, modules, surveyed)
            drawn = sample(mutants, count, seed) if again is None else survivors_of(again, mutants, noted)
            result.count, result.of, result.void = len(drawn), len(mutants), void(noted, mutants)
            for measured in measure(drawn, surveyed, load, jobs=jobs, notes=noted):
                result.found.append(measured)
                progress.on_part("judging", len(result.found), len(drawn))
        except KeyboardInterrupt as stop:
            result.stopped_by = signal_of(stop)
    show(lambda: _document(result), lambda console: print_result(console, result), as_json=as_json)
    return result.exit_code


@dataclass(slots=True)
class MutationReport:
    """The results of all mutants.

    Attributes:
        target: the pipeline.
        count: how many were drawn.
        of: how many there are to draw from.
        void: notes that name nothing any more.
        found: those that were judged.
        surveyed: the part of the runs without mutation that was made, 0 to 1.
        stopped_by: what stopped the command.
    """

    target: str
    count: int = 0
    of: int = 0
    void: list[Key] = field(default_factory=list)
    found: list[MutantResult] = field(default_factory=list)
    surveyed: float = 0.0
    stopped_by: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """The command's exit code: unknown if there was nothing to judge."""
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        if any(measured.survived for measured in self.found):
            return ExitCode.VIOLATED
        fit = any(not measured.judgement.unfit for measured in self.found)
        return ExitCode.HOLDS if fit else ExitCode.UNKNOWN


def load_application(target: str, feed: str) -> Application:
    """Return a pipeline's application, in whichever process."""
    return load_target(target, feed).application


def _modules(target: str, application: Application) -> Iterable[Any]:
    """Return the user's modules from which the pipeline is made."""
    return user_modules([target.partition(":")[0], *modules_of(application)])


# Output


def print_result(console: Console, result: MutationReport) -> None:
    """Print the table by module, then the survivors with their place."""
    mutants = result.found
    if result.stopped_by is not None and not mutants:
        doing = f"{result.surveyed:.0%} of the runs without mutation"
        print_text(console, f"Stopped by {result.stopped_by.name} after {doing}: no mutant was judged.")
        return
    if not mutants:
        print_text(console, f"There is nothing to mutate in {result.target}.")
        return
    table = plain_table("module", "mutants", "killed", "survived", "unreached", "equivalent", "kill rate")
    for row in _rows(result):
        table.add_row(*(str(cell) for cell in row.values()))
    print_table(console, table)
    console.print()
    unfit = sum(bool(measured.judgement.unfit) for measured in mutants)
    print_text(
        console,
        f"{counted(len(mutants), 'mutant')} of {result.of:,}; killed by: {_killers(mutants) or 'nothing'}."
        + (f" {unfit} cannot be imported and count for nothing." if unfit else ""),
    )
    _print_survivors(console, [measured for measured in mutants if measured.survived])
    for measured in mutants:
        if measured.reason and measured.killed:
            print_text(console, f"{_where(measured)} is noted as equivalent, but killed: remove the note.")
    for key in result.void:
        print_text(console, f"A note names nothing any more: {key.module}, {key.function}: {key.change}")
    if result.stopped_by is not None:
        print_text(
            console, f"Stopped by {result.stopped_by.name} after {len(mutants)} of {result.count} mutants."
        )


def _rows(result: MutationReport) -> list[dict[str, str | int]]:
    """Return the table by module, with the sum of all as its last row. Equivalent ones do not count in the rate."""
    groups: dict[str, list[MutantResult]] = {}
    for measured in result.found:
        groups.setdefault(measured.mutant.module.name, []).append(measured)
    rows = [_row(name, groups[name]) for name in sorted(groups)]
    return [*rows, _row("all", result.found)] if len(rows) > 1 else rows


def _row(name: str, mutants: list[MutantResult]) -> dict[str, str | int]:
    counting = [measured for measured in mutants if measured.counts]
    killed = sum(measured.killed for measured in counting)
    return {
        "module": name,
        "mutants": len(mutants),
        "killed": killed,
        "survived": len(counting) - killed,
        "unreached": sum(measured.survived and not measured.reached for measured in counting),
        "equivalent": sum(bool(measured.reason) and not measured.killed for measured in mutants),
        "kill_rate": f"{killed / len(counting):.0%}" if counting else "-",
    }


def _killers(mutants: Iterable[MutantResult]) -> str:
    """Say what fired first, and how often."""
    counts: dict[str, int] = {}
    for measured in mutants:
        for name in measured.judgement.killed_by[:1]:
            counts[name] = counts.get(name, 0) + 1
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count}" for name, count in ranked)


def _print_survivors(console: Console, survivors: list[MutantResult]) -> None:
    if not survivors:
        return
    print_heading(console, f"{counted(len(survivors), 'mutation')} that no promise or invariant notices")
    for survivor in survivors:
        mutation = survivor.mutant.mutation
        console.print()
        print_lines(console, f"{_where(survivor)}  {mutation.kind}, in {mutation.function}")
        print_lines(console, f"{mutation.before}  ->  {mutation.after}", indent=2)
        print_text(console, _evidence(survivor), indent=2)
    console.print()
    print_text(console, "A promise that tells them apart kills them (docs/how-to/mutations.md).")
    print_text(console, "To note one as equivalent, put this into the notes, with your reason:")
    print_lines(console, _note(survivors[0]), indent=2)


def _note(measured: MutantResult) -> str:
    """Return the note for a survivor, as TOML."""
    fields = {**asdict(key_of(measured.mutant)), "reason": ""}
    lines = [f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in fields.items()]
    return "\n".join(["[[equivalent]]", *lines])


def _where(measured: MutantResult) -> str:
    return f"{shown_path(measured.mutant.module.file)}:{measured.mutant.mutation.line}"


def _evidence(measured: MutantResult) -> str:
    """Say how near the runs came to it."""
    if not measured.reached:
        return "No run reaches this line."
    runs, changed = counted(measured.judgement.runs, "run"), measured.judgement.changed
    if not changed:
        return f"{runs} reached it, and no History differed: it may be equivalent."
    return f"{runs} reached it, and {changed} {'History' if changed == 1 else 'Histories'} differed."


def _document(result: MutationReport) -> dict[str, Any]:
    return {
        "target": result.target,
        "drawn": result.count,
        "of": result.of,
        "stopped": result.stopped_by is not None,
        "table": _rows(result),
        "mutants": [
            {
                "module": measured.mutant.module.name,
                "file": shown_path(measured.mutant.module.file),
                **fields_of(measured.mutant.mutation, "line", "function", "kind", "before", "after"),
                "text": measured.mutant.text,
                "killed": measured.killed,
                "reached_by": measured.reached,
                "equivalent": measured.reason,
                **asdict(measured.judgement),
            }
            for measured in result.found
        ],
        "void_notes": result.void,
    }
