"""Today's code on yesterday's input: differences are found, and what the recording lacks is unknown."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer, TypedCodec
from headrace.histories import header_of, save_history
from headrace.history import Applied, Event, Executed, Injected, KeysSampled, Output, RunEnded
from headrace_properties.recheck import Recheck, RecordingError, read_recording, recheck
from headrace_scenarios.message_log import HEADER
from headrace_sim import Feed, FeedBuilder, simulate


class Count(Computation):
    """Counts clicks, and emits the count at 10 s; ``from_us``: by two from this timestamp on."""

    def __init__(self, from_us: int = 99 * SECOND) -> None:
        self._from_us = from_us

    def process_record(self, context: Context, record: Record) -> None:
        context.state["n"] = context.state.get("n", 0) + (2 if record.timestamp >= self._from_us else 1)
        context.state["key"] = context.key
        context.set_timer("end", at=10 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("counts", context.state["n"])


class Running(Computation):
    """Counts clicks, and emits each count: its outcome depends on the order of arrival."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["n"] = context.state.get("n", 0) + 1
        context.produce("counts", context.state["n"])


class Told(Computation):
    """Emits for each record whether it was late."""

    def process_record(self, context: Context, record: Record) -> None:
        context.produce("counts", record.late)


def clicks(computation: Computation, **switches: Any) -> Pipeline:
    pipeline = Pipeline("clicks")
    pipeline.injector("site", outputs=["clicks"])
    pipeline.add(computation, name="counter", inputs=["clicks"], outputs=["counts"], **switches)
    return pipeline


def feed(pipeline: Pipeline, *, late: bool = False) -> Feed:
    builder = FeedBuilder(pipeline)
    for number in range(8):
        at_us = 2 * SECOND + number * SECOND // 2  # each record is a step of its own
        builder.record(at_us=at_us, value=number, timestamp=number * SECOND, key="ab"[number % 2])
        builder.watermark(at_us=at_us, low_watermark=number * SECOND)
    if late:
        builder.record(at_us=9 * SECOND, value=8, timestamp=0, key="a")
    return builder.build()


def recorded(folder: Path, pipeline: Pipeline, *, late: bool = False) -> Path:
    path = folder / "yesterday.jsonl"
    save_history(path, simulate(pipeline, feed(pipeline, late=late)), header_of([pipeline]))
    return path


def rechecked(path: Path, pipeline: Pipeline, plans: int = 3) -> Recheck:
    return recheck(read_recording(path, pipeline), pipeline, plans=plans)


def test_the_same_code_has_the_same_outcome_in_every_step_and_under_faults(tmp_path: Path) -> None:
    found = rechecked(recorded(tmp_path, clicks(Count())), clicks(Count()))
    assert found == Recheck(inputs=8, steps=found.steps, runs=4)
    assert found.steps


def test_other_code_is_shown_at_the_first_step_that_differs_and_at_the_output_of_fewest_records(
    tmp_path: Path,
) -> None:
    found = rechecked(recorded(tmp_path, clicks(Count())), clicks(Count(from_us=4 * SECOND)))
    step, run = found.differences
    assert step.what == "the step of 'counter' for key 'a', on the state {'key': 'a', 'n': 2}"
    assert (step.recorded, step.today) == (
        "state {'key': 'a', 'n': 3}, nothing sent",
        "state {'key': 'a', 'n': 4}, nothing sent",
    )
    assert step.inputs == ("stream=clicks key='a' timestamp=4.000000s value=4",)
    assert step.others == 3
    assert (run.what, run.recorded, run.today) == (
        "the output on 'counts' for key 'a' at 10.000000s",
        "4",
        "6",
    )
    assert [line[-1] for line in run.inputs] == ["0", "2", "4", "6"]
    assert run.found_in == "the run without faults"


def test_dependence_on_the_order_of_arrival_is_distinguished_from_changed_code(
    tmp_path: Path,
) -> None:
    """Eleven runs under faults bring records of a key in another order."""
    path = recorded(tmp_path, clicks(Running()))
    found = rechecked(path, clicks(Running()), plans=10)
    assert found.by_order
    assert found.steps
    declared = rechecked(path, clicks(Running(), ordered=True), plans=10)
    assert not declared.differences


@dataclass
class Total:
    value: float = 0.0


