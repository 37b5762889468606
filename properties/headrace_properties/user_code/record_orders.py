"""Run the same records in another order or on another schedule, and find the computation whose outcome changes.

Rules of this file:

* In every order, all records between two watermarks of their source arrive together with the later watermark, so lateness and the
  wall clock are the same in all orders; so are the records' ids. A source may send a watermark after each record, which leaves
  nothing to reorder. So its records also come in any order before its last watermark, except those that are late.
* On another schedule each source delivers its records in the same order, but lags occasionally and reports fewer watermarks:
  timers fire later, the wall clock shows another time, and the low watermark is further behind. Or everything comes a week later.
  Or each watermark is as far ahead as it may be, so that a record may be stamped exactly with it.
  This makes no record late; records that are late anyway are left out, since their treatment depends on the low watermark.
* Default timestamps, those of a production's cause, may differ if nothing else does that comes out in the end: a dedup may let
  either of two equal records pass.
* A computation that declares ``ordered`` is excused from the order, also from that of timers and records, and not from the clock:
  if a schedule changes an outcome, no call must make something else by its wall time alone. That is told first, whatever else
  the outcome depends on.
* Computations are compared one by one, sources first. A computation whose input has changed is not accused; the one upstream is.
* `headrace_properties.user_code.comparison` defines which outcomes count as equal. Between computations, entries of lists may be
  in another order, too, as a group's values are, provided that what comes out in the end is the same. Groupings of the Dataflow
  layer may fire other panes, if all panes settle to the same.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain

import msgspec

from headrace import HOUR, MINUTE, SECOND, Computation, HeadraceError, Pipeline
from headrace.api.ropes import Encoded
from headrace.api.specs import ComputationSpec
from headrace.api.time import MIN_TIME
from headrace.dataflow import GroupByKeyAndWindow
from headrace.wire.effects import SourceRecord
from headrace_properties.reference import Emitted, HookCall, RunResult, StepResult, run_reference, run_step
from headrace_properties.reference.running_computation import RunningComputation
from headrace_properties.search.limits import CodeOverrunError
from headrace_properties.user_code.calls import LOTS, THE_DAY, clock_at
from headrace_properties.user_code.comparison import leveled_value
from headrace_properties.user_code.feeds import (
    postponed,
    prompter,
    shuffled,
    slower,
    with_last_watermarks,
    without_late_records,
)
from headrace_properties.user_code.settled_runs import Settling, settling_of
from headrace_properties.user_frames import Place, is_users_file, place_of
from headrace_sim import Feed
from headrace_sim.feed import FeedEntry


@dataclass(frozen=True, slots=True)
class Ordered:
    """A computation whose outcome depends on the order, or on the schedule.

    Attributes:
        computation: its name; if one of the two runs stopped, the computation that stopped it.
        first: what only the first order's outcome contains.
        second: what only the other order's outcome contains.
        step: a call whose outcome differs on the same record and state; ``None`` if there is none.
        other: the same call in the other run.
        why: what it goes by, if that is known; ``""`` if it is not.
        by_clock: it goes by the wall clock, and no order of arrival makes it.
        stops: one of the two runs stopped.
    """

    computation: str
    first: str
    second: str
    step: HookCall | None = None
    other: HookCall | None = None
    why: str = ""
    by_clock: bool = False
    stops: bool = False


@dataclass(slots=True)
class _Told:
    """A computation's input and its outcome in a run.

    Attributes:
        inputs: the records, each with its key and whether it was late.
        emitted: what it made, in order.
        untimed: the same without default timestamps.
        raised: the exceptions, each with its key.
        states: the last state of each key.
        steps: the first call with a record or timer, a key and a state, and its result.
    """

    inputs: Counter[object] = field(default_factory=Counter)
    emitted: list[Emitted] = field(default_factory=list)
    untimed: list[Emitted] = field(default_factory=list)
    raised: Counter[tuple[str, str]] = field(default_factory=Counter)
    states: dict[str, Encoded] = field(default_factory=dict)
    steps: dict[object, tuple[HookCall, StepResult]] = field(default_factory=dict)


@dataclass(slots=True)
class _Run:
    told: dict[str, _Told]
    result: RunResult | None = None
    stopped: str = ""


def outcomes_of(pipeline: Pipeline, feed: Feed, seed: int, orders: int) -> Ordered | None:
    """Run a feed in several orders; return ``None`` if all give the same outcome.

    Args:
        pipeline: what to run.
        feed: its input.
        seed: seed of the orders.
        orders: number of orders.
    """
    kept, freed = at_watermarks(feed), at_watermarks(with_last_watermarks(without_late_records(feed)))
    return _reordered(pipeline, kept, f"{seed}", orders) or (
        None if freed == kept else _reordered(pipeline, freed, f"{seed}/freed", orders)
    )


def _reordered(pipeline: Pipeline, feed: Feed, seed: str, orders: int) -> Ordered | None:
    others = (Feed(tuple(shuffled(feed, random.Random(f"{seed}/{number}")))) for number in range(orders))
    return _compared(pipeline, feed, others)


ByClock = Callable[[HookCall, HookCall], bool]
"""Returns whether a call makes something else at the other call's wall time."""


