"""The same records in another order of arrival: which computation's outcome changes though its input is the same.

Rules of this file:

* All records between two watermarks of their source arrive when the later one does, in every order: so the orders differ in
  nothing else, neither in lateness nor in what the wall clock shows.
* Computations are asked one by one, sources first. One whose input has changed is not accused: what stands before it is.
* Choice: lists in a final state count as the same in another order, and numbers as equal to nine digits: sums of floats depend on
  the order, and nobody is to blame.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headrace import HeadraceError, Pipeline
from headrace.wire.effects import SourceRecord
from headrace_properties.reference import Step, StepResult, run_reference, run_step
from headrace_properties.reference.computation import RunningComputation
from headrace_properties.search.limits import CodeOverrunError
from headrace_properties.user_code.calls import LOTS, THE_DAY, clock_at
from headrace_properties.user_code.feeds import permuted
from headrace_sim import Feed
from headrace_sim.feed import FeedEntry


@dataclass(frozen=True, slots=True)
class Ordered:
    """A computation whose outcome depends on the order.

    Attributes:
        computation: its name; of two runs, of which one stops, that which stopped it.
        first: what is only in the outcome of the one order.
        second: only in that of the other.
    """

    computation: str
    first: str
    second: str


@dataclass(slots=True)
class _Told:
    """What a computation was given, and what it came to."""

    inputs: Counter[object] = field(default_factory=Counter)
    made: Counter[object] = field(default_factory=Counter)
    states: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class _Run:
    told: dict[str, _Told]
    stopped: str = ""


def outcomes_of(pipeline: Pipeline, feed: Feed, seed: int, orders: int) -> Ordered | None:
    """Run a feed in several orders; ``None``: all come to the same.

    Args:
        pipeline: what to run.
        feed: its input.
        seed: of the orders.
        orders: how many.
    """
    level = at_watermarks(feed)
    base = _run(pipeline, level)
    for number in range(orders):
        other = _run(pipeline, permuted(level, random.Random(f"{seed}/{number}")))
        found = _difference(pipeline, base, other)
        if found is not None:
            return found
    return None


def at_watermarks(feed: Feed) -> Feed:
    """Let each record arrive with the next watermark of its source, or with the source's last record."""
    due: dict[str, int] = {}
    late: list[FeedEntry] = []
    for entry in reversed(feed.entries):
        if isinstance(entry.event, SourceRecord):
            at_us = due.setdefault(entry.address, entry.at_us)
            late.append(msgspec.structs.replace(entry, at_us=at_us))
        else:
            due[entry.address] = entry.at_us
            late.append(entry)
    late.reverse()
    entries, places = sorted(late, key=lambda entry: entry.at_us), Counter[str]()
    numbered = []
    for entry in entries:
        event = msgspec.structs.replace(entry.event, offset=places[entry.address], arrived_us=entry.at_us)
        places[entry.address] += 1
        numbered.append(msgspec.structs.replace(entry, event=event))
    return Feed(tuple(numbered))


def _run(pipeline: Pipeline, feed: Feed) -> _Run:
    told = {name: _Told() for name in pipeline.computations}
    stopped = ""

    def host(pipeline: Pipeline, stage: RunningComputation, step: Step) -> StepResult:
        nonlocal stopped
        mine = told[step.computation]
        if step.record is not None:
            mine.inputs[step.record, step.key, step.record.timestamp < step.input_us] += 1
        random.seed(LOTS)
        try:
            result = run_step(pipeline, stage, step)
        except (Exception, SystemExit, CodeOverrunError) as error:
            mine.made[type(error).__name__, step.key] += 1
            stopped = step.computation
            raise
        for one in result.made:
            mine.made[one.stream, one.key, one.timestamp, _value(pipeline.codec(one.stream), one.value)] += 1
        if result.state is not None:
            mine.states[step.key] = _value(stage.spec.state_codec, result.state, is_state=True)
        return result

    with clock_at(THE_DAY):
        try:
            run_reference(pipeline, feed, host=host)
            stopped = ""
        except (HeadraceError, SystemExit, CodeOverrunError):
            pass
    return _Run(told, stopped)


def _difference(pipeline: Pipeline, base: _Run, other: _Run) -> Ordered | None:
    if bool(base.stopped) != bool(other.stopped):
        shown = {False: "its end", True: "an error, which stops the run"}
        return Ordered(base.stopped or other.stopped, shown[bool(base.stopped)], shown[bool(other.stopped)])
    if base.stopped:
        return None
    for name, spec in pipeline.computations.items():
        one, two = base.told[name], other.told[name]
        if spec.ordered or spec.nondeterministic or one.inputs != two.inputs:
            continue
        if one.made != two.made:
            return Ordered(name, _shown(one.made - two.made), _shown(two.made - one.made))
        for key in sorted(one.states.keys() | two.states.keys()):
            before, after = one.states.get(key), two.states.get(key)
            if before != after:
                return Ordered(name, f"state {before} of key {key!r}", f"state {after}")
    return None


def _shown(made: Counter[object]) -> str:
    for one in made:
        if isinstance(one, tuple) and len(one) == 4:
            return f"{one[3]} on {one[0]!r}, key {one[1]!r}, timestamp {one[2]}"
        return str(one)
    return "no such record"


def _value(codec: Any, data: bytes, *, is_state: bool = False) -> object:
    """A value as a text that is the same for values that count as the same."""
    if not data:
        return ""
    return repr(_level(codec.decode(data), is_state=is_state))


def _level(value: Any, *, is_state: bool) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        items = ((key, _level(one, is_state=is_state)) for key, one in value.items())
        return dict(sorted(items, key=lambda item: repr(item[0])))
    if isinstance(value, list | tuple):
        parts = [_level(one, is_state=is_state) for one in value]
        return sorted(parts, key=repr) if is_state else parts
    if isinstance(value, set | frozenset):
        return sorted((_level(one, is_state=is_state) for one in value), key=repr)
    return value
