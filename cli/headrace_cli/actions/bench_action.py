"""The work of ``headrace paper bench``."""

import os
import signal
import time
from typing import Any

from rich.console import Console
from rich.text import Text

from headrace_benchmarks.benchmark_catalogue import BENCHMARKS
from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, machine, versions
from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.documents import show, stdout_reserved
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.render import plain_table, print_heading, print_table, print_text
from headrace_cli.terminal.signals import signal_of
from headrace_cli.terminal.usage_errors import UnknownChoiceError


def run_benchmark(
    name: str, seed: int, jobs: int | None, runs: int | None, *, quick: bool, as_json: bool
) -> int:
    """Run a benchmark, print its figures, and return the exit code."""
    if name not in BENCHMARKS:
        raise UnknownChoiceError("benchmark", name, tuple(BENCHMARKS))
    options = BenchOptions(seed, jobs or os.cpu_count() or 1, runs, quick)
    with stdout_reserved():
        began = time.monotonic()
        figures, stopped_by = _measure(BENCHMARKS[name], options)
        elapsed_s = time.monotonic() - began
    failed = any(figure.failed for figure in figures)
    show(
        lambda: _document(BENCHMARKS[name], options, figures, elapsed_s, failed=failed),
        lambda console: _print(console, BENCHMARKS[name], options, figures, elapsed_s),
        as_json=as_json,
    )
    if stopped_by is not None:
        error_console().print(f"Stopped by {stopped_by.name}: the other figures were not measured.")
        return 128 + stopped_by
    return ExitCode.VIOLATED if failed else ExitCode.HOLDS


def _measure(benchmark: Benchmark, options: BenchOptions) -> tuple[list[Figure], signal.Signals | None]:
    """Measure until all figures are known or a signal arrives, which is returned, too."""
    figures: list[Figure] = []
    with RunProgress("measuring") as progress:
        try:
            figures.extend(benchmark.figures(options, progress.on_part))
        except KeyboardInterrupt as stop:
            return figures, signal_of(stop)
    return figures, None


# Output


def print_catalogue(*, as_json: bool) -> None:
    """Print the benchmarks."""
    rows = [(benchmark.name, benchmark.title) for benchmark in BENCHMARKS.values()]
    show(
        lambda: [dict(zip(("name", "title"), row, strict=True)) for row in rows],
        lambda console: print_table(console, plain_table("name", "what it measures", rows=rows)),
        as_json=as_json,
    )


def _print(
    console: Console, benchmark: Benchmark, options: BenchOptions, figures: list[Figure], elapsed_s: float
) -> None:
    print_text(console, f"{benchmark.name}: {benchmark.title}", style="bold")
    quick = ", quick: a fraction of everything" if options.quick else ""
    print_text(console, f"seed {options.seed}, {options.jobs} processes, {elapsed_s:.0f} s{quick}")
    print_text(console, ", ".join(f"{name} {version}" for name, version in versions().items()))
    print_text(console, ", ".join(f"{name} {value}" for name, value in machine().items()))
    console.print()
    rows = [(figure.name, _value(figure), figure.anchor, _judged(figure)) for figure in figures]
    print_table(console, plain_table("figure", "measured", "goal", "", rows=rows))
    print_heading(console, "More")
    for figure in figures:
        if figure.detail:
            print_text(console, f"{figure.name}: {figure.detail}", indent=2)


def _value(figure: Figure) -> str:
    number = f"{figure.value:,}" if isinstance(figure.value, int) else f"{figure.value:,.2f}"
    return f"{number} {figure.unit}".strip()


def _judged(figure: Figure) -> Text:
    if figure.met is None:
        return Text()
    if figure.met:
        return Text("reached", style="green")
    return Text("MISSED", style="bold red") if figure.binding else Text("not reached", style="yellow")


def _document(
    benchmark: Benchmark, options: BenchOptions, figures: list[Figure], elapsed_s: float, *, failed: bool
) -> dict[str, Any]:
    return {
        "benchmark": benchmark.name,
        "title": benchmark.title,
        "result": "missed" if failed else "reached",
        "options": options,
        "versions": versions(),
        "machine": machine(),
        "elapsed_s": round(elapsed_s, 3),
        "figures": figures,
    }
