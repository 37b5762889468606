"""A pipeline of the Dataflow layer that uses what random groupings do not.

Functions of elements and keys, every combiner, two groupings, a join, side inputs, spread keys, early panes and percentiles,
sliding windows, keys with many windows, tagged outputs, values of other classes, and a function with state and timers.

What must come of it is computed here in plain Python from the input, by nothing of the layer (Dataflow 2.2, 2.3).
"""

import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from headrace import MILLISECOND, SECOND, Clock, Pipeline
from headrace.dataflow import (
    MEAN,
    AnyOf,
    AtCount,
    AtWatermark,
    CombineFn,
    Custom,
    Element,
    FixedWindows,
    Flow,
    Instant,
    KeyContext,
    Pane,
    PCollection,
    Repeat,
    Sessions,
    SlidingWindows,
    Timing,
    Wanted,
    Window,
    after_watermark,
    flatten,
    read,
)
from headrace.history import FaultStruck, History, Output
from headrace_properties.proof.oracles import by_calm, plan_of
from headrace_properties.proof.workloads import Workload
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.verdict import Verdict, Violated
from headrace_sim import ClusterOptions, Feed, FeedBuilder, StepFault
from headrace_sim.faults import LateRecords
from tests.core.dataflow.chunked import badly_kept, in_small_chunks

_RECORDS = 14
_SPAN_US = SECOND
_FINE_US = _SPAN_US // 40
"""So short that an element is in more windows than a row has without chunks."""


@dataclass(frozen=True, slots=True)
class Given:
    """An element of the input."""

    key: str
    value: int
    time: int


def _doubled(value: int) -> int:
    return 2 * value


def _is_kept(value: int) -> bool:
    return value % 3 > 0


def _is_left_out(value: int) -> bool:
    return value % 3 == 0


def _next(value: int) -> int:
    return value + 1


def _with_next(value: int) -> list[int]:
    return [value, value + 1]


def _residue(value: int) -> str:
    return f"residue {value % 3}"


def _pairs(element: Element) -> list[tuple[str, Any]]:
    return [(element.key.upper(), element.value), (element.key, -element.value)]


def _mean(values: list[int]) -> float:
    return sum(values) / len(values)


def _greatest_two(values: list[int]) -> list[int]:
    return sorted(values, reverse=True)[:2]


_COMBINED: Mapping[str, Callable[[list[int]], Any]] = {
    "sum": sum, "count": len, "mean": _mean, "min": min, "max": max, "group": sorted,
}  # fmt: skip
"""What each method of a collection computes."""
_TAKEN_BACK: Mapping[str, Callable[[list[int]], Any]] = {"sum": sum, "count": len, "mean": _mean, "max": max}
"""The same for the methods that are applied to sums which are retracted as they grow."""


def _product(pair: list[int]) -> int:
    left, right = pair
    return left * right


def _with_own(value: int, count: int | None) -> int:
    return 10 * value + (count or 0)


def _with_all(value: int, counts: dict[str, int]) -> int:
    return 10 * value + sum(counts.values())


def _of_key(key: str, value: int) -> int:
    return value * (2 if key == "a" else 3)


def _as_tuple(value: int) -> tuple[int, set[int]]:
    return value, {value, value + 1}


def _of_tuples(values: list[tuple[int, set[int]]]) -> int:
    return sum(value[0] for value in values if type(value) is tuple and value[1] == {value[0], value[0] + 1})


@dataclass(frozen=True, slots=True)
class _Reading:
    """A value of a class of the user's."""

    value: int


def _of_readings(readings: list[_Reading]) -> int:
    return sum(reading.value for reading in readings if type(reading) is _Reading)


def _by_parity(element: Element) -> list[tuple[str, str, int]]:
    return [("odd" if element.value % 2 else "even", element.key, element.value)]


