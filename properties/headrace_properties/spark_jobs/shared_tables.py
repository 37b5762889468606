"""What two sinks of one program do to a table that both write: each is run behind the other, with a single row.

Rules of this file:

* A batch of one row that removes several rows of the other query, or that is not written because of the other, loses rows on
  every run: that is violated.
* If the one row gives something else behind the other query than before it, only the author knows whether both have rows of one
  key: that is asked.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.findings import Finding, FindingClass
from headrace_properties.sinks.trial import undisturbed_run
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import finding_of_pair
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.laboratory.looks import called_in_laboratory
from headrace_sim.spark.laboratory.real_drivers import in_turn
from headrace_sim.spark.sinks.trial_contents import Raw

_MOST_ROWS = 6
"""Choice: how many rows are tried, one at a time, until one of them is written."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """What one of the two queries writes."""

    query: int
    batches: Sequence[Sequence[Any]]
    first_id: int = 0


_Contents = Mapping[str, Counter[Any]]


@dataclass(frozen=True, slots=True)
class _Sinks:
    """Two sinks, whose batches are written one after another by one driver; on the real Spark, by one driver each."""

    targets: tuple[SparkTarget, SparkTarget]

    @property
    def is_simulated(self) -> bool:
        return self.targets[0].job.sink.function is not called_in_laboratory

    def batches(self, query: int) -> Sequence[Sequence[Any]]:
        """Return what a query writes by itself."""
        target = self.targets[query]
        return target.sink_call()[1] if self.is_simulated else target.feed

    def run(self, *turns: _Turn) -> _Contents:
        """Return what is left when these have been written, in order."""
        left = (
            self._simulated(turns) if self.is_simulated else in_turn([self._on_spark(turn) for turn in turns])
        )
        return {name: Counter(items) for name, items in left.items() if items}

    def _simulated(self, turns: Sequence[_Turn]) -> Raw:
        calls = [target.sink_call() for target in self.targets]

        def write(frame: Any, _batch_id: int) -> None:
            ((number, batch),) = frame.collect()
            turn = turns[number]
            function, _, schema = calls[turn.query]
            parsed = parse_schema(schema) if isinstance(schema, str) else schema
            rows = frame.sparkSession.createDataFrame(list(turn.batches[batch]), parsed)
            function(rows, turn.first_id + batch)

        written = [
            [(number, batch)] for number, turn in enumerate(turns) for batch in range(len(turn.batches))
        ]
        prepare = self.targets[0].prepare_call()
        return undisturbed_run(write, written, "turn INT, batch INT", prepare).contents

    def _on_spark(self, turn: _Turn) -> Any:
        target = self.targets[turn.query]
        assert target.laboratory is not None, "only the real Spark can read it"
        return replace(target.laboratory.sink(target.job, turn.batches, target.keys), first_id=turn.first_id)


def shared_tables(
    targets: Mapping[str, SparkTarget], allow: Collection[Cause], left: Mapping[str, _Contents]
) -> tuple[list[Finding], list[str]]:
    """Return what the sinks of a program do to each other in the tables that two of them write, and what was not judged.

    Args:
        targets: The queries, by label.
        allow: What is meant.
        left: What each leaves by itself whose function only the real Spark can call, by label.

    """
    sinks = {label: target for label, target in targets.items() if target.job.sink.function is not None}
    findings, untold = list[Finding](), list[str]()
    if len(sinks) == 1:
        return findings, untold
    alone = {
        label: contents
        for label, target in sinks.items()
        if (contents := left.get(label) or _left_alone(target))
    }
    asked = set[frozenset[str]]()
    for first, second in permutations(alone, 2):
        shared = sorted(name for name in alone[first].keys() & alone[second].keys() if alone[first][name])
        pair = _Sinks((sinks[first], sinks[second]))
        if not shared:
            continue
        try:
            shown = _behind(first, second, pair, alone[first], asked=Cause.ORDER not in allow)
        except HeadraceError:
            continue  # the trials of that query tell it
        if shown is None and not pair.is_simulated:
            why = f"what a row of {second} does there was not judged, because no single row of it is written"
            untold.append(f"{first} and {second} both write {', '.join(shared)}: {why}")
        for finding in shown or ():
            both = frozenset({first, second})
            if finding.finding_class is FindingClass.VIOLATED or both not in asked:
                asked.add(both)
                findings.append(finding)
    return findings, untold


def _left_alone(target: SparkTarget) -> _Contents:
    """Return what a sink leaves by itself; nothing if it cannot be run, which its own trials tell."""
    if target.job.sink.function is called_in_laboratory:
        return {}
    try:
        contents = undisturbed_run(*target.sink_call(), target.prepare_call()).contents
    except HeadraceError:
        return {}
    return {name: Counter(items) for name, items in contents.items() if items}


def _behind(first: str, second: str, pair: _Sinks, alone: _Contents, *, asked: bool) -> list[Finding] | None:
    """Write all of the first query, and then one row of the second; None: no single row of that is written.

    ``alone``: what the first leaves by itself.
    """
    all_of_first = _Turn(0, pair.batches(0))
    place, both = pair.targets[1].job.sink.place, f"the queries {first} and {second}"
    for one in [row for rows in pair.batches(1) for row in rows][:_MOST_ROWS]:
        turn = _Turn(1, [[one]])
        row = pair.run(turn)
        shared = [name for name in alone if row.get(name) and alone[name]]
        if not shared:
            continue  # it writes nothing
        behind, before = pair.run(all_of_first, turn), pair.run(turn, all_of_first)
        other_id = pair.run(all_of_first, replace(turn, first_id=len(all_of_first.batches)))
        # Not only in a log of batches; a row may also replace one of the first query's.
        skipped = all(
            _count(other_id, name) > _count(behind, name)
            or behind.get(name) == alone.get(name) != other_id.get(name)
            for name in row
        )
        findings = []
        for name in shared:
            lost = _count(alone, name) + _count(row, name) - _count(behind, name)
            message = f"{both} write {name}: "
            if skipped:
                message += f"{second} writes nothing once the other has written its batch of this id"
                remedy = "Let what marks a batch as written name the query, too"
                findings.append(finding_of_pair("missing", message, place, remedy))
            elif lost > _count(row, name):
                message += f"with one row, {second} removes {lost} rows that {first} wrote"
                findings.append(
                    finding_of_pair(
                        "missing", message, place, "Give each a table of its own, or a part of it"
                    )
                )
            elif asked and lost > 0 and behind.get(name) != before.get(name):
                message += (
                    "each replaces the other's rows of one key, and which is left depends on which comes last"
                )
                question = "Can they have rows of one key? If not, or if either may win: --allow order"
                findings.append(finding_of_pair("order", message, place, question, FindingClass.UNDECLARED))
        return findings
    return None


def _count(contents: _Contents, name: str) -> int:
    return contents.get(name, Counter()).total()
