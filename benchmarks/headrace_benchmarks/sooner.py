"""``headrace paper bench sooner``: CPU time until a search finds what is wrong, by kind of mistake and by search.

Rules of this file:

* What is not found within `timed_hunts.BUDGET_S` counts as found at that time. So it does in medians, and in no share.
* Which mistakes are hunted follows from the options alone: all broken protocols but those that need a directed scenario,
  random mutants of the seed, and every bug that a clone has planted; or of each kind as many as `BenchOptions.runs`.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median, quantiles
from types import MappingProxyType

from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, OnProgress, at_least, at_most
from headrace_benchmarks.timed_hunts import (
    BUDGET_S,
    ENDLESS,
    FIRST,
    PLANTED_JOBS,
    README,
    ROOT,
    SEARCHES,
    HowToHunt,
    Hunt,
    HuntResult,
    Mistake,
    draw_apart,
    hunt_apart,
    hunt_code,
    hunt_job,
    hunt_protocol,
    jobs_apart,
    readme_source,
)
from headrace_properties.proof.mutants import CATALOGUE
from headrace_properties.search.parallel import spread

WITHIN_S = (2, 5, 20)
"""Shares are told of what is found within these, seconds of CPU time."""
GOAL = 3
"""The new search is to take at most this part of the plain one's time."""

EXAMPLES = (
    "headrace_scenarios.examples.bank",
    "headrace_scenarios.examples.orders",
    "headrace_scenarios.examples.windowed_join",
    "headrace_scenarios.zeitgeist",
)
"""Modules with a ``pipeline``, its ``feed`` and ``promises``, in whose code mistakes are drawn."""
MUTANTS, README_MUTANTS = 100, 40
HOLDS_S = 6.0
"""CPU time in which README's pipeline is to hold, seconds."""
QUICK_EACH = 4

PROTOCOLS, CODE, PLANTED, JOBS = "broken protocols", "random mutants", "planted bugs", "planted Spark jobs"
README_PROTOCOLS, README_CODE = (f"{kind}, README's pipeline" for kind in (PROTOCOLS, CODE))


def measure(options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    """Hunt every mistake by each search, and yield the figures of a kind once all of it is hunted."""
    for kind, by_search in _by_kind(options, on_progress):
        for search, times in by_search.items():
            yield from _figures(kind, search, times, None if search == FIRST else by_search[FIRST])
        if not by_search:
            yield Figure(kind, 0, detail=f"not measured: {KINDS[kind].needs}")
    for search, cpu_s in _sound(options).items():
        yield at_most(f"README's pipeline holds, {search}", cpu_s, HOLDS_S, "s of CPU time")


BENCHMARK = Benchmark("sooner", "CPU time until a search finds what is wrong, by kind of mistake", measure)


COLUMNS = (
    "mistakes", "search", "hunted", *(f"within {most_s} s" for most_s in WITHIN_S), "median", "90th percentile",
    f"median, {FIRST} = 1",
)  # fmt: skip


def rows(options: BenchOptions, kinds: Collection[str] = ()) -> Iterator[dict[str, str]]:
    """Return the same as a table: a row for each kind of mistake and search. ``kinds``: only these."""
    for kind, by_search in _by_kind(options, lambda *_: None, kinds):
        for search, times in by_search.items():
            cells = (
                kind, search, f"{len(times.hunted):,}", *(f"{times.within(most_s):,}" for most_s in WITHIN_S),
                f"{times.median_s:.2f} s", f"{times.percentile_s:.2f} s",
                f"{times.median_s / by_search[FIRST].median_s:.2f}",
            )  # fmt: skip
            yield dict(zip(COLUMNS, cells, strict=True))
    sound = _sound(options)
    for search, cpu_s in sound.items():
        name, ratio = "none: README's pipeline holds", f"{cpu_s / sound[FIRST]:.2f}"
        cells = (name, search, "", *("" for _ in WITHIN_S), f"{cpu_s:.2f} s", "", ratio)
        yield dict(zip(COLUMNS, cells, strict=True))


@dataclass(frozen=True, slots=True)
class HuntTimes:
    """What hunts of one kind by one search came to. ``hunted``: their results."""

    hunted: Sequence[HuntResult]

    def within(self, most_s: float) -> int:
        """Return how many were found within some CPU time."""
        return sum(result.cpu_s is not None and result.cpu_s <= most_s for result in self.hunted)

    @property
    def median_s(self) -> float:
        """Median, seconds."""
        return median(result.counted_s for result in self.hunted)

    @property
    def percentile_s(self) -> float:
        """The 90th percentile, seconds."""
        times = [result.counted_s for result in self.hunted]
        return quantiles(times, n=10, method="inclusive")[-1] if len(times) > 1 else times[0]


def _figures(kind: str, search: str, times: HuntTimes, plain: HuntTimes | None) -> Iterator[Figure]:
    """Yield the figures of a search for one kind. ``plain``: what the first search came to; ``None``: this is it."""
    name, found, unit = f"{kind}, {search}", times.within(BUDGET_S), f"of {len(times.hunted)}"
    shares = ", ".join(f"{times.within(most_s)} within {most_s} s" for most_s in WITHIN_S)
    missed = "; ".join(_told(result.hunt.mistake) for result in times.hunted if result.cpu_s is None)
    detail = f"{shares} of CPU time{f'; not found: {missed}' if missed else ''}"
    if plain is None:
        yield Figure(f"{name}: found", found, unit, detail=detail)
    else:
        goal = plain.within(BUDGET_S)
        yield at_least(f"{name}: found", found, goal, unit, binding=True, detail=detail)
    values = attrgetter("median_s", "percentile_s")
    before = (None, None) if plain is None else values(plain)
    for word, value, plain_s in zip(("median", "90th percentile"), values(times), before, strict=True):
        if plain_s is None:
            yield Figure(f"{name}: {word}", value, "s of CPU time")
        else:
            ratio, goal_s = f"{value / plain_s:.2f} of {FIRST}", round(plain_s / GOAL, 3)
            yield at_most(f"{name}: {word}", value, goal_s, "s of CPU time", detail=ratio)


def _told(mistake: Mistake) -> str:
    return " ".join(filter(None, (mistake.name.rpartition(".")[2], mistake.protocol, mistake.what)))


def _by_kind(
    options: BenchOptions, on_progress: OnProgress, kinds: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, HuntTimes]]]:
    """Hunt, kind by kind; yield what each search came to, and nothing of a kind that is not here.

    Each mistake is hunted by all searches one after the other, on an equally busy machine.
    """
    for kind in kinds or KINDS:
        how, chosen = KINDS[kind], KINDS[kind].mistakes(options)
        chosen = chosen[:: max(1, math.ceil(len(chosen) / _most(options)))]
        hunts = [
            Hunt(mistake, search, options.seed, how.how, how.runs)
            for mistake in chosen
            for search in SEARCHES
        ]
        hunted: list[HuntResult] = []
        for result in spread(hunt_apart, hunts, options.jobs, apart=True) if hunts else ():
            hunted.append(result)
            on_progress(f"hunting {kind}", len(hunted), len(hunts))
        hunted.sort(key=lambda result: hunts.index(result.hunt))
        fit = [result for result in hunted if not result.why]
        yield (
            kind,
            {
                search: HuntTimes([result for result in fit if result.hunt.search == search])
                for search in (SEARCHES if fit else ())
            },
        )


