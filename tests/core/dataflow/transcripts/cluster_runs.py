"""A transcript's steps in the simulated cluster: an ordinary pipeline, fed by a source that plays them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from headrace import MAX_TIME, MILLISECOND, MIN_TIME, EngineOptions, Pipeline
from headrace.dataflow import GLOBAL, Accumulation, Pane, PCollection, read
from headrace.history import Event, Output
from headrace_scenarios.figures.groupings import (
    AFTER_US,
    LOST,
    EmittedPane,
    InputStep,
    Query,
    emission_of,
    feed_of,
    panes_of,
)
from headrace_sim import SOUND, ClusterOptions, FaultSchedule, Protocol, simulate
from headrace_sim.faults import NO_FAULTS
from tests.core.dataflow.transcripts.format import Transcript
from tests.core.dataflow.transcripts.matching import mismatches

TOLERANCE_US = 150 * MILLISECOND
"""Maximum deviation of a pane from its time without faults; wall time."""

PROMPT = ClusterOptions(
    engine=EngineOptions(
        report_period_us=10 * MILLISECOND,
        broadcast_period_us=10 * MILLISECOND,
        injector_journal_us=10 * MILLISECOND,
    )
)
"""A cluster in which a watermark is everywhere well within `LEAD_US`."""

GROUPING, PANES = "grouping", "panes"
"""The computation, and the stream of its panes."""


def pipeline_of(query: Query, dropped_to: str = "") -> Pipeline:
    """Write a grouping as a pipeline: ``events`` -> grouping -> ``panes``. ``dropped_to``: stream of what it drops, if any."""
    grouped: PCollection[Any] = _accumulating(
        read("events", bounded=True)
        .window_into(query.windows)
        .trigger(query.trigger, allow_unsafe_triggers=True),
        query,
    )
    grouped = grouped.allowed_lateness(query.allowed_lateness_us, dropped_to=dropped_to)
    grouped = grouped.timestamps_of_panes(query.timestamps)
    return grouped.combine(query.combine, name=GROUPING).to(PANES).pipeline("transcript", engine=query.engine)


def _accumulating(collection: PCollection[Any], query: Query) -> PCollection[Any]:
    match query.accumulation:
        case Accumulation.DISCARDING:
            return collection.discarding()
        case Accumulation.ACCUMULATING:
            return collection.accumulating()
        case Accumulation.ACCUMULATING_AND_RETRACTING:
            return collection.accumulating_and_retracting(compact=query.compacts)


def until_the_end(steps: Sequence[InputStep]) -> list[InputStep]:
    """Return the steps and the end of the source, as `feed_of` plays them."""
    end_us = max((step.at_us for step in steps), default=0) + AFTER_US
    return [*steps, InputStep(end_us, watermark=MAX_TIME)]


def run_cluster(
    query: Query,
    steps: Sequence[InputStep],
    *,
    faults: FaultSchedule = NO_FAULTS,
    options: ClusterOptions = PROMPT,
    seed: int = 0,
    protocol: Protocol = SOUND,
) -> list[Event]:
    """Run the steps in a cluster; return the History's events."""
    pipeline = pipeline_of(query)
    history = simulate(
        pipeline, feed_of(pipeline, steps), options=options, faults=faults, seed=seed, protocol=protocol
    )
    return list(history)


def received_panes(events: Iterable[Event], pipeline: Pipeline) -> list[EmittedPane]:
    """Return the panes sent outside, in the order of arrival."""
    stream, decode = panes_of(pipeline)
    outputs = [(event.at_us, event.production) for event in events if isinstance(event, Output)]
    return [
        emission_of(-1, at_us, output.key, decode(output.value))
        for at_us, output in outputs
        if output.stream == stream
    ]


def lost_elements(events: Iterable[Event], pipeline: Pipeline) -> Counter[tuple[str, Pane]]:
    """Key and pane of each element that was dropped, as they went outside."""
    decode = pipeline.codec(LOST).decode
    lost = [
        event.production for event in events if isinstance(event, Output) and event.production.stream == LOST
    ]
    return Counter((record.key, decode(record.value)) for record in lost)


def cluster_mismatches(transcript: Transcript, panes: Sequence[EmittedPane]) -> list[str]:
    """List the differences from a transcript, up to its last step; simultaneous steps count as one."""
    last = {step.at_us // MILLISECOND: number for number, step in enumerate(transcript.steps)}
    expected = [
        replace(expected, step=last[transcript.steps[expected.step or 0].at_us // MILLISECOND])
        for expected in transcript.expected
    ]
    placed = [replace(pane, step=_step_of(pane, transcript.steps, last)) for pane in panes]
    return mismatches(expected, [pane for pane in placed if pane.step >= 0])


def _step_of(pane: EmittedPane, steps: Sequence[InputStep], last: Mapping[int, int]) -> int:
    """Return the step by which a pane was emitted, judging by its time; -1: after the last one."""
    times = (step.at_us for step in steps if pane.at_us <= step.at_us + TOLERANCE_US)
    return last.get(next(times, -MILLISECOND) // MILLISECOND, -1)


def bare(panes: Iterable[EmittedPane]) -> dict[str, list[EmittedPane]]:
    """The panes of each key, without the wall times that hosts are not to share, nor event times that come of the watermark."""
    found: dict[str, list[EmittedPane]] = {}
    for pane in panes:
        time = MIN_TIME if pane.window == GLOBAL else pane.time
        found.setdefault(pane.key, []).append(replace(pane, step=-1, at_us=0, time=time))
    return found


def in_the_models_order(panes: Sequence[EmittedPane], told: Sequence[EmittedPane]) -> list[EmittedPane]:
    """Reorder the model's simultaneous panes like the cluster's, which may emit those of several windows moments apart.

    A delay begins when its first element arrives, and two that end together began after different times on the wire. The
    order within one step of the cluster is kept.
    """
    places: dict[tuple[str, object, int], tuple[int, int]] = {}
    numbers: Counter[tuple[str, object]] = Counter()
    for place, pane in enumerate(told):
        places[pane.key, pane.window, numbers[pane.key, pane.window]] = pane.at_us, place
        numbers[pane.key, pane.window] += 1
    numbers.clear()
    steps: list[tuple[int, int, list[EmittedPane]]] = []
    for key in dict.fromkeys(pane.key for pane in panes):
        for _, step in groupby([pane for pane in panes if pane.key == key], lambda pane: pane.at_us):
            found = list(step)
            first = found[0]
            at_us, place = places.get((key, first.window, numbers[key, first.window]), (-1, -1))
            numbers.update((key, pane.window) for pane in found)
            steps.append((at_us, place, found))
    ordered: list[EmittedPane] = []
    for _, together in groupby(steps, lambda step: step[0]):
        ordered += [pane for _, _, found in sorted(together, key=lambda step: step[1]) for pane in found]
    return ordered
