"""Promises about a Spark job: its author's claims about rows and state, checked after each batch and at the end of each run.

The decorators are those of `headrace_properties.promises`: ``always``, ``never``, ``sometimes`` and ``at_end``, and the
ready-made promises about tables. The function gets a `JobMoment`.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from headrace_properties.promises import Promise, PromiseError
from headrace_properties.promises.asking import Answer, ask, changes, reason_of
from headrace_properties.promises.call_watch import CallWatch
from headrace_properties.promises.moment import GIVEN, INPUT, OUTPUT
from headrace_properties.promises.promise import PromiseKind
from headrace_properties.promises.promise_errors import NotInPipelineError, Unexercised
from headrace_properties.promises.promise_judge import check_are_promises
from headrace_properties.promises.reach import Reach
from headrace_properties.spark_jobs.written_tables import written_tables
from headrace_sim.spark.columns.values import InputRows
from headrace_sim.spark.query.streaming_query import OffsetLogEntry, Outcome
from headrace_sim.spark.spark_job import SparkJob

_ASKED = frozenset({PromiseKind.ALWAYS, PromiseKind.NEVER, PromiseKind.SOMETIMES, PromiseKind.AT_END})


@dataclass(frozen=True, slots=True)
class SinkEffect:
    """What a sink did, in order: ``INSERT INTO orders``, ``commit``, ``POST``, ``rename``."""

    action: str
    target: str  # to what
    batch: int  # in which batch
    pending: bool  # whether it is part of a transaction that is not committed then
    content: Any  # of a request, its body


class UnseenRows(tuple[Any, ...]):
    """Rows that only the query's own source knows: a promise that looks at them is not tested."""

    __slots__ = ()

    def __bool__(self) -> bool:
        """Return False: there is none to look at."""
        return False

    def _refuse(self, *_given: object) -> Any:
        raise Unexercised("it reads the rows of the input, which --source keep leaves to the source")

    __iter__ = __len__ = __getitem__ = __contains__ = _refuse


@dataclass(frozen=True, slots=True)
class JobMoment:
    """What a promise about a job sees: a run up to a committed batch, or what its sink has left."""

    rows: tuple[Any, ...]  # the input up to here, as ``Row`` values
    outputs: tuple[Any, ...]  # the output up to here, as ``Row`` values, in order of batches
    # the contents of each key, by the variable's name and the key, a tuple: a row, a list of rows, or rows by key
    state: Mapping[tuple[str, tuple[Any, ...]], Any]
    late: int  # the number of rows dropped as late
    # the rows of each table of its sink, as ``Row`` values; None: the sink is not called
    tables: Mapping[str, tuple[Any, ...]] | None = None
    effects: tuple[SinkEffect, ...] = ()  # what the sink has done so far, in order

    def table(self, name: str = "") -> list[Any]:
        """Return the rows of a table: ``input``, ``output``, a stream of the input, or what the sink leaves.

        ``name``: the table's; the last part of it; or a pattern of names. "": the only one.

        Raises:
            NotInPipelineError: There is no such table, or the sink is not called.

        """
        if name in {INPUT, OUTPUT, GIVEN} or (self.tables is None and not name):
            return list(self.rows if name == INPUT else self.outputs)
        if self.rows and name in getattr(self.rows[0], "__fields__", ()):
            return [row[name] for row in self.rows if row[name] is not None]
        if self.tables is None:
            problem = f"it reads the table {name!r}, and the query's schedules have none. Decorate it with table={name!r}"
            raise NotInPipelineError(problem)
        tables = [rows for known, rows in self.tables.items() if _is_called(known, name)]
        if not tables or (not name and len(tables) > 1):
            known = ", ".join(map(repr, self.tables)) or "nothing"
            raise NotInPipelineError(f"it reads the table {name!r}, and the sink leaves: {known}")
        return [row for rows in tables for row in rows]


def _is_called(known: str, name: str) -> bool:
    """Return whether a table is called so, or in short, or fits a pattern."""
    tails = [known.rpartition(separator)[2] for separator in (": ", "/", ".")]
    return not name or name in {known, *tails} or fnmatchcase(known, name)


def check_promises_of_job(promises: object) -> tuple[Promise, ...]:
    """Return promises that can be asked of a job.

    Raise `PromiseError` if one cannot, is no promise, or has the name of another.
    """
    checked = check_are_promises(promises)
    for promise in checked:
        if promise.kind not in _ASKED:
            problem = f"is of kind {promise.kind.value}, which a job has not. Use always, never, sometimes or at_end"
            raise PromiseError(promise.name, "declaration", promise.where, problem)
        if promise.of or promise.streams or promise.uses:
            problem = "names a computation or a stream, which a job has not. Leave of and stream out"
            raise PromiseError(promise.name, "declaration", promise.where, problem)
    return checked


