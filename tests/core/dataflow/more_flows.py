"""A second pipeline of the Dataflow layer: keys of all kinds, joins, sessions in every combiner, times, and what leaves as it is.

As in `flows`, plain Python says what must come of it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from headrace import MIN_TIME, SECOND, JsonCodec, Pipeline, Record
from headrace.dataflow import (
    AfterDelay,
    AllOf,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    CombineFn,
    Element,
    FixedWindows,
    Flow,
    KeyContext,
    OrFinally,
    Pane,
    PCollection,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    Trigger,
    Window,
    co_group,
    flatten,
    read,
)
from headrace.history import History, Output
from headrace_properties.search.judging import JudgedRun
from tests.core.dataflow.flows import Given, by_key, input_of, try_layer

_Found = tuple[Any, ...]
"""Stream, key, and a window or value."""
_KEYS = "abc"
"""The source's; the pipeline's own are these."""
_OWN: Mapping[str, Any] = {"a": "a/b/ä", "b": ("t", (1, None)), "c": "=7"}
_TEXTS = {"a": "a/b/ä", "b": '=["t",[1,null]]', "c": '="=7"'}

_NUMBERS = JsonCodec()
_HALF_US, _GAP_US = SECOND // 2, SECOND // 5
_NEAR_US = SECOND // 10
"""Less than by how much an element is younger at least than those whose windows have ended."""
_BY_SESSION: Mapping[str, Callable[[list[int]], Any]] = {
    "mean": lambda values: sum(values) / len(values), "min": min, "max": max, "group": sorted, "count": len,
    "distinct": lambda values: sum(set(values)), "top": lambda values: sorted(values, reverse=True)[:3],
}  # fmt: skip


_ALL_TOLD = ("all of", "or finally", "until", "in turn")
"""By these triggers everything has been told in the end."""


def _triggers() -> Iterator[Trigger]:
    yield AllOf(AtCount(1), AtWatermark())
    yield OrFinally(Repeat(AtCount(2)), AtWatermark())
    yield RepeatUntil(AnyOf(AfterDelay(_GAP_US), AtPeriod(_HALF_US)), AtWatermark())
    yield SequenceOf(AtCount(3), AtWatermark())


def _own_key(record: Record) -> Any:
    return _OWN[record.key]


def _is_high(value: int) -> bool:
    return value > 3


def _is_odd(value: int) -> bool:
    return value % 2 > 0


def _time_of(value: int) -> int:
    return value * SECOND // 3


def _paired(pair: list[int | None]) -> int:
    left, right = pair
    return (100 if left is None else 10 * left) + (7 if right is None else right)


def _tenfold(value: int) -> int:
    return 10 * value


def _same(value: Any) -> Any:
    return value


def _with_count(value: int, count: int | None) -> int:
    return 10 * value + (count or 0)


def _odd_value(value: int) -> dict[Any, Any]:
    plain = {"t": (value, 1)}  # but for a tuple
    return {1: Decimal(value), ("x", 2): b"y", "$s": frozenset({value}), "n": {"$set": (value,)}, "p": plain}


def _of_odd_values(values: list[dict[Any, Any]]) -> int:
    return sum(int(value[1]) for value in values if value == _odd_value(int(value[1])))


def _of_labels(values: dict[str, list[int]]) -> int:
    return 100 * sum(values["all"]) + sum(values["high"])


@dataclass(frozen=True, slots=True)
class _ByKind:
    """Windows by the key itself: half a period over each other, of one second or two; or one that begins before all time."""

    def assign_windows(self, element: Element) -> Iterable[Window]:
        return _windows_by_kind(element.key, element.time)

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        return windows


def _windows_by_kind(key: Any, time: int) -> list[Window]:
    if key == "a/b/ä":
        return [Window(MIN_TIME - 5, 100 * SECOND)]
    size = SECOND if isinstance(key, tuple) else 2 * SECOND
    end = time - time % size + size
    windows = [
        Window(end - size, end),
        Window(end - size // 2, end + size // 2),
        Window(end - 3 * size // 2, end - size // 2),
    ]
    return [window for window in windows if window.contains(time)]


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Instants that lie close together become a window: those that merge neither overlap nor touch."""

    def assign_windows(self, element: Element) -> Iterable[Window]:
        return [Window(element.time, element.time + 1)]

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        merged: list[Window] = []
        for window in sorted(windows, key=lambda window: window.start):
            if merged and window.start - merged[-1].end < _NEAR_US:
                merged[-1] = Window(merged[-1].start, max(window.end, merged[-1].end))
            else:
                merged.append(window)
        return merged


