"""Studies of the search: each takes minutes to hours, and the pages of docs say what came of it.

``python -m headrace_benchmarks.studies NAME`` makes one and prints a line of JSON for each row; ``--store`` keeps the rows in
docs/report/studies.json, from which ``python -m docs.scripts.tables`` makes the pages' tables. Behind the name one can choose
from what it compares. The exit code is 1 if a row has an alarm.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace_benchmarks import exhaustive, search_engines, single_faults, sooner
from headrace_benchmarks.figures import BenchOptions
from headrace_properties.proof.mutants import CATALOGUE
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.parallel import cores

STORED = Path(__file__).parents[2] / "docs" / "report" / "studies.json"


@dataclass(frozen=True, slots=True)
class Study:
    """A study.

    Attributes:
        title: what it measures, in one line.
        rows: makes it, row by row.
        choices: what can be chosen from; empty: nothing.
    """

    title: str
    rows: Callable[[argparse.Namespace], Iterator[dict[str, str]]]
    choices: Collection[str] = ()


def _pools(arguments: argparse.Namespace) -> Iterator[dict[str, str]]:
    from headrace_benchmarks.spark_pools import rates  # noqa: PLC0415  imports PySpark

    return rates(arguments.runs)


def _faults(arguments: argparse.Namespace, pairs: int = 0) -> Iterator[dict[str, str]]:
    return single_faults.rows(
        arguments.chosen or WORKLOADS, arguments.first, pairs, arguments.seed, arguments.jobs
    )


STUDIES = {
    "scopes": Study("how large a scope can be exhausted", lambda _: exhaustive.scopes()),
    "zeitgeist": Study("the same of the smallest Zeitgeist", lambda _: exhaustive.sweep_zeitgeist()),
    "matching": Study("what matching of states could leave out", lambda _: exhaustive.matching()),
    "figure-12": Study("the shortest counterexample without sequencers", lambda _: exhaustive.figure_12()),
    "mutants": Study(
        "how small a scope finds a broken protocol", lambda given: exhaustive.mutants(given.chosen), CATALOGUE
    ),
    "pools": Study("how many runs a second a search makes, by who shares them", _pools),
    "places": Study("where plans strike, by how they are drawn", lambda _: search_engines.places()),
    "engines": Study(
        "which search finds broken protocols soonest",
        lambda arguments: search_engines.engines(arguments.chosen),
        search_engines.ENGINES,
    ),
    "sooner": Study(
        "CPU time until a search finds what is wrong",
        lambda given: sooner.rows(BenchOptions(given.seed, given.jobs, given.runs), given.chosen),
        sooner.KINDS,
    ),
    "single-faults": Study("every single fault at every step of each workload", _faults, WORKLOADS),
    "pairs": Study(
        "as many pairs of faults as --runs says", lambda given: _faults(given, given.runs), WORKLOADS
    ),
}
"""All of them by name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a study, print its rows, keep them if asked, and return the exit code."""
    titles = "\n".join(f"  {name:<14}{study.title}" for name, study in STUDIES.items())
    parser = argparse.ArgumentParser(
        "python -m headrace_benchmarks.studies",
        description=f"Studies:\n{titles}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=STUDIES, metavar="NAME")
    parser.add_argument("chosen", nargs="*", metavar="CHOICE", help="only these of what it compares")
    parser.add_argument(
        "--runs",
        type=int,
        default=2_000,
        help="runs of a pool, pairs of a workload, mistakes of a kind; default: 2000",
    )
    parser.add_argument("--first", type=int, default=1, help="steps of each kind to strike, besides the last")
    parser.add_argument("--seed", type=int, default=0, help="seed of the input and of the choice of pairs")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel processes")
    parser.add_argument(
        "--store", action="store_true", help=f"put the rows in place of those in {STORED.name}"
    )
    args = parser.parse_args(arguments)
    study = STUDIES[args.name]
    unknown = [name for name in args.chosen if name not in study.choices]
    if unknown:
        parser.error(f"unknown choice {unknown[0]!r}; choose from {', '.join(study.choices) or 'nothing'}")
    load = os.getloadavg()[0]  # others at work on this machine make all of it slower
    rows = []
    for row in study.rows(args):
        print(json.dumps(row, ensure_ascii=False), flush=True)
        rows.append(row)
    if args.store:
        words = " ".join(arguments or sys.argv[1:]).replace(" --store", "")
        here = f"Python {platform.python_version()}, {cores()} cores, load {load:.1f} before"
        stored = json.loads(STORED.read_text(encoding="utf-8"))
        stored[args.name] = {
            "measured": f"`python -m headrace_benchmarks.studies {words}` ({here})",
            "rows": rows,
        }
        STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(any(row.get("alarms", "0") != "0" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