def schedules_of(
    pipeline: Pipeline, feed: Feed, seed: int, schedules: int, by_clock: ByClock | None = None
) -> Ordered | None:
    """Run a feed on several schedules; return ``None`` if all give the same outcome.

    Args:
        pipeline: what to run.
        feed: its input.
        seed: seed of the schedules.
        schedules: number of schedules.
        by_clock: tells whether the wall clock decides; default: neither that is looked at, nor what declares its order.
    """
    feed = without_late_records(feed)
    others = (slower(feed, random.Random(f"{seed}/slower/{number}")) for number in range(schedules))
    return _compared(pipeline, feed, chain(others, [postponed(feed, _LONG_US), prompter(feed)]), by_clock)


def _compared(
    pipeline: Pipeline, feed: Feed, others: Iterable[Feed], by_clock: ByClock | None = None
) -> Ordered | None:
    base, settling = _run(pipeline, feed), settling_of(pipeline, feed)
    differences = (_difference(pipeline, base, _run(pipeline, other), settling, by_clock) for other in others)
    return next((difference for difference in differences if difference is not None), None)


_LONG_US = 7 * 24 * HOUR + 9 * HOUR + 17 * MINUTE + 31 * SECOND
"""Another day of the week, hour, minute and second."""


def at_watermarks(feed: Feed) -> Feed:
    """Let each record arrive with the next watermark of its source, or with the source's last record."""
    due: dict[str, int] = {}
    late: list[FeedEntry] = []
    for entry in reversed(feed.entries):
        if isinstance(entry.event, SourceRecord):
            at_us = due.setdefault(entry.address, entry.at_us)
            event = msgspec.structs.replace(entry.event, arrived_us=at_us)
            late.append(msgspec.structs.replace(entry, at_us=at_us, event=event))
        else:
            due[entry.address] = entry.at_us
            late.append(entry)
    late.reverse()
    return Feed(tuple(sorted(late, key=lambda entry: entry.at_us)))


def _run(pipeline: Pipeline, feed: Feed) -> _Run:
    records, result = {name: _Told() for name in pipeline.computations}, None
    stopped = ""

    def host(pipeline: Pipeline, stage: RunningComputation, step: HookCall) -> StepResult:
        nonlocal stopped
        mine = records[step.computation]
        if step.record is not None:
            mine.inputs[step.record, step.key, step.record.timestamp < step.input_us] += 1
        random.seed(LOTS)
        try:
            result = run_step(pipeline, stage, step)
        except (Exception, SystemExit, CodeOverrunError) as error:
            mine.raised[type(error).__name__, step.key] += 1
            stopped = step.computation
            raise
        mine.emitted += result.made
        mine.untimed += [_untimed(emitted, step.stamp) for emitted in result.made]
        if result.state is not None:
            mine.states[step.key] = result.state
        timers = {tag: copy(timer) for tag, timer in result.timers.items()}  # the run goes on with these
        kept = replace(result, timers=timers)
        mine.steps.setdefault((step.record, step.timer, step.key, step.state), (step, kept))
        return result

    with clock_at(THE_DAY):
        try:
            result = run_reference(pipeline, feed, host=host)
            stopped = ""
        except (HeadraceError, SystemExit, CodeOverrunError):
            pass
    return _Run(records, result, stopped)


