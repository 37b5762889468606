"""Promises about a Spark job: its author's claims about rows and state, checked after each batch and at the end of each run.

The decorators are those of `headrace_properties.promises`: ``always``, ``never``, ``sometimes`` and ``at_end``. The function
gets a `JobMoment`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.promises import Promise
from headrace_properties.promises.asking import reason_of
from headrace_properties.promises.promise import Kind, make
from headrace_sim.spark.job import SparkJob
from headrace_sim.spark.queries import Batch, Outcome, hashable
from headrace_sim.spark.values import InputRows

_ASKED = frozenset({Kind.ALWAYS, Kind.NEVER, Kind.SOMETIMES, Kind.AT_END})


@dataclass(frozen=True, slots=True)
class JobMoment:
    """What a promise about a job sees: a run up to a committed batch.

    Attributes:
        rows: The input up to here, as ``Row`` values.
        outputs: The output up to here, as ``Row`` values, in order of batches.
        state: The contents of each key, by the variable's name and the key, a tuple: a row, a list of rows, or rows by key.
        late: The number of rows dropped as late.

    """

    rows: tuple[Any, ...]
    outputs: tuple[Any, ...]
    state: Mapping[tuple[str, tuple[Any, ...]], Any]
    late: int


class JobPromiseError(HeadraceError):
    """A promise cannot be asked of a job. Fields: name, where, problem."""

    def __init__(self, name: str, where: str, problem: str) -> None:
        super().__init__(name, where, problem)
        self.name, self.where, self.problem = name, where, problem

    def __str__(self) -> str:
        """Say which, where and why."""
        return f"{self.where}: the promise {self.name!r} {self.problem}"


def expected_rows(function: Callable[[tuple[Any, ...]], Iterable[Any]]) -> Promise:
    """Promise that the output is exactly what a function returns for the input, in any order.

    Args:
        function: Takes the input, a tuple of ``Row`` values, and returns tuples or ``Row`` values.

    Raises:
        PromiseError: It is not a plain function.

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

    return make(same, Kind.AT_END, written=function)


def check_promises_of_job(promises: Sequence[Promise]) -> tuple[Promise, ...]:
    """Return promises that can be asked of a job.

    Raises:
        JobPromiseError: One cannot.

    """
    for promise in promises:
        if promise.kind not in _ASKED:
            problem = f"is of kind {promise.kind.value}, which a job has not. Use always, never, sometimes or at_end"
            raise JobPromiseError(promise.name, promise.where, problem)
        if promise.of or promise.streams or promise.uses:
            problem = "names a computation or a stream, which a job has not. Leave of and stream out"
            raise JobPromiseError(promise.name, promise.where, problem)
    return tuple(promises)


class Judge:
    """Asks promises during a run of a job.

    Args:
        promises: Which.
        job: Whose rows they look at.

    Attributes:
        broken: Why each broken promise is, by its name: only the first time counts.
        seen: Promises of kind ``sometimes`` that came true.

    """

    def __init__(self, promises: Sequence[Promise], job: SparkJob) -> None:
        self.broken: dict[str, str] = {}
        self.seen: set[str] = set()
        self._promises = promises
        self._job = job
        self._error: JobPromiseError | None = None

    def after_batch(self, batch: Batch, outcome: Outcome) -> None:
        """Check what must hold after each batch."""
        if self._promises:
            moment = self._moment(outcome)
            for promise in self._promises:
                if promise.kind is not Kind.AT_END:
                    self._ask(promise, moment, f"after batch {batch.number}")

    def at_end(self, outcome: Outcome) -> "Judge":
        """Check what must hold at the end of the run.

        Raises:
            JobPromiseError: A promise raised something else than an ``AssertionError``.

        """
        moment = self._moment(outcome) if self._promises and outcome.failure is None else None
        for promise in self._promises:
            if promise.kind is Kind.AT_END and moment is not None:
                self._ask(promise, moment, "at the end")
        if self._error is not None:
            raise self._error
        return self

    def _moment(self, outcome: Outcome) -> JobMoment:
        rows = [row for batch in outcome.batches for row in batch.rows]
        outputs = [row for _, given in sorted(outcome.outputs.items()) for row in given]
        state = {name_and_key: held for part in outcome.state.values() for name_and_key, held in part.items()}
        given, told = InputRows(self._job.input).rows(rows), InputRows(self._job.output).rows(outputs)
        return JobMoment(tuple(given), tuple(told), state, outcome.late)

    def _ask(self, promise: Promise, moment: JobMoment, when: str) -> None:
        if promise.name in self.broken or promise.name in self.seen:
            return
        check: Any = promise.check  # it takes a different moment from a pipeline's
        why = ""
        try:
            answer = check(moment)
        except AssertionError as error:
            answer, why = False, reason_of(promise, error)
        except Exception as error:  # noqa: BLE001  whatever the promise raises
            problem = f"raises {type(error).__name__}: {error}. Raise only AssertionError"
            self._error = JobPromiseError(promise.name, promise.where, problem)
            return  # it is raised at the end: here it would look like an error of the job
        if promise.kind is Kind.SOMETIMES:
            if answer:
                self.seen.add(promise.name)
        elif (answer is False) is (promise.kind is not Kind.NEVER) and answer is not None:
            self.broken[promise.name] = f"{when}: {why or reason_of(promise, None)}"
