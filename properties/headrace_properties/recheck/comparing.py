"""Compare a recorded run with today's pipeline on the same input: step by step, and as entire runs with and without faults.

Rules of this file:

* **Steps**: each recorded step is run again by today's code, on the state that its row had then. This is exact: the order of
  arrival, the watermark and the clock are the recorded ones. Of the steps whose outcome differs, the first with the fewest
  records is shown.
* **Runs**: today's pipeline gets the recorded input in the simulated cluster, first without faults, then with. What goes outside
  must be what was recorded. Of all differing outputs, one that needs the fewest input records is shown.
* What the code declares (``ordered``, ``nondeterministic``) or may repeat (without exactly-once), and all downstream of it, is
  not compared. If records of the input were late, what differs in the runs is unknown: what they
  lead to, or prevent, depends on when they come. Steps are compared as usual.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from headrace import Encoded, HeadraceError, Pipeline, format_time
from headrace.api.codecs import decode_state
from headrace.api.specs import ComputationSpec
from headrace.wire.rows import Production
from headrace_properties.printable import describe_value, visible
from headrace_properties.recheck.provenance import OutputLineage
from headrace_properties.recheck.recorded_history import RecordedHistory
from headrace_properties.reference import Emitted
from headrace_properties.search.ground import ground_of
from headrace_properties.search.plans import draw_faults
from headrace_properties.user_code.reexecution import AppliedStep, StepReplay
from headrace_sim import ClusterOptions, simulate
from headrace_sim.faults import FaultSchedule, LateRecords

_FAULTS = 8
"""Choice: faults in each run under faults."""

RECORDED_STEP = "a recorded step"
"""The place of a difference in a single step."""

_LATER_US = 1_000_003
"""Choice: how much the wall clock is advanced to find out whether user code reads it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between today's outcome and the recording.

    Attributes:
        what: the step, output or state.
        recorded: its recorded value, decoded; ``""`` if it was absent.
        today: its value today, decoded; ``""`` if it is absent.
        found_in: whether it was found in a recorded step or in a run.
        inputs: the smallest set of records of the input that led to it, a line each.
        others: how many more differ in the same place.
    """

    what: str
    recorded: str
    today: str
    found_in: str
    inputs: tuple[str, ...]
    others: int = 0


@dataclass(slots=True)
class Recheck:
    """The result of a comparison.

    Attributes:
        inputs: number of input records.
        steps: number of recorded steps with the same outcome.
        runs: runs of today's pipeline that were compared.
        differences: the differences.
        declared: computations that were not compared: (name, reason).
        unknown: what could not be determined, and why.
    """

    inputs: int
    steps: int = 0
    runs: int = 0
    differences: list[Difference] = field(default_factory=list)
    declared: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def by_order(self) -> bool:
        """Whether each recorded step has the same outcome but the run does not: order, time or timers decide it."""
        return bool(self.steps and self.differences) and all(
            difference.found_in != RECORDED_STEP for difference in self.differences
        )


def recheck(
    recording: RecordedHistory,
    pipeline: Pipeline,
    *,
    plans: int = 20,
    seed: int = 0,
    on_run: Callable[[int], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Recheck:
    """Compare a recorded run with today's pipeline.

    Args:
        recording: the recorded run.
        pipeline: today's pipeline.
        plans: how many runs under faults.
        seed: seed of the faults.
        on_run: receives the number of runs so far.
        should_stop: called before each step and run; ``True``: return the result so far.

    Raises:
        HeadraceError: a pipeline cannot run in the simulated cluster.
    """
    reasons = {name: _reason(spec) for name, spec in pipeline.computations.items()}
    declared = [(name, reason) for name, reason in reasons.items() if reason]
    result = Recheck(recording.feed.records, declared=declared)
    if recording.tells_steps:
        _compare_steps(recording, pipeline, result, should_stop)
    if recording.fraction < 1:
        result.unknown.append(
            f"the recording has {recording.fraction:.3g} of the keys, so what the whole run came to is not told"
        )
        return result
    if not recording.ended:
        result.unknown.append(
            "the recorded run did not come to rest, so what it would have come to is not told"
        )
    _compare_runs(recording, pipeline, result, plans, seed, on_run, should_stop)
    return result


def _reason(spec: ComputationSpec) -> str:
    if spec.nondeterministic:
        return f"declared nondeterministic: {spec.nondeterministic}"
    if spec.ordered:
        return "declared ordered: its outcome depends on the order of arrival"
    return "" if spec.exactly_once else "it runs without exactly-once, so records may count twice"


def _compare_steps(
    recording: RecordedHistory, pipeline: Pipeline, result: Recheck, should_stop: Callable[[], bool]
) -> None:
    """Rerun each recorded step."""
    replay, strange = StepReplay(pipeline), set[str]()
    first: Difference | None = None
    differing = 0
    undeclared = {name for name, spec in pipeline.computations.items() if not spec.nondeterministic}
    for event in recording.events:
        step = replay.take(event)
        if step is None:
            continue
        if should_stop():
            break
        name = step.event.computation
        if name not in pipeline.computations:
            strange.add(name)
        elif name in undeclared and all(run.timer or replay.record(run) for run in step.runs):
            difference = _step_difference(step, replay, pipeline)
            if difference is None:
                result.steps += 1
            else:
                differing += 1
                if first is None or len(difference.inputs) < len(first.inputs):
                    first = difference
    if first is not None:
        result.differences.append(replace(first, others=differing - 1))
    result.unknown += [
        f"computation {name!r} ran then, and today's pipeline does not have it" for name in sorted(strange)
    ]


def _step_difference(step: AppliedStep, replay: StepReplay, pipeline: Pipeline) -> Difference | None:
    delta, name = step.event.delta, step.event.computation
    spec = pipeline.computations[name]
    emitted = {
        production.record_id: (production.stream, production.value, production.timestamp)
        for run in step.runs
        for production in run.productions
    }
    state = step.before if delta.state is None else delta.state
    again = replay.again(step)
    if again is not None:
        now = step.before if again.state is None else again.state
        if replay.compared(step, now, again.emissions) == replay.compared(step, state, emitted.values()):
            return None
        today = _outcome(pipeline, spec, now, again.emissions)
        if again != replay.again(step) or again != replay.again(step, _LATER_US):
            today += (
                " (and something else each time: your code is not deterministic, or looks at the wall clock)"
            )
    else:
        today = "your code fails"
    causes = []
    for run in step.runs:
        record = replay.record(run)
        causes.append(f"timer {run.cause}" if record is None else _input(pipeline, record))
    before = _state(spec, step.before)
    return Difference(
        f"the step of {name!r} for key {delta.key!r}, on the state {before}",
        _outcome(pipeline, spec, state, tuple(emitted.values())),
        today,
        RECORDED_STEP,
        tuple(causes),
    )


def _outcome(
    pipeline: Pipeline, spec: ComputationSpec, state: Encoded, emissions: tuple[tuple[str, bytes, int], ...]
) -> str:
    sent = [
        f"{stream}: {describe_value(pipeline, stream, value)} at {time_us}"
        for stream, value, time_us in emissions
    ]
    return f"state {_state(spec, state)}" + (f", sent {', '.join(sent)}" if sent else ", nothing sent")


def _state(spec: ComputationSpec, state: Encoded) -> str:
    try:
        return visible(repr(decode_state(spec.state_codec, state))) if state else "the initial one"
    except Exception:  # noqa: BLE001  codecs are the user's
        return f"{state!r} (not decodable)"


def _compare_runs(
    recording: RecordedHistory,
    pipeline: Pipeline,
    result: Recheck,
    plans: int,
    seed: int,
    on_run: Callable[[int], None],
    should_stop: Callable[[], bool],
) -> None:
    """Run today's pipeline on the input until a certain difference is found."""
    options = ClusterOptions()
    ground = ground_of(pipeline, recording.feed, options)
    then = OutputLineage(recording.events, partial(_alike, pipeline))
    compared = _compared_streams(pipeline, result)
    late = 0
    for number in range(plans + 1):
        if should_stop():
            break
        schedule = FaultSchedule()
        if number:
            schedule = draw_faults(ground, _FAULTS, seed + number, without=(LateRecords,))
        place = f"run {number} under faults" if number else "the run without faults"
        try:
            history = simulate(pipeline, recording.feed, options=options, faults=schedule, seed=seed + number)
        except HeadraceError as error:
            result.differences.append(Difference("the run", "came to its end", f"stops: {error}", place, ()))
            return
        result.runs += 1
        on_run(result.runs)
        differing = list(
            _differing(then, OutputLineage(history, partial(_alike, pipeline)), recording, compared)
        )
        if differing and not then.has_late_input:
            result.differences.append(_smallest(differing, pipeline, place))
            return
        late = max(late, len(differing))
    if late:
        result.unknown.append(
            f"up to {late:,} outputs differ in the runs; records of the input were late, and what late records lead to, or no"
            " longer prevent, depends on when they come"
        )


