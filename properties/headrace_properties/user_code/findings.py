"""Findings about the user's code: what no framework can make good, each with the smallest input that shows it (4, 6.1).

The engine runs a step again whenever it has to (6.1.3), in any order of arrival, on any machine. Code that keeps to its context
does not notice. What is asked of it here runs sequentially (`headrace_properties.reference`), with no fault and no engine; so
whatever is found is the user's.

* A run on fresh copies of the computations that comes to something else: not deterministic.
* A run in which each call, or each key, gets a fresh copy that does: something is kept outside the state, or shared between keys.
* A run on another order of arrival that does, where no record is late: it depends on the order.
* A call that changes what is reachable from its computation or its module, though the outcome does not show it: an effect outside
  the framework. It is repeated when the step is retried. *Choice*: what leaves the process (files, sockets) is not watched.
* A production behind its cause (4.5), which the engine refuses.
"""

import copy
import enum
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import FunctionType, ModuleType
from typing import Any

from headrace import Computation, Context, HeadraceError, Pipeline, Record, Timer, TimestampRegressionError
from headrace.wire.effects import SourceRecord
from headrace_properties.reference import RunResult, run_reference
from headrace_properties.user_code.comparison import without_ids
from headrace_properties.user_code.feeds import permuted, smallest
from headrace_sim import Feed

PERMUTATIONS = 5
"""Orders of arrival that are tried."""


class Habit(enum.Enum):
    """What user code does that it must not."""

    NOT_DETERMINISTIC = "comes to something else when it is run again"
    SHARES_STATE = "shares state between keys"
    KEEPS_STATE = "keeps state outside its row"
    DEPENDS_ON_ORDER = "depends on the order of arrival"
    HAS_EFFECTS = "has effects outside the framework, which are repeated when a step is retried"
    GOES_BACK = "produces with a timestamp before its cause"


@dataclass(frozen=True, slots=True)
class UserFinding:
    """One thing that is wrong with user code.

    Attributes:
        habit: what it does.
        detail: where, and how it shows.
        feed: the smallest input found that shows it.
    """

    habit: Habit
    detail: str
    feed: Feed

    @property
    def is_bug(self) -> bool:
        """It can not be meant. The others may be: a cache, a count by the clock, "the first record wins"."""
        return self.habit in (Habit.SHARES_STATE, Habit.KEEPS_STATE, Habit.GOES_BACK)

    def __str__(self) -> str:
        """Write it for people, with its records."""
        records = [entry.event for entry in self.feed.entries if isinstance(entry.event, SourceRecord)]
        shown = ", ".join(f"({record.key!r}, {record.value!r:.40}, {record.timestamp})" for record in records)
        number = "one record" if len(records) == 1 else f"{len(records)} records"
        return f"the code {self.habit.value}: {self.detail}; shown by {number}: {shown}"


def examine(pipeline: Pipeline, feed: Feed, seed: int = 0) -> list[UserFinding]:
    """Look for what is wrong with a pipeline's user code.

    Code that is not deterministic, or goes back in time, is not asked any more: the other questions compare outcomes.

    Args:
        pipeline: whose code to look at.
        feed: an input that exercises it; a few dozen records are enough.
        seed: of the orders of arrival that are tried.
    """
    for check in (_goes_back, _not_deterministic):
        found = check(pipeline, feed)
        if found is not None:
            return [found]
    checks = (_keeps_state, _has_effects, lambda one, other: _depends_on_order(one, other, seed))
    return [found for check in checks if (found := check(pipeline, feed)) is not None]


# The questions


def _goes_back(pipeline: Pipeline, feed: Feed) -> UserFinding | None:
    def error_of(feed: Feed) -> TimestampRegressionError | None:
        watched: list[Exception] = []
        _result_of(_hosted(pipeline, lambda one: _Watched(one, watched)), feed)
        return next((one for one in watched if isinstance(one, TimestampRegressionError)), None)

    if error_of(feed) is None:
        return None
    least = smallest(feed, lambda one: error_of(one) is not None)
    return UserFinding(Habit.GOES_BACK, str(error_of(least)), least)


def _not_deterministic(pipeline: Pipeline, feed: Feed) -> UserFinding | None:
    def differs(feed: Feed) -> bool:
        first = _result_of(with_fresh_code(pipeline), feed)
        return any(_result_of(with_fresh_code(pipeline), feed) != first for _ in range(3))

    if not differs(feed):
        return None
    return UserFinding(Habit.NOT_DETERMINISTIC, "the same input, another outcome", smallest(feed, differs))


def _keeps_state(pipeline: Pipeline, feed: Feed) -> UserFinding | None:
    def differs(host: Callable[[Computation], Computation]) -> Callable[[Feed], bool]:
        return lambda feed: (
            _result_of(_hosted(pipeline, host), feed) != _result_of(with_fresh_code(pipeline), feed)
        )

    if not differs(_each_call)(feed):
        return None
    shared = differs(_each_key)
    if shared(feed):
        detail = "with an object for each key the outcome is another"
        return UserFinding(Habit.SHARES_STATE, detail, smallest(feed, shared))
    detail = "with an object for each call, as after a crash, the outcome is another"
    return UserFinding(Habit.KEEPS_STATE, detail, smallest(feed, differs(_each_call)))


