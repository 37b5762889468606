"""Promises about a Spark job: its author's claims about rows and state, checked after each batch and at the end of each run.

The decorators are those of `headrace_properties.promises`: ``always``, ``never``, ``sometimes`` and ``at_end``. The function
gets a `JobMoment`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from headrace_properties.promises import Promise, PromiseError
from headrace_properties.promises.asking import Answer, ask, changes, reason_of
from headrace_properties.promises.promise import PromiseKind, make
from headrace_properties.promises.promise_judge import check_are_promises
from headrace_properties.promises.reach import Reach
from headrace_properties.promises.watch import Watch
from headrace_sim.spark.columns.values import InputRows
from headrace_sim.spark.job import SparkJob
from headrace_sim.spark.query.queries import Batch, Outcome, hashable

_ASKED = frozenset({PromiseKind.ALWAYS, PromiseKind.NEVER, PromiseKind.SOMETIMES, PromiseKind.AT_END})


@dataclass(frozen=True, slots=True)
class JobMoment:
    """What a promise about a job sees: a run up to a committed batch."""

    rows: tuple[Any, ...]  # the input up to here, as ``Row`` values
    outputs: tuple[Any, ...]  # the output up to here, as ``Row`` values, in order of batches
    # the contents of each key, by the variable's name and the key, a tuple: a row, a list of rows, or rows by key
    state: Mapping[tuple[str, tuple[Any, ...]], Any]
    late: int  # the number of rows dropped as late


def expected_rows(function: Callable[[tuple[Any, ...]], Iterable[Any]]) -> Promise:
    """Promise that the output is exactly what a function returns for the input, in any order.

    ``function``: takes the input, a tuple of ``Row`` values, and returns tuples or ``Row`` values. Raise `PromiseError` if it
    is not a plain function.
    """

    def same(moment: Any) -> None:
        wanted = Counter(hashable(tuple(row)) for row in function(moment.rows))
        given = Counter(hashable(tuple(row)) for row in moment.outputs)
        told = [
            f"{word} {', '.join(map(str, list(rows.elements())[:3]))}"
            for word, rows in (("missing:", wanted - given), ("not expected:", given - wanted))
            if rows
        ]
        if told:
            raise AssertionError("; ".join(told))

    return make(same, PromiseKind.AT_END, written=function)


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
        self.broken: dict[str, str] = {}
        self.tested: set[str] = set()
        self.untested: dict[str, str] = {}
        self._promises = promises
        self._job = job
        self._watch = Watch()
        self._reach = {promise.name: Reach(promise) for promise in promises}
        self._error: PromiseError | None = None

    def after_batch(self, batch: Batch, outcome: Outcome) -> None:
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

    def _moment(self, outcome: Outcome) -> JobMoment:
        rows = [row for batch in outcome.batches for row in batch.rows]
        outputs = [row for _, given in sorted(outcome.outputs.items()) for row in given]
        state = {name_and_key: held for part in outcome.state.values() for name_and_key, held in part.items()}
        given, told = InputRows(self._job.input).rows(rows), InputRows(self._job.output).rows(outputs)
        return JobMoment(tuple(given), tuple(told), state, outcome.late)

    def _ask(self, promises: Sequence[Promise], outcome: Outcome, when: str) -> None:
        if not promises or self._error is not None:
            return
        moment = self._moment(outcome)
        shown = repr(moment)
        for promise in promises:
            came_true = promise.kind is PromiseKind.SOMETIMES and promise.name in self.tested
            if came_true or promise.name in self.broken:
                continue
            try:
                reach = self._reach[promise.name]
                with self._watch.watching(), nullcontext() if reach.tested else reach.watching():
                    answer = ask(promise, promise.check, moment, self._watch)
                if repr(moment) != shown:
                    raise changes(promise, "the rows, the output or the state")
            except PromiseError as error:
                self._error = error
                return  # it is raised at the end: here it would look like an error of the job
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