@dataclass(frozen=True, slots=True)
class _Overlapping:
    """Windows of the user's own: of the even and the odd half seconds, those of a second's length that contain an element."""

    def assign_windows(self, element: Element) -> Iterable[Window]:
        half = element.time - element.time % (_SPAN_US // 2)
        starts = range(half - _SPAN_US, half + _SPAN_US, _SPAN_US // 2)
        windows = [Window(start, start + _SPAN_US) for start in starts]
        return [window for window in windows if window.contains(element.time)]

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        return windows


@dataclass(frozen=True, slots=True)
class _Weighty:
    """Fires when the values have come to so much, and at the window's last tenth."""

    enough: int

    def start(self, instant: Instant) -> dict[str, int]:
        del instant
        return {"sum": 0}

    def on_element(self, state: dict[str, int], value: int, instant: Instant) -> dict[str, int]:
        assert instant.window.start < instant.window.end
        return {"sum": state["sum"] + value}

    def is_ready(self, state: dict[str, int], instant: Instant) -> bool:
        return state["sum"] >= self.enough or instant.watermark >= instant.window.end - _SPAN_US // 10

    def wanted(self, state: dict[str, int], window: Window) -> Iterable[Wanted]:
        assert state.keys() == {"sum"}
        return (Wanted(window.end - _SPAN_US // 10, Clock.WATERMARK),)

    def merge(self, states: Sequence[dict[str, int]], instant: Instant) -> dict[str, int]:
        assert instant.window.start < instant.window.end
        return {"sum": sum(state["sum"] for state in states)}


def _as_key(value: int) -> tuple[str, int, None]:
    return ("residue", value % 2, None)


class _Tripled:
    """Tells three times each value at once, and once more when its second ends."""

    def initial_state(self) -> int:
        return 0

    def process(self, context: KeyContext, element: Element) -> Iterable[tuple[str, Any]]:
        assert context.watermark <= element.time, "nothing is late"
        context.state += element.value
        context.set_timer("end", element.time - element.time % _SPAN_US + _SPAN_US - 1)
        return [(context.key, 3 * element.value)]

    def on_timer(self, context: KeyContext, tag: str, time_us: int) -> Iterable[tuple[str, Any]]:
        assert context.watermark >= time_us, f"{tag} is early"
        return [(context.key, 0)]


class _Closing:
    """Adds up by second of event time, and tells the sum at its end."""

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, context: KeyContext, element: Element) -> Iterable[tuple[str, Any]]:
        end = str(element.time - element.time % _SPAN_US + _SPAN_US)
        context.state = {**context.state, end: context.state.get(end, 0) + element.value}
        context.set_timer(end, int(end))
        return ()

    def on_timer(self, context: KeyContext, tag: str, time_us: int) -> Iterable[tuple[str, Any]]:
        del time_us
        return [(context.key, context.state.pop(tag))]


def _beside(numbers: PCollection[int], windowed: PCollection[int]) -> list[Flow]:
    """What looks at another collection, or keeps state."""
    counts: PCollection[Any] = windowed.accumulating().count(name="counts")
    joined = windowed.map(_doubled, name="left").join(windowed.filter(_is_kept, name="right"), name="pairs")
    found: dict[str, PCollection[Any]] = {
        "joined": joined.map(_product),
        "different": windowed.distinct(),
        "enriched": numbers.enrich(counts, _with_own, name="with own").window_into(FixedWindows(_SPAN_US)),
        "informed": numbers.side_input(counts, _with_all, shards=2, name="with all").window_into(FixedWindows(_SPAN_US)),
        "closed": numbers.par_do_stateful(_Closing(), name="closing").window_into(FixedWindows(2 * _SPAN_US)),
    }  # fmt: skip
    return [collection.accumulating().sum(name=name).to(name) for name, collection in found.items()]


def _further(numbers: PCollection[int], windowed: PCollection[int]) -> list[Flow]:
    """Functions of keys, tuples, a hot key, triggers on percentiles and with early panes, and a side input that takes back."""
    adding = CombineFn(int, operator.add, operator.add)
    early = (
        windowed.trigger(Repeat(AnyOf(AtCount(1), AtWatermark())))
        .accumulating_and_retracting()
        .count(name="early")
    )
    enriched = numbers.enrich(early, _with_own, name="with early").window_into(FixedWindows(_SPAN_US))
    tuples = windowed.map(_as_tuple, name="as tuple").accumulating().group(name="grouped tuples")
    in_time = after_watermark(early=AtCount(2), late=AtCount(1))
    slow = windowed.trigger(Repeat(AtWatermark(percentile=60))).accumulating()
    found: dict[str, PCollection[Any]] = {
        "keyed": windowed.map(_of_key, with_key=True, name="of key").accumulating().sum(name="keyed"),
        "tuples": tuples.map(_of_tuples, name="of tuples").accumulating().sum(name="tuples"),
        "spread": windowed.accumulating().combine(adding, fanout=3, name="spread"),
        "again enriched": enriched.accumulating().sum(name="again enriched"),
        "in time": windowed.trigger(in_time).accumulating().sum(name="in time"),
        "mostly": slow.sum(name="mostly"),
        "first": windowed.trigger(AnyOf(AtCount(1), AtWatermark(percentile=60)), allow_unsafe_triggers=True).count(name="first"),
    }  # fmt: skip
    return [collection.to(name) for name, collection in found.items()]


def _seldom(numbers: PCollection[int], windowed: PCollection[int], totals: PCollection[int]) -> list[Flow]:
    """Tags, values of a class, sliding and many windows, a side input that forgets, a hot key's mean, and what is gone again."""
    counts: PCollection[Any] = windowed.accumulating().count(name="counts to forget")
    forgetful = numbers.allowed_lateness(0).enrich(counts, _with_own, name="with own, and forgets")
    readings = windowed.with_types(_Reading).map(_Reading, name="as reading").accumulating()
    tagged = windowed.map(_next, name="next").par_do_tagged(_by_parity, "even", "odd", name="parity")
    gone = totals.discarding().sum(name="gained and lost")
    fine = (
        numbers.filter(_is_left_out, name="left out")
        .window_into(SlidingWindows(_SPAN_US, _FINE_US))
        .accumulating()
        .sum(name="fine")
    )
    found: dict[str, PCollection[Any]] = {
        **{tag: collection.accumulating().sum(name=tag) for tag, collection in tagged.items()},
        "readings": readings.group(name="grouped readings").map(_of_readings, name="of readings").sum(name="readings"),
        "sliding": numbers.window_into(SlidingWindows(2 * _SPAN_US + 1, _SPAN_US)).accumulating().sum(name="sliding"),
        "forgetful": forgetful.window_into(FixedWindows(_SPAN_US)).accumulating().sum(name="forgetful"),
        "spread mean": windowed.accumulating().combine(MEAN, fanout=3, name="spread mean"),
        "gone": gone.accumulating().sum(name="gone"),
        "fine again": fine.window_into(FixedWindows(2 * _FINE_US)).accumulating().sum(name="fine again"),
        "own windows": numbers.window_into(_Overlapping()).accumulating().sum(name="own windows"),
        "phased": numbers.window_into(FixedWindows(_SPAN_US, phase_spread=True)).accumulating().sum(name="phased"),
        "weighty": windowed.trigger(Repeat(AnyOf(Custom(_Weighty(9)), AtWatermark()))).accumulating().sum(name="weighty"),
        "merged weighty": numbers.window_into(Sessions(_SPAN_US // 5)).trigger(Repeat(AnyOf(Custom(_Weighty(9)), AtWatermark())))
            .accumulating().sum(name="merged weighty"),
        "by tuples": windowed.key_by(_as_key, name="as key").accumulating().sum(name="by tuples"),
        "tripled": numbers.par_do_stateful(_Tripled(), name="tripling").window_into(FixedWindows(_SPAN_US)).accumulating()
            .sum(name="tripled"),
    }  # fmt: skip
    return [collection.to(name) for name, collection in found.items()]


def flows_pipeline() -> Pipeline:
    """Numbers that are mapped, filtered, keyed and moved, then combined in every way; and sums that are grouped once more."""
    numbers: PCollection[int] = read("numbers", bounded=True).allowed_lateness(None)
    windowed = numbers.window_into(FixedWindows(_SPAN_US))
    shaped = windowed.map(_doubled).filter(_is_kept).flat_map(_with_next).key_by(_residue).accumulating()
    flows: list[Flow] = [getattr(shaped, name)(name=name).to(name) for name in _COMBINED]
    flows.append(shaped.top(2, name="top").to("top"))
    both: PCollection[int] = flatten(windowed.par_do(_pairs), windowed.map(_doubled, name="doubled"))
    flows.append(both.accumulating().sum(name="flattened").to("flattened"))
    early = windowed.trigger(Repeat(AnyOf(AtCount(2), AtWatermark()))).accumulating_and_retracting()
    totals = early.sum(name="totals").key_by(_residue)
    flows += [getattr(totals, name)(name=f"again {name}").to(f"again {name}") for name in _TAKEN_BACK]
    flows += _beside(numbers, windowed) + _further(numbers, windowed) + _seldom(numbers, windowed, totals)
    first, *others = flows
    return sum(others, start=first).pipeline("flows")


def try_flows(seed: int) -> JudgedRun:
    """Run it under the plan of a seed, and judge it by the invariants and by what must come of the input."""
    pipeline = flows_pipeline()
    given, feed = input_of(pipeline, seed)

    def differing(history: History) -> list[str]:
        told, expected = told_panes(history, pipeline), _expected(given)
        told, phases = _without_phases(told, given)
        wrong = sorted({stream for stream, _, _ in told.keys() ^ expected.keys()} | {
            where[0] for where in told.keys() & expected.keys() if told[where] != expected[where]
        })  # fmt: skip
        return wrong + phases + _waiting(history, pipeline)

    return try_layer(pipeline, feed, seed, differing)


def try_layer(
    pipeline: Pipeline, feed: Feed, seed: int, differing: Callable[[History], Sequence[str]]
) -> JudgedRun:
    """Run a pipeline of the layer under the plan of a seed, two of four times in small chunks.

    Args:
        pipeline: the pipeline.
        feed: its input, which has nothing late.
        seed: of the plan.
        differing: names the streams that differ from what plain Python makes of the input.
    """
    pipeline = in_small_chunks(pipeline) if seed % 4 > 1 else pipeline
    workload = Workload(pipeline.name, pipeline, lambda _: feed, ClusterOptions(grace_us=15 * SECOND))
    plan = plan_of(workload, feed, seed)
    in_time = [fault for fault in plan.faults.planned if not _makes_late(fault)]
    plan = msgspec.structs.replace(
        plan,
        faults=plan.faults.with_planned(in_time),
        options=msgspec.structs.replace(plan.options, limit_us=600 * SECOND),
    )

    def by_model(history: History) -> dict[str, Verdict]:
        wrong = differing(history)
        what = f"{', '.join(wrong)} differ from what plain Python makes of the same input" if wrong else ""
        what = what or badly_kept(history, pipeline)
        return by_calm(workload, plan, history) | ({"model": Violated(what, ())} if what else {})

    return try_plan(Application.with_input(pipeline, feed), PipelineTrial(plan), more=by_model)


def _waiting(history: History, pipeline: Pipeline) -> list[str]:
    """Name the stream whose first window should not have waited for the few records that its percentile leaves behind."""
    codec = pipeline.codec("mostly")
    for event in history:
        if isinstance(event, Output) and event.production.stream == "mostly":
            pane: Pane = codec.decode(event.production.value)
            is_late = event.at_us > pane.window.end + SECOND and not any(
                isinstance(other, FaultStruck) for other in history
            )
            return ["mostly"] if is_late or pane.timing is not Timing.EARLY else []
    return ["mostly"]


def _without_phases(
    told: "Mapping[Where, Any]", given: Iterable[Given]
) -> "tuple[dict[Where, Any], list[str]]":
    """Leave out windows whose phase is their key's own, and return whether these hold what there is of each key, once."""
    phased = {(key, start): value for (stream, key, start), value in told.items() if stream == "phased"}
    phases = {key: {start % _SPAN_US for other, start in phased if other == key} for key, _ in phased}
    sums: Counter[tuple[str, int]] = Counter()
    for element in given:
        phase = min(phases.get(element.key, {0}))
        sums[element.key, element.time - (element.time - phase) % _SPAN_US] += element.value
    alike = len(phases) > 1 and len({min(found) for found in phases.values()}) == 1
    wrong = ["phased"] if phased != sums or alike or any(len(found) > 1 for found in phases.values()) else []
    return {where: value for where, value in told.items() if where[0] != "phased"}, wrong


def _makes_late(fault: object) -> bool:
    """Return whether a fault lets records be dropped, of which the model knows nothing."""
    return isinstance(fault.fault if isinstance(fault, StepFault) else fault, LateRecords)


def input_of(pipeline: Pipeline, seed: int, keys: str = "ab") -> tuple[list[Given], Feed]:
    """Numbers of two keys, in some disorder, none of them late; then the end of the source.

    In every other input, times are whole tenths of a second, so that many fall on the boundaries of windows.
    """
    random, builder, at_us = Random(f"{seed}/flows"), FeedBuilder(pipeline), 500 * MILLISECOND
    given, step_ms = [], 1 if seed % 2 else 100
    for _ in range(_RECORDS):
        at_us += random.randrange(0, 300, step_ms) * MILLISECOND
        time = at_us - random.randrange(0, 400, step_ms) * MILLISECOND
        element = Given(random.choice(keys), random.randint(1, 9), time)
        given.append(element)
        builder.record(at_us=at_us, value=element.value, timestamp=element.time, key=element.key)
        builder.watermark(at_us=at_us + 1, low_watermark=at_us - 500 * MILLISECOND)
    builder.watermark(at_us=at_us + 2 * SECOND, low_watermark=at_us + 2 * SECOND)
    return given, builder.build()


Where = tuple[str, str, int]
"""Stream, key, and where the window begins."""


def _expected(given: Iterable[Given]) -> dict[Where, Any]:
    plain: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    shaped: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    flattened: Counter[tuple[str, int]] = Counter()
    for element in given:
        start = element.time - element.time % _SPAN_US
        plain[element.key, start].append(element.value)
        flattened[element.key.upper(), start] += element.value
        flattened[element.key, start] += 2 * element.value - element.value
        if _is_kept(2 * element.value):
            for value in _with_next(2 * element.value):
                shaped[_residue(value), start].append(value)
    again: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for (_, start), values in plain.items():
        again[_residue(sum(values)), start].append(sum(values))
    found: dict[Where, Any] = {("flattened", *where): total for where, total in flattened.items()}
    for name, combine in {**_COMBINED, "top": _greatest_two}.items():
        found |= {(name, *where): combine(values) for where, values in shaped.items()}
    found |= _expected_beside(given, plain)
    for (key, start), values in plain.items():
        found["keyed", key, start] = sum(_of_key(key, value) for value in values)
        found["again enriched", key, start] = found["enriched", key, start]
        found["forgetful", key, start] = found["enriched", key, start]
        found["spread mean", key, start] = _mean(values)
        found["first", key, start] = 1
        found |= {
            (name, key, start): sum(values) for name in ("spread", "in time", "mostly", "tuples", "readings")
        }
        for tag, remainder in (("even", 0), ("odd", 1)):
            if tagged := [value + 1 for value in values if (value + 1) % 2 == remainder]:
                found[tag, key, start] = sum(tagged)
    found |= _expected_seldom(given, plain)
    found |= {("gone", *where): sum(values) for where, values in again.items()}
    for name, combine in _TAKEN_BACK.items():
        found |= {(f"again {name}", *where): combine(values) for where, values in again.items()}
    return found


def _expected_seldom(given: Iterable[Given], plain: Mapping[tuple[str, int], list[int]]) -> dict[Where, Any]:
    found: Counter[Where] = Counter()
    for key, elements in by_key(given).items():
        found.update({("own windows", key, start): total for start, total in _overlapping(elements).items()})
        for element in elements:
            begin = element.time - element.time % _SPAN_US
            for first in (begin - 2 * _SPAN_US, begin - _SPAN_US, begin):
                if element.time <= first + 2 * _SPAN_US:
                    found["sliding", key, first] += element.value
        for end, total in _finely(elements).items():
            found["fine again", key, (end - 1) // (2 * _FINE_US) * 2 * _FINE_US] += total
        found.update(
            {("merged weighty", key, start): total for start, total in sums_of_sessions(elements).items()}
        )
    for (key, start), values in plain.items():
        found["weighty", key, start] = sum(values)
        found["tripled", key, start] = 3 * sum(values)
        for value in values:
            found["by tuples", f'=["residue",{value % 2},null]', start] += value
    return dict(found)


def by_key(given: Iterable[Given]) -> Mapping[str, list[Given]]:
    """The elements of each key, by time."""
    found: defaultdict[str, list[Given]] = defaultdict(list)
    for element in sorted(given, key=lambda element: element.time):
        found[element.key].append(element)
    return found


def _overlapping(given: Iterable[Given]) -> Mapping[int, int]:
    sums: Counter[int] = Counter()
    for element in given:
        half = element.time - element.time % (_SPAN_US // 2)
        sums[half] += element.value
        sums[half - _SPAN_US // 2] += element.value
    return sums


def _finely(given: Iterable[Given]) -> Mapping[int, int]:
    """Sums of what is left out, by the ends of the windows that it slides through."""
    sums: Counter[int] = Counter()
    for element in given:
        if _is_left_out(element.value):
            first = element.time - element.time % _FINE_US + _FINE_US
            sums.update(dict.fromkeys(range(first, first + _SPAN_US, _FINE_US), element.value))
    return sums


def sums_of_sessions(given: Iterable[Given]) -> Mapping[int, int]:
    """Sums of what comes within a fifth of a second of what was before; ``given``: of one key, by time."""
    sums: dict[int, int] = {}
    start = last = -_SPAN_US
    for element in given:
        if element.time > last + _SPAN_US // 5:
            start = element.time
        last = element.time
        sums[start] = sums.get(start, 0) + element.value
    return sums


def _expected_beside(given: Iterable[Given], plain: Mapping[tuple[str, int], list[int]]) -> dict[Where, Any]:
    found: Counter[Where] = Counter()
    for element in given:
        start = element.time - element.time % _SPAN_US
        # The count of a second is known from its last microsecond on.
        ended = sorted((begin, key) for key, begin in plain if begin + _SPAN_US - 1 <= element.time)
        counts = {key: len(plain[key, begin]) for begin, key in ended}
        found["enriched", element.key, start] += _with_own(element.value, counts.get(element.key))
        found["informed", element.key, start] += _with_all(element.value, counts)
    for (key, start), values in plain.items():
        found["different", key, start] = sum(set(values))
        kept = [value for value in values if _is_kept(value)]
        if kept:
            found["joined", key, start] = 2 * sum(values) * sum(kept)
        end = start + _SPAN_US
        found["closed", key, end - end % (2 * _SPAN_US)] += sum(values)
    return dict(found)


def told_panes(history: History, pipeline: Pipeline) -> dict[Where, Any]:
    """The last pane of each key and window; none, if it was taken back."""
    found: dict[Where, tuple[int, Any]] = {}
    ends: dict[Where, int] = {}
    for event in history:
        if not isinstance(event, Output):
            continue
        element = event.production
        pane: Pane = pipeline.codec(element.stream).decode(element.value)
        assert pane.time == pane.window.end - 1, "no window here is the global one"
        where = (element.stream, element.key, pane.window.start)
        ends[where] = max(pane.window.end, ends.get(where, pane.window.end))
        value = sorted(pane.value) if element.stream == "group" else pane.value
        if not pane.retraction and pane.index >= found.get(where, (-1, None))[0]:
            found[where] = pane.index, value
        elif pane.retraction and found.get(where, (-1, None))[0] < pane.index:
            found[where] = pane.index, None
    return {
        where: value
        for where, (_, value) in found.items()
        if value is not None
        and not (where[0] == "gone" and value == 0)  # as much has come as has gone
        and not any(_merged(where, other, ends) for other in found if where[0] == "merged weighty")
    }


def _merged(where: Where, other: Where, ends: Mapping[Where, int]) -> bool:
    """Return whether one window has become part of another of its key."""
    return where[:2] == other[:2] and other[2] < where[2] < ends[other]