def _untimed(emitted: Emitted, stamp: int) -> Emitted:
    is_default = emitted.timestamp == stamp
    return msgspec.structs.replace(emitted, timestamp=MIN_TIME) if is_default else emitted


_Made = Counter[tuple[str, str, int, str]]
"""Stream, key, timestamp and leveled value: how often it was made."""


def _leveled(pipeline: Pipeline, outputs: Iterable[Emitted], *, unordered: bool = False) -> _Made:
    """Return what was made. ``unordered``: with the entries of lists in order."""
    return Counter(
        (
            emitted.stream,
            emitted.key,
            emitted.timestamp,
            leveled_value(pipeline.codec(emitted.stream), emitted.value, is_state=unordered),
        )
        for emitted in outputs
    )


def _difference(
    pipeline: Pipeline, base: _Run, other: _Run, settling: Settling | None, by_clock: ByClock | None
) -> Ordered | None:
    """Return the first difference. ``by_clock``: see `schedules_of`; ``None``: a declared order is not looked at."""
    if bool(base.stopped) != bool(other.stopped):
        shown = {False: "its end", True: "an error, which stops the run"}
        first, second = (shown[bool(run.stopped)] for run in (base, other))
        return Ordered(base.stopped or other.stopped, first, second, stops=True)
    if base.stopped:
        return None
    settled = _settled(base, other, settling)
    settles = settled is not None and settled[0] == settled[1]
    for name, spec in pipeline.computations.items():
        one, two = base.told[name], other.told[name]
        if spec.nondeterministic or one.inputs != two.inputs:
            continue
        if spec.ordered and (by_clock is None or _is_ours(spec.computation)):
            continue
        if settles and isinstance(spec.computation, GroupByKeyAndWindow):
            continue
        difference = _made_otherwise(pipeline, name, base, other) or _left_otherwise(spec, one, two)
        if difference is not None:
            by_time = _by_time(spec.computation, one, by_clock)
            if by_time is not None:
                return replace(difference, step=by_time[0], other=by_time[1], by_clock=True)
            if not spec.ordered:
                step, again = _differing(pipeline, one, two)
                return replace(difference, step=step, other=again)
    if settled is not None and not settles and settling is not None and settling.regrouping:
        first, second = (_shown_settled(mine - its) for mine, its in (settled, settled[::-1]))
        return Ordered(settling.regrouping, first, second, why=_REGROUPS)
    return None


def _by_time(
    computation: Computation, record: _Told, by_clock: ByClock | None
) -> tuple[HookCall, HookCall] | None:
    """Return the first call that makes something else at another wall time, with the call at that time; ``None``: none does."""
    if by_clock is None or _is_ours(computation):
        return None
    calls = ((call, replace(call, now=call.now + _LONG_US)) for call, _ in record.steps.values())
    return next(((call, later) for call, later in calls if by_clock(call, later)), None)


def _is_ours(computation: Computation) -> bool:
    """Return whether it is the Dataflow layer's: what a trigger of the wall clock does is declared by the trigger."""
    return type(computation).__module__.startswith("headrace.")


def _made_otherwise(pipeline: Pipeline, name: str, base: _Run, other: _Run) -> Ordered | None:
    one, two = base.told[name], other.told[name]
    if one.raised != two.raised:
        return Ordered(name, _raised(one.raised - two.raised), _raised(two.raised - one.raised))
    if Counter(one.emitted) == Counter(two.emitted):
        return None
    first, second = _leveled(pipeline, one.emitted), _leveled(pipeline, two.emitted)
    if first == second:
        return None
    unordered = [_leveled(pipeline, record.untimed, unordered=True) for record in (one, two)]
    if unordered[0] == unordered[1] and not _comes_out_otherwise(pipeline, base, other):
        return None
    why = _TIMES if _without_times(first) == _without_times(second) else ""
    return Ordered(name, _shown(first - second), _shown(second - first), why=why)