def _compared_streams(pipeline: Pipeline, result: Recheck) -> frozenset[str]:
    """Return the streams whose records must be the same; dead letters contain ids, which differ between runs."""
    loose_sources = {name for name, _ in result.declared}
    loose = {
        name
        for name in pipeline.computations
        if name in loose_sources or not loose_sources.isdisjoint(pipeline.upstream(name))
    }
    streams = {
        stream for name, spec in pipeline.computations.items() if name not in loose for stream in spec.outputs
    }
    compared = frozenset(streams.intersection(pipeline.output_streams))
    if not compared:
        result.unknown.append(
            "no output can be compared: all streams come from computations that declare otherwise"
        )
    return compared


def _alike(pipeline: Pipeline, record: Emitted) -> Emitted:
    """Write a value as JSON with sorted names if possible, since two hosts may encode the same value differently."""
    try:
        value = msgspec.json.encode(pipeline.codec(record.stream).decode(record.value), order="sorted")
    except Exception:  # noqa: BLE001  codecs are the user's
        return record
    return msgspec.structs.replace(record, value=value)


@dataclass(frozen=True, slots=True)
class _Differing:
    """An output that only one of the two runs has.

    Attributes:
        record: the output.
        recorded: how often it was sent outside in the recording.
        today: how often it is sent outside today.
        behind: the input that led to it.
    """

    record: Emitted
    recorded: int
    today: int
    behind: list[Production]