class Adding(Computation):
    """Adds up ints in a float, in a state that the runs of a step share; ``by``: times this."""

    def __init__(self, by: int = 1) -> None:
        self._by = by

    def initial_state(self) -> Total:
        return Total(0)

    def process_record(self, context: Context, record: Record) -> None:
        context.state.value += record.value * self._by


def test_shared_states_are_compared_as_they_are_read(tmp_path: Path) -> None:
    switches: dict[str, Any] = {"state_codec": TypedCodec(Total), "share_state": True}
    pipeline = clicks(Adding(), **switches)
    builder, path = FeedBuilder(pipeline), tmp_path / "yesterday.jsonl"
    for number in range(8):
        builder.record(at_us=SECOND, value=number, timestamp=SECOND, key="ab"[number % 2])
    save_history(path, simulate(pipeline, builder.build()), header_of([pipeline]))
    found = rechecked(path, pipeline)
    assert found.steps
    assert not found.differences
    assert rechecked(path, clicks(Adding(2), **switches)).differences


def test_of_the_steps_that_differ_one_of_the_fewest_records_is_shown(tmp_path: Path) -> None:
    """The first step has many records, since all came before their owner was ready; the last has one."""
    pipeline = clicks(Count())
    builder = FeedBuilder(pipeline)
    for number in range(4):
        builder.record(at_us=0, value=number, timestamp=0, key="a")
    builder.record(at_us=5 * SECOND, value=4, timestamp=0, key="a")
    path = tmp_path / "yesterday.jsonl"
    save_history(path, simulate(pipeline, builder.build()), header_of([pipeline]))
    step = rechecked(path, clicks(Count(from_us=0)), plans=0).differences[0]
    assert [line[-1] for line in step.inputs] == ["4"]
    assert step.others


def test_a_source_that_promises_before_its_first_record_makes_that_late_again(tmp_path: Path) -> None:
    pipeline = clicks(Told())
    builder = FeedBuilder(pipeline)
    builder.watermark(at_us=0, low_watermark=5 * SECOND)
    builder.record(at_us=3 * SECOND, value=0, timestamp=0, key="a")
    path = tmp_path / "yesterday.jsonl"
    save_history(path, simulate(pipeline, builder.build()), header_of([pipeline]))
    recording = read_recording(path, pipeline)
    assert [type(entry.event).__name__ for entry in recording.feed.entries][:2] == [
        "SourceWatermark",
        "SourceRecord",
    ]


def test_code_that_fails_today_is_shown(tmp_path: Path) -> None:
    class Fails(Computation):
        def process_record(self, context: Context, record: Record) -> None:
            raise ValueError(record.value)

    step, run = rechecked(recorded(tmp_path, clicks(Count())), clicks(Fails())).differences
    assert step.today == "your code fails"
    assert run.today.startswith("stops: ")


def test_what_code_declares_is_not_compared(tmp_path: Path) -> None:
    path, changed = recorded(tmp_path, clicks(Count())), Count(from_us=0)
    by_chance = rechecked(path, clicks(changed, nondeterministic="tosses a coin"))
    assert not by_chance.differences
    assert by_chance.declared == [("counter", "declared nondeterministic: tosses a coin")]
    assert by_chance.unknown == [
        "no output can be compared: all streams come from computations that declare otherwise"
    ]
    in_order = rechecked(path, clicks(changed, ordered=True))
    assert [difference.found_in for difference in in_order.differences] == [
        "a recorded step"
    ]  # whose order is the recorded one


def spoiled(path: Path, spoil: Any) -> Path:
    """Change the events of a saved History, and save it again."""
    pipeline = clicks(Count())
    recording = read_recording(path, pipeline)
    save_history(path, spoil(list(recording.events)), recording.header)
    return path


def test_a_sample_is_unknown_as_a_whole_and_compared_step_by_step(tmp_path: Path) -> None:
    path = spoiled(recorded(tmp_path, clicks(Count())), lambda events: [KeysSampled(0, "", 0.5), *events])
    same, changed = rechecked(path, clicks(Count())), rechecked(path, clicks(Count(from_us=0)))
    assert same.unknown == ["the recording has 0.5 of the keys, so what the whole run came to is not told"]
    assert (same.runs, len(same.differences), len(changed.differences)) == (0, 0, 1)


