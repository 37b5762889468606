"""The work of ``headrace compare``."""

import signal
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from headrace_cli.targets.loading import load_target
from headrace_cli.terminal.consoles import output_console
from headrace_cli.terminal.documents import print_document, stdout_reserved
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.render import counted, plain_table, print_heading, print_table, print_text
from headrace_cli.terminal.signals import stop_requested
from headrace_properties.pipeline_target import PipelineTarget
from headrace_properties.search.production_modes import WAYS, Account, Costs
from headrace_properties.search.production_modes import compare as run_each_way


def compare_ways(pipeline: str, feed: str, faults: int, runs: int, seed: int, *, as_json: bool) -> int:
    """Run a pipeline each way, print the comparison, and return the exit code."""
    with stdout_reserved():
        target = load_target(pipeline, feed)
        accounts, stopped_by = _compare(target, runs, faults, seed)
    done = accounts[0].runs
    if as_json:
        print_document(_document(target, accounts, done, faults, seed))
    else:
        if stopped_by is not None:
            words = f"{stopped_by.name} after {counted(done, 'run')} of {runs:,} each way"
            print_text(output_console(), words, style="bold yellow")
        _print(output_console(), target, accounts, done, faults, seed)
    return _code(accounts) if stopped_by is None else 128 + stopped_by


def _compare(
    target: PipelineTarget, runs: int, faults: int, seed: int
) -> tuple[list[Account], signal.Signals | None]:
    """Run each way, until it is done or a signal arrives, which is returned, too."""
    total = runs * len(WAYS)
    with RunProgress(f"{target.name}, {counted(total, 'run')}") as progress, stop_requested() as stop:
        accounts = run_each_way(
            target.pipeline,
            target.feed(seed),
            runs=runs,
            faults=faults,
            seed=seed,
            on_run=lambda done: progress.advance(done / total),
            should_stop=stop,
        )
    return accounts, stop.signal if accounts[0].runs < runs else None


def _code(accounts: Sequence[Account]) -> ExitCode:
    bad = any(account.violated or account.errors for account in accounts)
    return ExitCode.VIOLATED if bad else ExitCode.HOLDS


def _print(
    console: Console, target: PipelineTarget, accounts: Sequence[Account], runs: int, faults: int, seed: int
) -> None:
    print_text(
        console,
        f"{target.name}, seed {seed}: the same {counted(runs, 'run')} each way, {counted(faults, 'fault')} in each",
    )
    print_heading(console, "Output compared with the sequential reference")
    table = _table("lost", "repeated", "changed", "invariants")
    for account in accounts:
        table.add_row(
            account.way.name, *_numbers(account.lost, account.repeated, account.changed), _verdict(account)
        )
    print_table(console, table, indent=2)
    print_heading(console, "Cost of the faults")
    table = _table("executions", "in vain", "twice", "diverged", "resent", "stragglers")
    for account in accounts:
        storm = account.with_faults
        numbers = (storm.executions, storm.in_vain, storm.counted_twice, storm.diverged, storm.resent)
        table.add_row(account.way.name, *_numbers(*numbers, storm.checkpointed))
    print_table(console, table, indent=2)
    print_heading(console, "Cost without faults, in simulated time")
    table = _table("latency: median", "95 %", "writes", "bytes", "kept until ACKed")
    for account in accounts:
        calm = account.without_faults
        table.add_row(
            account.way.name,
            _ms(_median(calm.latencies_us)),
            _ms(_percentile_95(calm.latencies_us)),
            *_numbers(calm.writes, calm.written_bytes),
            _ms(_mean(calm.held_us)),
        )
    print_table(console, table, indent=2)
    print_heading(console, "Columns")
    for line in _LEGEND:
        print_text(console, line, indent=2)
    for account in accounts:
        for error in sorted(set(account.errors)):
            print_text(console, f"{account.way.name}: a run stopped: {error}", style="red", indent=2)


_LEGEND = (
    "executions: runs of user code; in vain: those whose result was never applied",
    "twice: records and timers that were applied more than once",
    "diverged: productions that were made again with the same id but different content (6.1.2)",
    "stragglers: weak productions that were checkpointed (6.1.3)",
    "kept until ACKed: average time for which a sender keeps what it sent",
)


def _table(*columns: str) -> Table:
    """Make a table with a row for each way."""
    table = plain_table("", *columns)
    table.columns[0].no_wrap = True
    return table


def _verdict(account: Account) -> str:
    if account.errors:
        return f"stopped in {counted(len(account.errors), 'run')}"
    if account.violated:
        return ", ".join(f"{name} in {count}" for name, count in sorted(account.violated.items()))
    return "hold"


def _numbers(*numbers: int) -> list[str]:
    return [f"{number:,}" for number in numbers]


def _ms(us: float | None) -> str:
    return "-" if us is None else f"{us / 1000:.1f} ms"


def _median(values: Sequence[int]) -> float | None:
    return statistics.median(values) if values else None


def _mean(values: Sequence[int]) -> float | None:
    return statistics.fmean(values) if values else None


def _percentile_95(values: Sequence[int]) -> float | None:
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else _median(values)


def _document(
    target: PipelineTarget, accounts: Sequence[Account], runs: int, faults: int, seed: int
) -> dict[str, Any]:
    return {
        "pipeline": target.name,
        "feed": target.feed_name,
        "seed": seed,
        "runs": runs,
        "faults": faults,
        "ways": [_way_document(account) for account in accounts],
    }


def _way_document(account: Account) -> dict[str, Any]:
    costs = {
        "with_faults": _costs_document(account.with_faults),
        "without_faults": _costs_document(account.without_faults),
    }
    return {"name": account.way.name} | asdict(account) | costs


def _costs_document(costs: Costs) -> dict[str, Any]:
    """Return all of them, with averages in place of the times of each record."""
    document = asdict(costs)
    del document["latencies_us"], document["held_us"]
    return document | {
        "simulated_latency_median_us": _median(costs.latencies_us),
        "simulated_latency_p95_us": _percentile_95(costs.latencies_us),
        "simulated_held_mean_us": _mean(costs.held_us),
    }