def _differing(
    then: OutputLineage, now: OutputLineage, recording: RecordedHistory, compared: frozenset[str]
) -> Iterator[_Differing]:
    """Find the differing outputs. A run that did not come to rest might have produced more."""
    for record in dict.fromkeys([*then.outputs, *now.outputs]):
        old, new = then.outputs.get(record, []), now.outputs.get(record, [])
        more = len(new) > len(old) and recording.ended
        if record.stream in compared and (len(old) > len(new) or more):
            behind = now.behind(new) if more else then.behind(old)
            yield _Differing(record, len(old), len(new), behind)


def _smallest(differing: list[_Differing], pipeline: Pipeline, place: str) -> Difference:
    """Show what needs the fewest records of the input; its counterpart, if there is one, has the same stream, key and time."""
    first = min(differing, key=lambda gap: (len(gap.behind), gap.record.timestamp, gap.record.key))
    of, counterparts = first.record, [first]
    for difference in differing:
        record = difference.record
        if difference is not first and (record.stream, record.key, record.timestamp) == (
            of.stream,
            of.key,
            of.timestamp,
        ):
            counterparts.append(difference)
    return Difference(
        f"the output on {of.stream!r} for key {of.key!r} at {format_time(of.timestamp)}",
        _values(pipeline, [(counterpart.record, counterpart.recorded) for counterpart in counterparts]),
        _values(pipeline, [(counterpart.record, counterpart.today) for counterpart in counterparts]),
        place,
        tuple(_input(pipeline, record) for record in first.behind),
        len(differing) - len(counterparts),
    )


def _values(pipeline: Pipeline, outputs: list[tuple[Emitted, int]]) -> str:
    values = [
        describe_value(pipeline, record.stream, record.value) + (f" ({times} times)" if times > 1 else "")
        for record, times in outputs
        if times
    ]
    return ", ".join(values) or "nothing"


def _input(pipeline: Pipeline, production: Production) -> str:
    time, value = (
        format_time(production.timestamp),
        describe_value(pipeline, production.stream, production.value),
    )
    return f"stream={visible(production.stream)} key={production.key!r} timestamp={time} value={value}"