class QueryJudge:
    """Asks promises during a run of a job.

    Args:
        promises: Which.
        job: Whose rows they look at.

    Attributes:
        broken: Why each broken promise is, by its name: only the first time counts.
        tested: Promises that could tell; of kind ``sometimes``: that came true.
        untested: Why the others could not.

    """

    def __init__(self, promises: Sequence[Promise], job: SparkJob) -> None:
        self._promises = promises
        self._job = job
        self._asker = JobAsker(promises)
        self.broken, self.tested, self.untested = (
            self._asker.broken,
            self._asker.tested,
            self._asker.untested,
        )
        self._error: PromiseError | None = None

    def after_batch(self, batch: OffsetLogEntry, outcome: Outcome) -> None:
        """Check what must hold after each batch."""
        asked = [promise for promise in self._promises if promise.kind is not PromiseKind.AT_END]
        self._ask(asked, outcome, f"after batch {batch.number}")

    def at_end(self, outcome: Outcome) -> "QueryJudge":
        """Check what must hold at the end of the run. Raise `PromiseError` if a promise is wrong in itself."""
        if outcome.failure is None:
            asked = [promise for promise in self._promises if promise.kind is PromiseKind.AT_END]
            self._ask(asked, outcome, "at the end")
        if self._error is not None:
            raise self._error
        return self

    def _ask(self, promises: Sequence[Promise], outcome: Outcome, when: str) -> None:
        if not promises or self._error is not None:
            return
        try:
            self._asker.ask(promises, moment_of_query(self._job, outcome), when)
        except PromiseError as error:
            self._error = error  # it is raised at the end: here it would look like an error of the job


def moment_of_query(job: SparkJob, outcome: Outcome) -> JobMoment:
    """Return what a promise sees of a run of a query."""
    rows = [row for batch in outcome.batches for row in batch.rows]
    outputs = [row for _, inputs in sorted(outcome.outputs.items()) for row in inputs]
    state = {name_and_key: held for part in outcome.state.values() for name_and_key, held in part.items()}
    inputs, results = InputRows(job.input).rows(rows), InputRows(job.output).rows(outputs)
    return JobMoment(tuple(inputs), tuple(results), state, outcome.late, written_tables(job, outcome))


def asked_of_runs(
    promises: Sequence[Promise], tested: Collection[str], untested: Mapping[str, str]
) -> dict[str, str]:
    """Return why no run has tested a promise, by its name; "": one has."""
    return {
        promise.name: "" if promise.name in tested else untested.get(promise.name, "never came true")
        for promise in promises
    }


class JobAsker:
    """Asks promises at moments of one or several runs.

    Attributes:
        broken: Why each broken promise is, by its name: only the first time counts.
        tested: Promises that could tell; of kind ``sometimes``: that came true.
        untested: Why the others could not.

    """

    def __init__(self, promises: Sequence[Promise]) -> None:
        self.broken: dict[str, str] = {}
        self.tested: set[str] = set()
        self.untested: dict[str, str] = {}
        self._watch = CallWatch()
        self._reach = {promise.name: Reach(promise) for promise in promises}

    def ask(self, promises: Sequence[Promise], moment: JobMoment, when: str) -> None:
        """Ask some of the promises, unless they are broken. Raise `PromiseError` if one is wrong in itself."""
        shown = repr(moment)
        for promise in promises:
            came_true = promise.kind is PromiseKind.SOMETIMES and promise.name in self.tested
            if came_true or promise.name in self.broken:
                continue
            reach = self._reach[promise.name]
            with self._watch.watching(), nullcontext() if reach.tested else reach.watching():
                answer = ask(promise, promise.check, moment, self._watch)
            if repr(moment) != shown:
                raise changes(promise, "the rows, the output or the state")
            self._take(promise, answer, when)

    def _take(self, promise: Promise, answer: Answer, when: str) -> None:
        if answer.unexercised:
            self.untested[promise.name] = f"was not tested: {answer.unexercised}"
        elif promise.kind is PromiseKind.SOMETIMES:
            self.tested |= {promise.name} if answer.value else set()
        else:
            reach = self._reach[promise.name]
            if reach.tested:
                self.tested.add(promise.name)
            else:
                self.untested[promise.name] = f"was not tested: {reach.untold}"
            if answer.objection is not None or answer.value is (promise.kind is PromiseKind.NEVER):
                self.broken[promise.name] = f"{when}: {reason_of(promise, answer.objection)}"