def _sound(options: BenchOptions) -> dict[str, float]:
    """Return the CPU time in which each search lets README's pipeline hold, seconds."""
    hunts = [
        Hunt(Mistake(README), search, options.seed, hunt_code, None) for search in SEARCHES if readme_source()
    ]
    results = list(spread(hunt_apart, hunts, 1, apart=True)) if hunts else []
    return {result.hunt.search: result.spent_s for result in results if result.spent_s is not None}


# What is hunted


def _most(options: BenchOptions) -> int:
    """Return the most mistakes of a kind that are hunted."""
    return QUICK_EACH if options.quick else options.runs or MUTANTS + len(CATALOGUE)


def _protocols(_: BenchOptions) -> Sequence[Mistake]:
    return [Mistake(name) for name in _BY_CHANCE]


def _readme_protocols(_: BenchOptions) -> Sequence[Mistake]:
    names = _BY_CHANCE if readme_source() else ()
    return [Mistake(README, name) for name in names]


_BY_CHANCE = tuple(name for name, mutant in CATALOGUE.items() if mutant.directed is None)


def _random_mutants(options: BenchOptions) -> Sequence[Mistake]:
    return _mutants(EXAMPLES, MUTANTS, options)


def _readme_mutants(options: BenchOptions) -> Sequence[Mistake]:
    return _mutants((README,) if readme_source() else (), README_MUTANTS, options)


def _mutants(modules: Sequence[str], count: int, options: BenchOptions) -> Sequence[Mistake]:
    wanted = min(count, _most(options))
    parts = [
        (name, len(range(place, wanted, len(modules))), options.seed) for place, name in enumerate(modules)
    ]
    drawn = dict(spread(draw_apart, parts, options.jobs, apart=True)) if parts else {}
    return [
        Mistake(
            name, sources={mutant.module.name: mutant.mutation.source},
            what=f"{Path(mutant.module.file).name}:{mutant.mutation.line}: {mutant.change}",
        )
        for name, _, _ in parts
        for mutant in drawn[name]
    ]  # fmt: skip


def _planted(_: BenchOptions) -> Sequence[Mistake]:
    files = sorted((ROOT / "tests" / "planted").glob("*.py"))
    sources = {file.stem: file.read_text(encoding="utf-8") for file in files}
    return [
        Mistake(f"tests.planted.{name}", asked=bool(re.search(r"^ASKED = True", source, re.MULTILINE)))
        for name, source in sources.items()
        if "\nCAUSE = " in source
    ]


def _jobs(_: BenchOptions) -> Sequence[Mistake]:
    (names,) = spread(jobs_apart, [PLANTED_JOBS], 1, apart=True)
    return [Mistake(name) for name in names]


@dataclass(frozen=True, slots=True)
class KindOfMistake:
    """A kind of mistake.

    Attributes:
        mistakes: lists them.
        how: as in `Hunt`; ``runs``, too.
        needs: what they are in.
    """

    mistakes: Callable[[BenchOptions], Sequence[Mistake]]
    how: HowToHunt
    needs: str = "a clone of the repository has them"
    runs: int | None = ENDLESS


KINDS: Mapping[str, KindOfMistake] = MappingProxyType(
    {
        PROTOCOLS: KindOfMistake(_protocols, hunt_protocol),
        CODE: KindOfMistake(_random_mutants, hunt_code),
        PLANTED: KindOfMistake(_planted, hunt_code),
        JOBS: KindOfMistake(_jobs, hunt_job, "they need PySpark, and a clone of the repository"),
        README_PROTOCOLS: KindOfMistake(_readme_protocols, hunt_code, runs=None),
        README_CODE: KindOfMistake(_readme_mutants, hunt_code, runs=None),
    }
)
"""All of them, by name. README's pipeline is hunted as ``headrace verify`` does, which stops after some runs."""
