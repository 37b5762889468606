"""What ``--search exhaustive`` reports of its scope and its progress, for people and as JSON."""

from typing import Any

from headrace import Pipeline
from headrace_cli.terminal.documents import fields_of
from headrace_cli.terminal.render import counted
from headrace_properties.search.scope import Exploration


def result_words(exploration: Exploration) -> str:
    """Describe the runs in which everything holds."""
    runs = counted(exploration.total, "schedule")
    if exploration.exhausted and exploration.lineage:
        return (
            f"and no set of at most {counted(exploration.scope.faults, 'fault')} breaks this outcome: {runs}"
        )
    if exploration.exhausted:
        return f"in every schedule of the scope: {runs}"
    return f"in {runs}, but the scope is not exhausted"


def scope_lines(exploration: Exploration, pipeline: Pipeline, records: int) -> list[str]:
    """Write the scope and the search's progress, one line each.

    Args:
        exploration: of the search.
        pipeline: what was searched.
        records: how many records the input has.
    """
    scope = exploration.scope
    kinds = f" ({', '.join(scope.kinds)})" if scope.faults else ""
    sizes = [
        counted(min(scope.records, records), "record"), counted(len(pipeline.computations), "computation"),
        counted(scope.options.workers, "worker"),
    ]  # fmt: skip
    limits = f"at most {counted(scope.faults, 'fault')}{kinds} and {counted(scope.delays, 'delay')} in a run"
    lines = [f"Scope: {', '.join(sizes)}; {limits}", _how_far(exploration)]
    if exploration.singles:
        singles = exploration.singles
        lines.append(
            f"Of the run without faults: {counted(singles, 'single fault')} of these kinds at all its steps, and"
            f" {singles * (singles - 1) // 2:,} pairs"
        )
    return lines


def _how_far(exploration: Exploration) -> str:
    runs = f"{counted(exploration.total, 'schedule')} run"
    because = (
        "because they leave a support of the outcome alone"
        if exploration.lineage
        else "as equivalent to one of them"
    )
    pruned = f"; {exploration.pruned:,} more left out {because}" if exploration.pruned else ""
    if exploration.exhausted:
        return f"Exhausted: {runs}{pruned}"
    proved = (
        f"all with fewer than {counted(exploration.rounds, 'departure')} were run"
        if exploration.rounds
        else "none was finished"
    )
    why = _WHY.get(exploration.stopped_for, "")
    if exploration.stopped_for == "failure":
        return f"Not exhausted{why}: {runs}{pruned}; {proved}, so no counterexample has fewer"
    here = f"{exploration.done:,} of about {exploration.expected:,} with {exploration.rounds}"
    return f"Not exhausted{why}: {runs}{pruned}; {proved}, and {here}"


_WHY = {"examples": " (--examples)", "minutes": " (--minutes)", "failure": ", for it found a failure"}


def scope_document(exploration: Exploration | None) -> dict[str, Any] | None:
    """Return it for ``--json``."""
    if exploration is None:
        return None
    scope = exploration.scope
    return {
        **fields_of(scope, "records", "faults", "delays"),
        "workers": scope.options.workers,
        "fault_kinds": scope.kinds,
        **fields_of(exploration, "exhausted", "stopped_for", "lineage"),
        "schedules": exploration.total,
        "left_out": exploration.pruned,
        "single_faults": exploration.singles,
        "all_with_fewer_departures_than": exploration.rounds,
        "runs": [
            {"faults": faults, "delays": delays, "schedules": runs}
            for (faults, delays), runs in sorted(exploration.runs.items())
        ],
    }