def _left_otherwise(spec: ComputationSpec, one: _Told, two: _Told) -> Ordered | None:
    for key in sorted(one.states.keys() | two.states.keys()):
        before, after = _states(spec, one, two, key)
        if before != after:
            return Ordered(spec.name, f"{_named(before)} of key {key!r}", _named(after))
    return None


def _named(state: str | None) -> str:
    """Name a state for people; the initial one is stored as nothing."""
    return f"state {state}" if state else "the initial state"


def _states(spec: ComputationSpec, one: _Told, two: _Told, key: str) -> list[str | None]:
    """Return the last state of a key in two runs; ``None`` where it has none. Equal bytes are not decoded."""
    states = [record.states.get(key) for record in (one, two)]
    if states[0] == states[1]:
        return [None, None]
    return [
        None if state is None else leveled_value(spec.state_codec, state, is_state=True) for state in states
    ]


_TIMES = (
    "only the timestamps of what it produces differ, and they count; context.produce(..., timestamp=...) takes one that no order"
    " decides"
)


def _without_times(leveled: _Made) -> Counter[tuple[str, str, str]]:
    untimed: Counter[tuple[str, str, str]] = Counter()
    for (stream, key, _, value), times in leveled.items():
        untimed[stream, key, value] += times
    return untimed


_REGROUPS = (
    "it takes all panes of another grouping, also those that later ones replace or add to; accumulating_and_retracting()"
    " there takes back what was made of them"
)


def _settled(
    base: _Run, other: _Run, settling: Settling | None
) -> tuple[Counter[Emitted], Counter[Emitted]] | None:
    """Return what both runs settle to; ``None``: they need not settle."""
    if settling is None or base.result is None or other.result is None:
        return None
    if settling.has_dropped(base.result) or settling.has_dropped(other.result):
        return None
    return settling.outputs(base.result), settling.outputs(other.result)


def _shown_settled(outputs: Counter[Emitted]) -> str:
    return next(
        (f"{emitted.value.decode()} on {emitted.stream!r}, key {emitted.key!r}" for emitted in outputs),
        "no such record",
    )


def _comes_out_otherwise(pipeline: Pipeline, base: _Run, other: _Run) -> bool:
    """Return whether what is sent outside differs, but for default timestamps, or a final state."""
    outside = set(pipeline.output_streams)

    def sent(record: _Told) -> _Made:
        return _leveled(pipeline, (emitted for emitted in record.untimed if emitted.stream in outside))

    for name, one in base.told.items():
        two = other.told[name]
        if one.raised != two.raised or sent(one) != sent(two):
            return True
        if _left_otherwise(pipeline.computations[name], one, two) is not None:
            return True
    return False


def _differing(pipeline: Pipeline, one: _Told, two: _Told) -> tuple[HookCall | None, HookCall | None]:
    """Return the first call whose record and state are the same in both runs, but whose outcome differs; or ``None`` twice."""

    def outcome(result: StepResult) -> object:
        timers = {tag: timer and (timer.at, timer.clock) for tag, timer in result.timers.items()}
        return _leveled(pipeline, result.made), result.state, timers

    for same, (step, result) in one.steps.items():
        other, other_result = two.steps.get(same, (step, result))
        if other_result is not result and outcome(result) != outcome(other_result):
            return step, other
    return None, None


def _shown(leveled: _Made) -> str:
    for stream, key, timestamp, value in leveled:
        return f"{value} on {stream!r}, key {key!r}, timestamp {timestamp}"
    return "no such record"


def _raised(raised: Counter[tuple[str, str]]) -> str:
    return next((f"{kind} for key {key!r}, which it raises" for kind, key in raised), "nothing of the kind")


def combiner_place(computation: Computation) -> Place | None:
    """Return the first line of a grouping's own combiner; ``None``: it is no grouping, or its combiner is one of ours."""
    if not isinstance(computation, GroupByKeyAndWindow):
        return None
    combine = computation.grouping.combine
    functions = combine.add, combine.merge, combine.uncombine, combine.extract
    codes = [code for function in functions if (code := getattr(function, "__code__", None)) is not None]
    own = (place_of(code, code.co_firstlineno) for code in codes if is_users_file(code.co_filename))
    return next(own, None)