def test_an_unfinished_run_may_have_had_more_output(tmp_path: Path) -> None:
    def cut(events: list[Event]) -> list[Event]:
        return events[: next(number for number, event in enumerate(events) if isinstance(event, Output))]

    path = spoiled(recorded(tmp_path, clicks(Count())), cut)
    found = rechecked(path, clicks(Count()))
    assert not found.differences
    assert found.unknown == [
        "the recorded run did not come to rest, so what it would have come to is not told"
    ]
    assert rechecked(path, clicks(Count(from_us=0))).differences


def test_the_consequences_of_a_late_record_are_unknown(tmp_path: Path) -> None:
    pipeline = clicks(Told())
    path = recorded(tmp_path, pipeline, late=True)

    def on_time(events: list[Event]) -> list[Event]:
        """As if the watermark had come to the worker only after the late record."""
        replace = msgspec.structs.replace
        return [
            replace(event, production=replace(event.production, value=b"false"))
            if isinstance(event, Output)
            else event
            for event in events
        ]

    found = rechecked(spoiled(path, on_time), pipeline)
    assert not found.differences
    assert any("records of the input were late" in why for why in found.unknown)


def test_keys_that_a_host_prefixes_are_read_as_user_code_knows_them(tmp_path: Path) -> None:
    """As the host on Spark writes them: 0003/a."""
    pipeline = clicks(Count())
    replace = msgspec.structs.replace

    def prefixed(event: Event) -> Event:
        if isinstance(event, Executed):
            return replace(event, key=f"0003/{event.key}")
        if isinstance(event, Applied):
            return replace(event, delta=replace(event.delta, key=f"0003/{event.delta.key}"))
        if isinstance(event, Injected):
            return replace(
                event,
                productions=tuple(
                    replace(production, key=f"0003/{production.key}") for production in event.productions
                ),
            )
        return event

    history = simulate(pipeline, feed(pipeline))
    path = tmp_path / "spark.jsonl"
    save_history(path, map(prefixed, history), header_of([pipeline], "Spark", prefixed_keys=True))
    found = rechecked(path, pipeline)
    assert (found.differences, found.unknown, found.runs) == ([], [], 4)


def lines_of(folder: Path, **more: Any) -> Path:
    """A History of records of a stage that passes clicks on."""
    path = folder / "consumer.jsonl"
    lines = [HEADER]
    for number in range(6):
        click = {"id": f"clicks:{number}", "key": "a", "timestamp": number * SECOND}
        passed = {**click, "id": f"clicks:{number}/on", "cause": click["id"]}
        lines += [
            {"type": "out", "process": "site-1", "stage": "site", **click, **more},
            {"type": "in", "process": "consumer-1", "stage": "counter", **click},
            {"type": "out", "process": "consumer-1", "stage": "counter", **passed, **more},
        ]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"type": "end"}]))
    return path


class Pass(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("counts", record.value)


class PassSome(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if record.timestamp != 4 * SECOND:
            context.produce("counts", record.value)


def test_a_history_of_records_can_be_rechecked_if_it_has_the_values(tmp_path: Path) -> None:
    path = lines_of(tmp_path, value={"page": 1})
    same, changed = rechecked(path, clicks(Pass())), rechecked(path, clicks(PassSome()))
    assert (same.inputs, same.steps, same.runs, same.differences, same.unknown) == (6, 0, 4, [], [])
    (difference,) = changed.differences
    assert (difference.recorded, difference.today) == ("{'page': 1}", "nothing")
    assert difference.inputs == ("stream=clicks key='a' timestamp=4.000000s value={'page': 1}",)


def test_a_recording_without_values_or_of_other_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="does not tell the values"):
        read_recording(lines_of(tmp_path), clicks(Count()))
    other = Pipeline("letters")
    other.injector("mail")
    other.add(Count(), name="counter", inputs=["mail"], outputs=["counts"])
    with pytest.raises(RecordingError, match="'clicks', and no injector of 'letters' writes it"):
        read_recording(lines_of(tmp_path, value=1), other)
    path = recorded(tmp_path, clicks(Count()))
    save_history(path, [RunEnded(0, "", "quiescent")], header_of([clicks(Count())]))
    with pytest.raises(RecordingError, match="no record that a source sent"):
        read_recording(path, clicks(Count()))
