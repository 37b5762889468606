"""Any run drawn in event time: the elements of one key, its results, and the low watermark that its timers saw (Dataflow 2.4)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from headrace import MAX_TIME, MIN_TIME, SECOND, HeadraceError, Pipeline
from headrace.dataflow import GLOBAL, Pane
from headrace.history import Applied, Delivered, Event, Injected, InputWatermarkAdvanced
from headrace.wire.rows import Production
from headrace_properties.explain.pictures.event_time_chart import DrawnResult, EventTimeChart, PlottedElement
from headrace_properties.printable import visible

_LABEL = 3
"""Choice: a value with more characters does not fit into an element's circle."""

_VALUE = 24
"""Choice: nor one with more of them at a pane's top."""

_EPOCH_US = 1_000_000_000 * SECOND
"""Choice: event times from here on are dates."""


class NothingToDrawError(HeadraceError):
    """A run has no results that can be drawn. Fields: pipeline, reason."""

    def __init__(self, pipeline: str, reason: str) -> None:
        super().__init__(pipeline, reason)
        self.pipeline, self.reason = pipeline, reason

    def __str__(self) -> str:
        """Say why."""
        return f"there is nothing to draw of {self.pipeline}: {self.reason}"


def chart_of(events: Sequence[Event], pipeline: Pipeline, key: str | None = None) -> EventTimeChart:
    """Draw what a run did with one key.

    Args:
        events: the run's History.
        pipeline: what ran.
        key: whose results; ``None``: the key with the most of them. Computations that send outside are drawn, and of several
            with this key the one with the most results.

    Raises:
        NothingToDrawError: no result went outside, or none of this key.
    """
    outputs = _outputs(events, pipeline)
    counted = Counter(
        (computation, output.key) for computation, _, output in outputs if key in (None, output.key)
    )
    if not counted:
        reason = "no result of a computation went outside"
        raise NothingToDrawError(pipeline.name, reason if key is None else f"{reason} with key {key!r}")
    computation, key = min(counted, key=lambda place: (-counted[place], place))
    arrivals = _arrivals(events, pipeline, computation, key)
    results = [
        _result(pipeline, at_us, output, arrivals)
        for producer, at_us, output in outputs
        if (producer, output.key) == (computation, key)
    ]
    across = _range(
        [arrival.event_us for arrival in arrivals]
        + [
            time
            for result in results
            for time in (result.start_us, result.end_us)
            if MIN_TIME < time < MAX_TIME
        ]
    )
    up = _range([arrival.at_us for arrival in arrivals] + [result.at_us for result in results])
    results = [_within(result, across) for result in results]
    is_date = across[0] >= _EPOCH_US
    return EventTimeChart(
        title=f"{pipeline.name}: {computation} of {visible(repr(key))}",
        arrivals=arrivals,
        results=results,
        watermarks=[_watermark(events, computation, key, across, up)],
        across=across,
        up=up,
        clock=_seconds,
        event_tick=_date if is_date else _seconds,
        tick=_seconds,
        ideal=not is_date and across[0] < up[1] and up[0] < across[1],
    )


def _outputs(events: Iterable[Event], pipeline: Pipeline) -> list[tuple[str, int, Production]]:
    """Return what was durably sent outside: by which computation and when, each once."""
    wanted = set(pipeline.output_streams)
    outputs: dict[str, tuple[str, int, Production]] = {}
    for event in events:
        if isinstance(event, Applied):
            for production in event.delta.productions:
                if production.stream in wanted:
                    outputs.setdefault(production.record_id, (event.computation, event.at_us, production))
    return list(outputs.values())


def _arrivals(
    events: Iterable[Event], pipeline: Pipeline, computation: str, key: str
) -> list[PlottedElement]:
    """Return the elements of a key in order of their first delivery."""
    sent: dict[str, Production] = {}
    delivered: dict[str, int] = {}
    for event in events:
        productions: Iterable[Production] = ()
        if isinstance(event, Injected):
            productions = event.productions
        elif isinstance(event, Applied):
            productions = event.delta.productions
        elif isinstance(event, Delivered) and event.computation == computation:
            delivered.setdefault(event.record_id, event.at_us)
        for production in productions:
            if (production.consumer, production.key) == (computation, key):
                sent.setdefault(production.record_id, production)
    return [
        PlottedElement(sent[name].timestamp, at_us, _short(_decoded(pipeline, sent[name]), _LABEL))
        for name, at_us in delivered.items()
        if name in sent
    ]


def _decoded(pipeline: Pipeline, production: Production) -> Any:
    return pipeline.codec(production.stream).decode(production.value)


def _short(value: Any, most: int) -> str:
    """Return a value's text; of a mapping with one number, that number; empty if it is too long."""
    if isinstance(value, Pane):
        value = value.value
    if isinstance(value, Mapping):
        numbers = [
            number
            for number in value.values()
            if isinstance(number, int | float) and not isinstance(number, bool)
        ]
        value = numbers[0] if len(numbers) == 1 else value
    text = visible(str(value))
    return text if len(text) <= most else ""


def _result(
    pipeline: Pipeline, at_us: int, output: Production, arrivals: Sequence[PlottedElement]
) -> DrawnResult:
    value = _decoded(pipeline, output)
    words, text = visible(repr(value)), _short(value, _VALUE)
    if not isinstance(value, Pane):
        return DrawnResult(
            output.timestamp, output.timestamp, at_us, at_us, text, f"{output.stream}: {words}"
        )
    start_us, end_us = value.window.start, value.window.end
    came = [
        arrival.at_us
        for arrival in arrivals
        if value.window == GLOBAL or start_us <= arrival.event_us < end_us
    ]  # the first element's arrival
    begin_us = min(came, default=at_us)
    return DrawnResult(start_us, end_us, min(begin_us, at_us), at_us, text, words, value.retraction)


def _within(result: DrawnResult, across: tuple[int, int]) -> DrawnResult:
    first, last = across
    return DrawnResult(
        max(result.start_us, first), min(result.end_us, last), result.begin_us, result.at_us, result.value, result.words,
        result.retraction,
    )  # fmt: skip


def _range(times: Sequence[int]) -> tuple[int, int]:
    """Return a range with some room around."""
    first, last = min(times), max(times)
    room = max((last - first) // 12, SECOND // 10)
    return first - room, last + room


def _watermark(
    events: Iterable[Event], computation: str, key: str, across: tuple[int, int], up: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return the input's low watermark as the owners of the key saw it, as steps within the picture."""
    owners = {
        event.sequencer
        for event in events
        if isinstance(event, Applied) and (event.computation, event.delta.key) == (computation, key)
    }
    line = [(across[0], up[0])]
    for event in events:
        if isinstance(event, InputWatermarkAdvanced) and event.sequencer in owners:
            reached, at_us = min(max(event.low_watermark, across[0]), across[1]), event.at_us
            if reached > line[-1][0] and at_us <= up[1]:
                line += [(line[-1][0], at_us), (reached, at_us)]
    return [*line, (line[-1][0], up[1])]


def _seconds(at_us: int) -> str:
    return f"{at_us / SECOND:.9g} s"


def _date(at_us: int) -> str:
    text = datetime.fromtimestamp(at_us / SECOND, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
    return text.replace(" ", "\n", 1)