class _Marking:
    """Sets a timer for each element, and cancels those of some."""

    def initial_state(self) -> None:
        return None

    def process(self, context: KeyContext, element: Element) -> Iterable[tuple[Any, Any]]:
        tag = f"{element.time} {element.value}"
        context.set_timer(tag, element.time)
        if not _is_odd(element.value):
            context.cancel_timer(tag)
        return ()

    def on_timer(self, context: KeyContext, tag: str, time_us: int) -> Iterable[tuple[Any, Any]]:
        assert tag.startswith(f"{time_us} ")
        return [(context.key, 1)]


def more_flows_pipeline() -> Pipeline:
    """Write it."""
    numbers: PCollection[int] = read("numbers", key=_own_key, bounded=True).allowed_lateness(None)
    again: PCollection[int] = read("numbers", key=_own_key, codec=_NUMBERS, bounded=True).allowed_lateness(
        None
    )
    bare: PCollection[int] = read("numbers", key=_own_key, bounded=True)
    windowed = numbers.window_into(FixedWindows(SECOND))
    sessions = numbers.window_into(Sessions(_GAP_US)).accumulating()
    early = Repeat(AnyOf(AtCount(1), AtWatermark()))
    totals = (
        windowed.trigger(Repeat(AnyOf(AtCount(2), AtWatermark())))
        .accumulating_and_retracting()
        .sum(name="totals")
    )
    lengths: PCollection[Any] = sessions.trigger(early).accumulating_and_retracting().count(name="lengths")
    flows: list[Flow] = [totals.to("totals"), totals.map(_same, name="same").to("mapped")]
    flows.append(numbers.with_time(_time_of, name="at times").to("timed"))
    flows.append(bare.map(_tenfold, name="tenfold").to("plain"))
    low = bare.filter(_is_odd, name="plain odd").map(_tenfold, name="tenfold")
    flows.append(flatten(low, bare.filter(_is_high, name="plain high")).to("either"))
    flows.append(totals.discarding().trigger(early).max(name="owed").to("owed"))
    flows.append(
        totals.discarding()
        .trigger(early)
        .group(name="owed group")
        .map(sum, name="owed sum")
        .to("owed in all")
    )
    plain = CombineFn(int, lambda total, value: total + value, lambda one, other: one + other)
    found: dict[str, PCollection[Any]] = {
        "moved": numbers.with_time(_time_of, name="with time").window_into(FixedWindows(SECOND)).accumulating().sum(name="moved"),
        "shards": windowed.accumulating().combine(plain, fanout=5, name="shards"),
        "counted": numbers.enrich(lengths, _with_count, name="with length").window_into(FixedWindows(SECOND)).accumulating()
            .sum(name="counted"),
        "self": again.enrich(numbers, _with_count, name="with itself").window_into(FixedWindows(SECOND)).accumulating()
            .sum(name="self"),
        "by kind": numbers.window_into(_ByKind()).accumulating().sum(name="by kind"),
        "odd values": windowed.map(_odd_value, name="odd value").accumulating().group(name="grouped odd")
            .map(_of_odd_values, name="of odd values"),
        "marks": numbers.par_do_stateful(_Marking(), name="marking").window_into(FixedWindows(SECOND)).accumulating()
            .sum(name="marks"),
        "labels": co_group(
            {"all": sessions.map(_same, name="all"), "high": sessions.filter(_is_high, name="high")}, name="labels"
        ).map(_of_labels, name="of labels"),
        "gaps": numbers.window_into(SlidingWindows(SECOND // 4, SECOND // 2, SECOND // 10)).accumulating().sum(name="gaps"),
        "earliest": windowed.timestamps_of_panes(TimestampCombiner.EARLIEST).accumulating().sum(name="earliest sums")
            .timestamps_of_panes(TimestampCombiner.END_OF_WINDOW).allowed_lateness(0).window_into(FixedWindows(_HALF_US))
            .sum(name="earliest"),
    }  # fmt: skip
    chained = totals.window_into(Sessions(SECOND)).accumulating().group(name="chained group")
    found["chained"] = chained.map(sum, name="chained")
    found["chained most"] = totals.window_into(Sessions(SECOND)).accumulating().max(name="chained most")
    found["neighbours"] = numbers.window_into(_Neighbours()).accumulating().sum(name="neighbours")
    for name, trigger in zip(_ALL_TOLD, _triggers(), strict=True):
        found[name] = windowed.trigger(Repeat(trigger)).accumulating().sum(name=name)
    for how in ("left", "right", "outer"):
        right = windowed.filter(_is_odd, name=f"{how} odd")
        joined = windowed.filter(_is_high, name=f"{how} high").join(right, how=how, name=f"{how} pairs")
        found[how] = joined.map(_paired, name=f"{how} paired").accumulating().sum(name=how)
    for name in [name for name in _BY_SESSION if name != "distinct"]:
        combined = sessions.top(3, name="top") if name == "top" else getattr(sessions, name)(name=name)
        found[name] = combined.map(sorted, name="in order") if name == "group" else combined
    found["distinct"] = sessions.distinct(name="different").accumulating().sum(name="distinct")
    flows += [collection.to(name) for name, collection in found.items()]
    first, *others = flows
    return sum(others, start=first).pipeline("more flows")


def try_more_flows(seed: int) -> JudgedRun:
    """Run it under the plan of a seed, and judge it by the invariants and by what must come of the input."""
    pipeline = more_flows_pipeline()
    given, feed = input_of(pipeline, seed, _KEYS)

    def differing(history: History) -> list[str]:
        told, expected = _told(history, pipeline), _expected(given)
        assert pipeline.codec("numbers") is _NUMBERS, "one of the readers gives a codec"
        assert pipeline.computations.keys() >= {"totals", "chained", "tenfold", "tenfold-2"}, (
            "names are as they were given"
        )
        names = told.keys() | expected.keys()
        return sorted({where[0] for where in names if told.get(where) != expected.get(where)})

    return try_layer(pipeline, feed, seed, differing)


def _told(history: History, pipeline: Pipeline) -> dict[_Found, Any]:
    """The last pane of each key and window; of some streams, all that has come."""
    found: dict[_Found, Any] = {}
    latest: dict[_Found, int] = {}
    counts: Counter[_Found] = Counter()
    alike: Counter[tuple[str, str, int]] = Counter()
    for event in history:
        if not isinstance(event, Output):
            continue
        made = event.production
        value = pipeline.codec(made.stream).decode(made.value)
        if not isinstance(value, Pane):
            counts[made.stream, made.key, value] += 1
            continue
        if made.stream == "timed":
            counts["timed", made.key, (value.value, value.time, value.index, value.retraction)] += 1
            continue
        where: _Found = (made.stream, made.key, value.window.start)
        if made.stream in ("totals", "mapped"):
            alike[made.key, repr(value), value.time] += 1 if made.stream == "totals" else -1
        if made.stream.startswith("owed"):
            counts[where] += -value.value if value.retraction else value.value
        elif not value.retraction:
            where = (*where, value.window.end) if made.stream == "by kind" else where
            if value.index >= latest.get(where, 0):
                found[where], latest[where] = value.value, value.index
    return (
        found
        | {where: count for where, count in counts.items() if count}
        | {("mapped",): any(alike.values())}
    )


def _expected(given: Iterable[Given]) -> dict[_Found, Any]:
    found: defaultdict[_Found, Any] = defaultdict(int, {("mapped",): False})
    seconds: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    firsts: dict[tuple[str, int], int] = {}
    for key, elements in by_key(given).items():
        text = _TEXTS[key]
        sessions = _sessions_of(elements)
        marked = {(element.time, element.value) for element in elements if _is_odd(element.value)}
        for time, _ in marked:
            found["marks", text, time - time % SECOND] += 1
        for element in elements:
            value, time, start = element.value, element.time, element.time - element.time % SECOND
            seconds[text, start].append(value)
            firsts[text, start] = min(time, firsts.get((text, start), time))
            found["plain", text, 10 * value] += 1
            found["timed", text, (value, _time_of(value), 0, False)] += 1
            if _is_odd(value):
                found["either", text, 10 * value] += 1
            if _is_high(value):
                found["either", text, value] += 1
            found["moved", text, _time_of(value) - _time_of(value) % SECOND] += value
            lengths = [len(some) for some in sessions if some[-1].time + _GAP_US <= time]
            found["counted", text, start] += _with_count(value, lengths[-1] if lengths else None)
            known = max(
                (one for one in elements if one.time <= time), key=lambda one: (one.time, str(one.value))
            )
            found["self", text, start] += _with_count(value, known.value)
            for window in _windows_by_kind(_OWN[key], time):
                found["by kind", text, max(window.start, MIN_TIME), window.end] += value
            late = (time - SECOND // 10) % _HALF_US
            if late < SECOND // 4:
                found["gaps", text, time - late] += value
        found |= _expected_sessions(text, elements)
    for (text, start), values in seconds.items():
        for name in ("totals", "owed", "owed in all", "shards", "odd values", *_ALL_TOLD):
            found[name, text, start] = sum(values)
        first = firsts[text, start]
        found["earliest", text, first - first % _HALF_US] += sum(values)
        found |= {(how, text, start): total for how, total in _joined(values).items()}
    mapped = {("mapped", *where[1:]): value for where, value in found.items() if where[0] == "totals"}
    return found | mapped


def _expected_sessions(text: str, elements: Sequence[Given]) -> dict[_Found, Any]:
    found: dict[_Found, Any] = {}
    for some in _sessions_of(elements, by_second=True):
        begin = some[0].time - some[0].time % SECOND + SECOND - 1
        sums: Counter[int] = Counter()
        for one in some:
            sums[one.time // SECOND] += one.value
        found["chained", text, begin] = sum(sums.values())
        found["chained most", text, begin] = max(sums.values())
    begin, last = 0, -SECOND
    for one in elements:
        if one.time - last > _NEAR_US:
            begin = one.time
        last = one.time
        found["neighbours", text, begin] = found.get(("neighbours", text, begin), 0) + one.value
    for some in _sessions_of(elements):
        values = [element.value for element in some]
        for name, combine in _BY_SESSION.items():
            found[name, text, some[0].time] = combine(values)
        found["labels", text, some[0].time] = 100 * sum(values) + sum(filter(_is_high, values))
    return found


def _sessions_of(elements: Sequence[Given], *, by_second: bool = False) -> list[list[Given]]:
    """Elements by session; ``by_second``: of the sums of seconds, a second apart."""
    found: list[list[Given]] = []
    for element in elements:
        unit, gap = (SECOND, 1) if by_second else (1, _GAP_US)
        if found and element.time // unit <= found[-1][-1].time // unit + gap:
            found[-1].append(element)
        else:
            found.append([element])
    return found


def _joined(values: Iterable[int]) -> dict[str, int]:
    """Sums of the pairs of each join that has any."""
    high, odd = [*filter(_is_high, values)], [*filter(_is_odd, values)]
    nothing: list[int | None] = [None]
    sides = {
        "left": (high, odd or nothing),
        "right": (high or nothing, odd),
        "outer": (high or nothing, odd or nothing),
    }
    pairs = {
        how: [_paired([one, other]) for one in ones for other in others]
        for how, (ones, others) in sides.items()
    }
    if not high and not odd:
        pairs["outer"] = []
    return {how: sum(some) for how, some in pairs.items() if some}
