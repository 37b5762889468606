"""What ``headrace mutants --automatic``, ``--patch`` and ``--unreached`` print, in words and as JSON."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.console import Console

from headrace_cli.reports.unseen import line_ranges, shown_path
from headrace_cli.runs.mutation import AutomaticResult, PatchResult
from headrace_cli.terminal.documents import fields_of
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.render import (
    counted,
    plain_table,
    print_heading,
    print_lines,
    print_table,
    print_text,
)
from headrace_properties.proof.mutation.equivalents import key_of
from headrace_properties.proof.mutation.measuring import MutantResult, Unreached
from headrace_properties.proof.mutation.sampling import package_of

# Automatic mutants


def exit_code(result: AutomaticResult) -> ExitCode:
    """Return the exit code: unknown if there was nothing to judge."""
    if any(measured.survived for measured in result.found):
        return ExitCode.VIOLATED
    return (
        ExitCode.HOLDS if any(not measured.judgement.unfit for measured in result.found) else ExitCode.UNKNOWN
    )


def print_automatic(console: Console, result: AutomaticResult) -> None:
    """Print the table by module, then the survivors with their place."""
    found = result.found
    if not found:
        print_text(console, f"There is nothing to mutate in {result.target or 'these modules'}.")
        return
    table = plain_table("module", "mutants", "killed", "survived", "unreached", "equivalent", "kill rate")
    for row in table_rows(result):
        table.add_row(*(str(cell) for cell in row.values()))
    print_table(console, table)
    console.print()
    unfit = sum(bool(measured.judgement.unfit) for measured in found)
    print_text(
        console,
        f"{counted(len(found), 'mutant')} of {result.of:,}; killed by: {_killers(found) or 'nothing'}."
        + (f" {unfit} cannot be imported and count for nothing." if unfit else ""),
    )
    _print_survivors(console, result)
    for measured in found:
        if measured.reason and measured.killed:
            print_text(console, f"{_where(measured)} is noted as equivalent, but killed: remove the note.")
    for key in result.void:
        print_text(console, f"A note names nothing any more: {key.module}, {key.function}: {key.change}")
    if result.stopped_by is not None:
        print_text(
            console, f"Stopped by {result.stopped_by.name} after {len(found)} of {result.count} mutants."
        )


def table_rows(result: AutomaticResult) -> list[dict[str, str | int]]:
    """Return the table by module, with the sum of all as its last row. Equivalent ones do not count in the rate."""
    groups: dict[str, list[MutantResult]] = {}
    for measured in result.found:
        groups.setdefault(package_of(measured.mutant.module.name), []).append(measured)
    rows = [_row(name, groups[name]) for name in sorted(groups)]
    return [*rows, _row("all", result.found)] if len(rows) > 1 else rows


def _row(name: str, found: list[MutantResult]) -> dict[str, str | int]:
    counting = [measured for measured in found if measured.counts]
    killed = sum(measured.killed for measured in counting)
    return {
        "module": name,
        "mutants": len(found),
        "killed": killed,
        "survived": len(counting) - killed,
        "unreached": sum(measured.survived and not measured.reached for measured in counting),
        "equivalent": sum(bool(measured.reason) and not measured.killed for measured in found),
        "kill_rate": f"{killed / len(counting):.0%}" if counting else "-",
    }


def _killers(found: Iterable[MutantResult]) -> str:
    """Say what fired first, and how often."""
    counts: dict[str, int] = {}
    for measured in found:
        for name in measured.judgement.killed_by[:1]:
            counts[name] = counts.get(name, 0) + 1
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count}" for name, count in ranked)


def _print_survivors(console: Console, result: AutomaticResult) -> None:
    survivors = [measured for measured in result.found if measured.survived]
    if not survivors:
        return
    unseen = "that no promise or invariant notices" if result.target else "that no oracle notices"
    print_heading(console, f"{counted(len(survivors), 'mutation')} {unseen}")
    for survivor in survivors:
        console.print()
        print_lines(
            console,
            f"{_where(survivor)}  {survivor.mutant.mutation.kind}, in {survivor.mutant.mutation.function}",
        )
        print_lines(console, f"{_change(survivor)}", indent=2)
        print_text(console, _evidence(survivor), indent=2)
    console.print()
    print_text(
        console,
        "A promise that tells them apart kills them (docs/how-to/mutations.md)."
        if result.target
        else "An oracle, a workload or a fault that tells them apart kills them (docs/mutants.md).",
    )
    print_text(console, "To note one as equivalent, put this into the notes, with your reason:")
    print_lines(console, note_of(survivors[0]), indent=2)


def note_of(measured: MutantResult) -> str:
    """Return the note for a survivor, as TOML."""
    key = key_of(measured.mutant)
    fields = (("module", key.module), ("function", key.function), ("line", key.line), ("change", key.change))
    lines = [f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in (*fields, ("reason", ""))]
    return "\n".join(["[[equivalent]]", *lines])


def _where(measured: MutantResult) -> str:
    return f"{shown_path(measured.mutant.module.file)}:{measured.mutant.mutation.line}"


def _change(measured: MutantResult) -> str:
    return f"{measured.mutant.mutation.before}  ->  {measured.mutant.mutation.after}"


def _evidence(measured: MutantResult) -> str:
    """Say how near the runs came to it."""
    if not measured.reached:
        return "No run reaches this line."
    runs = counted(measured.judgement.runs, "run")
    if not measured.judgement.changed:
        return f"{runs} reached it, and no History differed: it may be equivalent."
    return f"{runs} reached it, and {counted(measured.judgement.changed, 'History').replace('Historys', 'Histories')} differed."


def automatic_document(result: AutomaticResult) -> dict[str, Any]:
    """Return it for ``--json``."""
    return {
        "target": result.target,
        "drawn": result.count,
        "of": result.of,
        "stopped": result.stopped_by is not None,
        "table": table_rows(result),
        "mutants": [_document(measured) for measured in result.found],
        "void_notes": result.void,
    }


def _document(measured: MutantResult) -> dict[str, Any]:
    return {
        "module": measured.mutant.module.name,
        "file": shown_path(measured.mutant.module.file),
        **fields_of(measured.mutant.mutation, "line", "function", "kind", "before", "after"),
        "text": measured.mutant.text,
        "killed": measured.killed,
        "reached_by": measured.reached,
        "equivalent": measured.reason,
        **asdict(measured.judgement),
    }


# A broken engine of the user's own


def print_patch(console: Console, result: PatchResult) -> None:
    """Print what noticed it, or how near the runs came."""
    judgement = result.judgement
    if judgement.killed_by:
        oracles, runs = ", ".join(judgement.killed_by), counted(judgement.runs, "run")
        where = f", on {judgement.workload}, seed {judgement.seed}" if judgement.workload else ""
        print_text(console, f"{result.path}: killed by {oracles} after {runs}{where}.")
        print_text(console, judgement.message)
        return
    if not result.reached:
        print_text(console, f"{result.path} survived: no run reaches what it changes.")
        return
    runs = counted(judgement.runs, "run")
    differ = (
        f"{judgement.changed} of their Histories differ from the sound engine's"
        if judgement.changed
        else "no History differs from the sound engine's, so it may be equivalent"
    )
    print_text(console, f"{result.path} survived {runs}: {differ}.")


def patch_document(result: PatchResult) -> dict[str, Any]:
    """Return it for ``--json``."""
    about = {"patch": result.path, "killed": bool(result.judgement.killed_by), "reached_by": result.reached}
    return about | asdict(result.judgement)


# Code that no run executes


def print_unreached_code(console: Console, found: Iterable[Unreached]) -> None:
    """List the lines by file, and how many there are of how many."""
    modules = list(found)
    for module in modules:
        if module.lines:
            named = ", ".join(line_ranges(module.lines))
            share = f"{len(module.lines)} of {counted(module.of, 'line')}"
            print_text(console, f"{shown_path(module.module.file)}: {share}: {named}")
    left, of = sum(len(module.lines) for module in modules), sum(module.of for module in modules)
    print_text(
        console, f"No run executes {left:,} of {counted(of, 'line')} in {counted(len(modules), 'module')}."
    )


def unreached_document(found: Iterable[Unreached]) -> list[dict[str, Any]]:
    """Return it for ``--json``."""
    return [
        {**asdict(unreached), "module": unreached.module.name, "file": shown_path(unreached.module.file)}
        for unreached in found
    ]
