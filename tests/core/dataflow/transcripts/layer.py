"""A transcript's steps on the layer's pure logic, without an engine: a minimal host."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headrace import MAX_TIME, MIN_TIME, Clock
from headrace.dataflow import END_OF_TIME, Grouping, KeyState, Pane
from headrace.dataflow.value_codecs import ValueCodec
from headrace_scenarios.figures.groupings import EmittedPane, InputStep, Query, emission_of


def run_layer(
    query: Query, steps: Sequence[InputStep], make: Callable[..., Grouping] = Grouping
) -> list[EmittedPane]:
    """Compute the panes of a history.

    Args:
        query: what is grouped, and how.
        steps: in order of time.
        make: the logic; default: the layer's own.
    """
    return _hosted(query, steps, make, _MOST).panes


class LayerRun(NamedTuple):
    """The panes of a history, and how many elements the layer reports as dropped: one in each of their windows that did."""

    panes: list[EmittedPane]
    dropped: int


_MOST = 2


def run_layer_counting(
    query: Query, steps: Sequence[InputStep], most: int = _MOST, percentile: float | None = None
) -> LayerRun:
    """Compute the panes of a history, and count what is dropped.

    Args:
        query: what is grouped, and how.
        steps: in order of time.
        most: windows in a chunk of a row.
        percentile: watermarks but the last are reports that this percentile's watermark has come so far; ``None``: they are the
            low watermark. What is due right before an element is left to the element's arrival.
    """
    host = _hosted(query, steps, Grouping, most, percentile)
    return LayerRun(host.panes, host.dropped)


def _hosted(
    query: Query,
    steps: Sequence[InputStep],
    make: Callable[..., Grouping],
    most: int,
    percentile: float | None = None,
) -> "_GroupingHost":
    host = _GroupingHost(
        make(
            windows=query.windows,
            trigger=query.trigger,
            accumulation=query.accumulation,
            combine=query.combine,
            allowed_lateness_us=query.allowed_lateness_us,
            engine=query.engine,
            timestamps=query.timestamps,
            compacts=query.compacts,
            takes_retractions=any(step.element is not None and step.element.retraction for step in steps),
        ),
        most,
        percentile,
    )
    for number, step in enumerate(steps):
        host.take(number, step)
    return host


_VALUES = ValueCodec()


class _GroupingHost:
    """Calls the logic at arrivals and at the times that it asks for, never otherwise.

    Args:
        grouping: the logic.
        most: windows in a chunk of a row.
        percentile: what watermarks report; ``None``: the low watermark.
    """

    def __init__(self, grouping: Grouping, most: int, percentile: float | None) -> None:
        self._grouping = grouping
        self._most = most
        self._percentile = percentile
        self._states: dict[str, KeyState] = {}
        self._watermark = self._reached = MIN_TIME
        self.panes: list[EmittedPane] = []

    @property
    def dropped(self) -> int:
        """The number of elements dropped."""
        return sum(state.dropped for state in self._states.values())

    def take(self, number: int, step: InputStep) -> None:
        """Advance time to a step, and perform it."""
        while (due_us := self._next_wall_us()) < step.at_us:
            due = [key for key in sorted(self._states) if due_us in self._alarms(key, Clock.WALL)]
            does_it = due == [step.element.key] if step.element is not None else self._is_reported(step)
            if does_it and due_us + 1 == step.at_us:
                break  # what arrives does first what is due
            for key in due:
                self._advance(number, key, due_us)
        if step.watermark is not None and self._is_reported(step):
            self._reached = max(self._reached, step.watermark)
            for key in sorted(self._states):
                self._report(number, step.at_us, key)
        elif step.watermark is not None:
            self._watermark = max(self._watermark, step.watermark)
            for key in sorted(self._states):
                self._advance_to_watermark(number, key, step.at_us - 1)
        if step.element is not None:
            key = step.element.key
            if key not in self._states:
                self._states[key] = self._grouping.initial_state()
                self._report(number, step.at_us, key)
            state = self._states[key]
            self._keep(
                number,
                step.at_us,
                key,
                self._grouping.element(state, step.element, step.at_us, self._watermark),
            )
            self._advance_to_watermark(number, key, step.at_us - 1)

    def _next_wall_us(self) -> int:
        return min((time for key in self._states for time in self._alarms(key, Clock.WALL)), default=MAX_TIME)

    def _alarms(self, key: str, clock: Clock) -> set[int]:
        return {alarm.time for alarm in self._grouping.alarms(self._states[key]) if alarm.clock is clock}

    def _advance_to_watermark(self, number: int, key: str, now: int) -> None:
        if any(time <= self._watermark for time in self._alarms(key, Clock.WATERMARK)):
            self._advance(number, key, now)
        left = [time for time in self._alarms(key, Clock.WATERMARK) if time <= self._watermark]
        assert not left, f"what it asked for at {left} has been done"

    def _is_reported(self, step: InputStep) -> bool:
        """Return whether a watermark is told to every key as a percentile's."""
        reached = step.watermark
        return self._percentile is not None and reached is not None and self._reached < reached < END_OF_TIME

    def _report(self, number: int, at_us: int, key: str) -> None:
        if self._percentile is not None:
            given = self._states[key], self._percentile, self._reached, at_us, self._watermark
            self._keep(number, at_us, key, self._grouping.percentile(*given))

    def _advance(self, number: int, key: str, now: int) -> None:
        self._keep(number, now + 1, key, self._grouping.advance(self._states[key], now, self._watermark))
        left = [time for time in self._alarms(key, Clock.WALL) if time <= now]
        assert not left, f"what it asked for at {left} has been done by {now}"

    def _keep(self, number: int, at_us: int, key: str, panes: Iterable[Pane]) -> None:
        """Take the panes; write and read the row, whose windows are in chunks."""
        self.panes += [emission_of(number, at_us, key, pane) for pane in panes]
        if type(self._grouping) is Grouping:  # and no mutant
            self._grouping.check_invariants(self._states[key])
            codec = self._grouping.row_codec(_VALUES, most=self._most)
            self._states[key] = codec.decode(codec.encode(self._states[key]))
