"""What two sinks of one program do to a table that both write: each is run behind the other, with a single row.

Rules of this file:

* A batch of one row that removes several rows of the other query, or that is not written because of the other, loses rows on
  every run: that is violated.
* If the one row gives something else behind the other query than before it, only the author knows whether both have rows of one
  key: that is asked.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.spark_jobs.causes import Cause
from headrace_properties.spark_jobs.job_findings import place_at
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.sinks.sink_runs import Trial
from headrace_sim.spark.sinks.trial import undisturbed_run

Turn = tuple[int, int, int]
"""Which of two queries writes, which of its batches, and the id of that."""
_OTHER_ID = 1_009
"""Choice: an id that no batch of the other query has."""
_MOST_ROWS = 6
"""Choice: how many rows are tried, one at a time, until one of them is written."""


@dataclass(frozen=True, slots=True)
class _Sinks:
    """Two sinks, whose batches are written one after another by one driver."""

    calls: tuple[Any, Any]  # the function, the batches and the schema of each
    prepare: Any

    def run(self, turns: Collection[Turn]) -> Trial:
        """Write these batches, in order."""

        def write(frame: Any, _batch_id: int) -> None:
            ((query, batch, batch_id),) = frame.collect()
            function, batches, schema = self.calls[query]
            parsed = parse_schema(schema) if isinstance(schema, str) else schema
            rows = frame.sparkSession.createDataFrame(list(batches[batch]), parsed)
            function(rows, batch_id)

        return undisturbed_run(
            write, [[turn] for turn in turns], "query INT, batch INT, id INT", self.prepare
        )


def shared_tables(targets: Mapping[str, SparkTarget], allow: Collection[Cause]) -> Iterator[Finding]:
    """Yield what the sinks of a program do to each other in the tables that two of them write.

    Args:
        targets: The queries, by label.
        allow: What is meant.

    """
    sinks = {label: target for label, target in targets.items() if target.job.sink.function is not None}
    if len(sinks) == 1:
        return
    alone = {label: left for label, target in sinks.items() if (left := _left_alone(target))}
    asked = set[frozenset[str]]()
    for first, second in permutations(alone, 2):
        if not alone[first].keys() & alone[second].keys():
            continue
        try:
            found = [*_behind(first, second, sinks, alone[first], asked=Cause.ORDER not in allow)]
        except HeadraceError:
            continue  # the trials of that query tell it
        for finding in found:
            pair = frozenset({first, second})
            if finding.finding_class is FindingClass.VIOLATED or pair not in asked:
                asked.add(pair)
                yield finding


def not_judged(left: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield which tables two queries write, where only the real Spark can run them, one at a time.

    ``left``: the destinations that each leaves by itself, by label.
    """
    for (first, ours), (second, theirs) in combinations(left.items(), 2):
        for name in sorted({*ours} & {*theirs}):
            told = "what they do to each other's rows was not judged, because only the real Spark can read the program"
            yield f"{first} and {second} both write {name}: {told}"


def _left_alone(target: SparkTarget) -> dict[str, Counter[Any]]:
    """Return what a sink leaves by itself; nothing if it cannot be run, which its own trials tell."""
    try:
        return _contents(undisturbed_run(*target.sink_call(), target.prepare_call()))
    except HeadraceError:
        return {}


def _behind(
    first: str,
    second: str,
    sinks: Mapping[str, SparkTarget],
    alone: Mapping[str, Counter[Any]],
    *,
    asked: bool,
) -> Iterator[Finding]:
    """Write all of the first query, and then one row of the second. ``alone``: what the first leaves by itself."""
    one, other = (sinks[label].sink_call() for label in (first, second))
    rows = [row for rows in other[1] for row in rows][:_MOST_ROWS]
    pair = _Sinks((one, (other[0], [[row] for row in rows], other[2])), sinks[first].prepare_call())
    all_of_first = [(0, batch, batch) for batch in range(len(one[1]))]
    place, both = sinks[second].job.sink.place, f"the queries {first} and {second}"
    for number in range(len(rows)):
        turn, with_other_id = (1, number, 0), (1, number, _OTHER_ID)
        row = _contents(pair.run([turn]))
        shared = [name for name in alone if row.get(name) and alone[name]]
        if not shared:
            continue  # it writes nothing
        orders = ([*all_of_first, turn], [turn, *all_of_first], [*all_of_first, with_other_id])
        behind, before, other_id = (_contents(pair.run(turns)) for turns in orders)
        skipped = all(
            _count(other_id, name) > _count(behind, name) for name in row
        )  # not only in a log of batches
        for name in shared:
            lost = _count(alone, name) + _count(row, name) - _count(behind, name)
            told = f"{both} write {name}: "
            if skipped:
                told += f"{second} writes nothing once the other has written its batch of this id"
                yield _finding(
                    "missing", told, place, "Let what marks a batch as written name the query, too"
                )
            elif lost > _count(row, name):
                told += f"with one row, {second} removes {lost} rows that {first} wrote"
                yield _finding("missing", told, place, "Give each a table of its own, or a part of it")
            elif asked and lost > 0 and behind.get(name) != before.get(name):
                told += (
                    "each replaces the other's rows of one key, and which is left depends on which comes last"
                )
                question = "Can they have rows of one key? If not, or if either may win: --allow order"
                yield _finding("order", told, place, question, FindingClass.UNDECLARED)
        return


def _finding(
    name: str, message: str, place: str, remedy: str, kind: FindingClass = FindingClass.VIOLATED
) -> Finding:
    return Finding(Kind(Family.SINK, name, kind), message, place_at(place), remedy)


def _count(contents: Mapping[str, Counter[Any]], name: str) -> int:
    return contents.get(name, Counter()).total()


def _contents(trial: Trial) -> dict[str, Counter[Any]]:
    return {name: Counter(items) for name, items in trial.contents.items() if items}