def _has_effects(pipeline: Pipeline, feed: Feed) -> UserFinding | None:
    def effects_of(feed: Feed) -> list[str]:
        found: list[str] = []
        _result_of(_hosted(pipeline, lambda one: _Traced(one, found)), feed)
        return found

    if not effects_of(feed):
        return None
    least = smallest(feed, lambda one: bool(effects_of(one)))
    return UserFinding(Habit.HAS_EFFECTS, f"a call changed {effects_of(least)[0]}", least)


def _depends_on_order(pipeline: Pipeline, feed: Feed, seed: int) -> UserFinding | None:
    def differs(feed: Feed) -> bool:
        result = _result_of(with_fresh_code(pipeline), feed)
        orders = (permuted(feed, Random(f"{seed}/{number}")) for number in range(PERMUTATIONS))
        return any(_result_of(with_fresh_code(pipeline), order) != result for order in orders)

    if not differs(feed):
        return None
    detail = "the same records in another order come to another outcome"
    return UserFinding(Habit.DEPENDS_ON_ORDER, detail, smallest(feed, differs))


def _result_of(pipeline: Pipeline, feed: Feed) -> RunResult | str:
    """What a run comes to, ids left out; a run that stops comes to its error's type."""
    try:
        return without_ids(run_reference(pipeline, feed), pipeline)
    except HeadraceError as error:
        return type(error).__name__


# How the code is hosted


def fresh_copy(computation: Computation) -> Computation:
    """A copy as it was configured; what can not be copied is its own copy."""
    try:
        return copy.deepcopy(computation)
    except Exception:  # noqa: BLE001  user objects may refuse in any way
        return computation


def with_fresh_code(pipeline: Pipeline) -> Pipeline:
    """The pipeline with copies of its computations, that have not run yet."""
    return _hosted(pipeline, fresh_copy)


def with_code_for_each_call(pipeline: Pipeline) -> Pipeline:
    """The pipeline with computations that forget all but their state between calls."""
    return _hosted(pipeline, _each_call)


def _hosted(pipeline: Pipeline, host: Callable[[Computation], Computation]) -> Pipeline:
    for name, spec in pipeline.computations.items():
        pipeline = pipeline.with_computation(name, computation=host(spec.computation))
    return pipeline


class _Copies(Computation):
    """Gives each key a copy of its own, as keys on different machines have; or each call, as after a crash."""

    def __init__(self, original: Computation, *, by_key: bool) -> None:
        self._original = original
        self._by_key = by_key
        self._copies: dict[str, Computation] = {}

    def initial_state(self) -> Any:
        return self._original.initial_state()

    def process_record(self, context: Context, record: Record) -> None:
        self._copy_for(context.key).process_record(context, record)

    def process_timer(self, context: Context, timer: Timer) -> None:
        self._copy_for(context.key).process_timer(context, timer)

    def _copy_for(self, key: str) -> Computation:
        if key not in self._copies or not self._by_key:
            self._copies[key] = fresh_copy(self._original)
        return self._copies[key]


def _each_call(computation: Computation) -> Computation:
    return _Copies(computation, by_key=False)


def _each_key(computation: Computation) -> Computation:
    return _Copies(computation, by_key=True)


class _Watched(Computation):
    """Notes what a fresh copy raises."""

    def __init__(self, original: Computation, raised: list[Exception]) -> None:
        self._copy = fresh_copy(original)
        self._raised = raised

    def initial_state(self) -> Any:
        return self._copy.initial_state()

    def process_record(self, context: Context, record: Record) -> None:
        self._note(lambda: self._copy.process_record(context, record))

    def process_timer(self, context: Context, timer: Timer) -> None:
        self._note(lambda: self._copy.process_timer(context, timer))

    def _note(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self._raised.append(error)
            raise


class _Traced(Computation):
    """Compares what is reachable from the code before and after each call."""

    def __init__(self, original: Computation, changed: list[str]) -> None:
        self._original = fresh_copy(original)
        self._changed = changed

    def initial_state(self) -> Any:
        return self._original.initial_state()

    def process_record(self, context: Context, record: Record) -> None:
        self._trace(lambda: self._original.process_record(context, record))

    def process_timer(self, context: Context, timer: Timer) -> None:
        self._trace(lambda: self._original.process_timer(context, timer))

    def _trace(self, call: Callable[[], None]) -> None:
        before = {name: repr(value) for name, value in _reachable(self._original).items()}
        try:
            call()
        finally:
            after = _reachable(self._original)
            self._changed += [name for name in sorted(after) if repr(after[name]) != before.get(name)]


def _reachable(computation: Computation) -> dict[str, Any]:
    """What a computation's methods can reach and change, by name: its attributes, their globals, and what they close over."""
    found = {f"self.{name}": value for name, value in getattr(computation, "__dict__", {}).items()}
    for _, method in inspect.getmembers(type(computation), inspect.isfunction):
        found |= _reached_by(method)
    return {name: value for name, value in found.items() if _is_data(value)}


def _reached_by(function: FunctionType) -> dict[str, Any]:
    known = function.__globals__
    found = {name: known[name] for name in function.__code__.co_names if name in known}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # not bound yet
    return found


def _is_data(value: object) -> bool:
    return not isinstance(value, type | ModuleType | FunctionType)
