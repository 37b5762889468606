"""A pipeline's code on two inputs, call by call, to show where the runs part: hosted by the reference, without a cluster."""

from collections import Counter
from collections.abc import Mapping, Sequence

from headrace import Encoded, Pipeline, format_time
from headrace.wire.effects import SourceRecord
from headrace_properties.explanation import Explanation, Row, Run, RunStep, StepKind, Tables
from headrace_properties.printable import describe_record, describe_value, visible
from headrace_properties.reference import Emitted, HookCall, RunResult, StepResult, run_reference, run_step
from headrace_properties.reference.running_computation import RunningComputation
from headrace_properties.user_code.comparison import output_order
from headrace_properties.user_code.feeds import records_of
from headrace_properties.user_code.hosting import with_fresh_code
from headrace_properties.user_code.source_deliveries import Redelivered
from headrace_sim import Feed


def explain_redelivered(pipeline: Pipeline, shown: Redelivered) -> Explanation:
    """Return both runs beside each other: on the input as it should come, and as it came. Raise what the code raises."""
    usual, calm = _run("Undisturbed", pipeline, shown.usual, shown.usual)
    other, left = _run(shown.title, pipeline, shown.other, shown.usual)
    surplus, missing = left.outputs - calm.outputs, calm.outputs - left.outputs
    difference = [f"the output has also {line}" for line in _outputs(pipeline, surplus)]
    difference += [f"the output lacks {line}" for line in _outputs(pipeline, missing)]
    return Explanation((usual, other), (), tuple(difference))


def _run(title: str, pipeline: Pipeline, feed: Feed, usual: Feed) -> tuple[Run, RunResult]:
    """Run a pipeline on an input; mark the records that the usual input has not, or not as often."""
    steps, states, given = list[RunStep](), dict[tuple[str, str], str](), list[Row]()
    expected = Counter(_content(record) for _, record in records_of(usual))
    seen = Counter[tuple[str, str, bytes, int]]()

    def arrive(done: int) -> None:
        event = feed.entries[done].event
        if isinstance(event, SourceRecord):
            content = _content(event)
            seen[content] += 1
            is_new = seen[content] > expected[content]
            kind = StepKind.FAULT if is_new else StepKind.INPUT
            told = describe_record(pipeline, event)
            steps.append(RunStep(told, kind, "source", again=is_new and seen[content] > 1))

    def host(pipeline: Pipeline, stage: RunningComputation, step: HookCall) -> StepResult:
        result = run_step(pipeline, stage, step)
        if result.state is not None:
            states[step.computation, step.key] = _state(result.state)
        outside = [emitted for emitted in result.made if emitted.stream in pipeline.output_streams]
        given.extend(_emitted(pipeline, emitted) for emitted in outside)
        told, to = f"  {_call(pipeline, step, result)}", "output" if outside else ""
        kind = StepKind.WRITE if outside else StepKind.RUN
        steps.append(RunStep(told, kind, step.computation, to, tables=_tables(states, given)))
        return result

    result = run_reference(with_fresh_code(pipeline), feed, arrive, host)
    outcome = tuple(_outputs(pipeline, result.outputs))
    tables = _tables(states, outcome)
    return Run(title, tuple(steps), outcome or ("no output",), tables), result


def _tables(states: Mapping[tuple[str, str], str], given: Sequence[Row]) -> Tables:
    """Return what each computation keeps, and what has come out."""
    tables: dict[str, list[Row]] = {"output": sorted(map(str, given))}
    for (computation, key), state in sorted(states.items()):
        tables.setdefault(f"state of {computation}", []).append((("key", repr(key)), ("state", state)))
    return {name: tuple(rows) for name, rows in tables.items()}


def _content(record: SourceRecord) -> tuple[str, str, bytes, int]:
    return record.stream, record.key, record.value, record.timestamp


def _call(pipeline: Pipeline, step: HookCall, result: StepResult) -> str:
    """Say what a call is for, what it changes in the state, and what it produces."""
    what = "the record" if step.timer is None else f"timer {visible(step.timer.tag)!r}"
    parts = [f"{step.computation} handles {what} of {visible(step.key)!r}"]
    if result.state is not None and result.state != step.state:
        parts.append(f"state {_state(step.state)} becomes {_state(result.state)}")
    parts += [f"produces {_emitted(pipeline, emitted)}" for emitted in result.made]
    return "; ".join(parts)


def _state(state: Encoded) -> str:
    return visible(bytes(state).decode(errors="backslashreplace")) or "(the initial one)"


def _emitted(pipeline: Pipeline, emitted: Emitted) -> str:
    value = describe_value(pipeline, emitted.stream, emitted.value)
    return f"{value} for {visible(emitted.key)!r} on {emitted.stream} at {format_time(emitted.timestamp)}"


def _outputs(pipeline: Pipeline, outputs: Counter[Emitted]) -> list[str]:
    return [_emitted(pipeline, emitted) for emitted in sorted(outputs.elements(), key=output_order)]
