"""The reference against a broken engine: a bug in how user code is run shows, since the reference does not repeat it.

Each row breaks one thing in the modules of the engine that hosts, workers and injectors share (`headrace.worker.hooks`,
`headrace.delivery.addressing`, `Context`, `Rules`). Without any fault, the cluster then differs from the reference.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headrace import Computation, Context, DeadLetter, Pipeline, Record, Timer
from headrace.delivery import addressing
from headrace.delivery.deployed import Deployed
from headrace.rules import Rules
from headrace.wire.rows import StoredTimer
from headrace.worker import hooks
from headrace_properties.reference import Emitted, RunResult, run_reference
from headrace_properties.results import result_of
from headrace_sim import Feed, FeedBuilder, simulate


class Script(Computation):
    """Does for each record what its value says, and notes what it has been given."""

    def process_record(self, context: Context, record: Record) -> None:
        note = f"{record.value} {record.timestamp}" + (" late" if record.late else "")
        context.state.setdefault("notes", []).append(note)
        match record.value:
            case "timers":
                for tag in ("b", "a"):
                    context.set_timer(tag, 60)
                context.set_timer("due", 5)
                context.set_timer("overdue", 4)
                context.set_timer("moved", 70)
                context.set_timer("moved", 65)
                context.set_timer("cancelled", 66)
                context.cancel_timer("cancelled")
            case "wall":
                context.set_wall_timer("held", context.wall_time + 10, hold=record.timestamp)
                context.set_wall_timer("free", context.wall_time + 10)
            case "clear":
                context.clear_state()
            case "raise":
                raise ValueError(record.value)
            case _:
                pass
        context.produce("out", note)
        context.produce("out", note, timestamp=record.timestamp + 1, key="own")

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.state.setdefault("notes", []).append(timer.tag)
        context.produce("out", timer.tag)
        if timer.tag == "a":
            context.set_timer("early", 10)


class Tally(Computation):
    """Counts its records by key."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state[record.key] = context.state.get(record.key, 0) + record.timestamp


def first_letter(record: Record) -> str:
    return str(record.value)[0]


def made() -> tuple[Pipeline, Feed]:
    """A script, two who count what it makes, and one record of each kind; a watermark on the way makes one late."""
    pipeline = Pipeline("script")
    pipeline.injector("in", on_malformed=DeadLetter("refused"))
    pipeline.add(
        Script(), name="script", inputs={"in": first_letter}, outputs=["out"], on_failure=DeadLetter("dead")
    )
    pipeline.add(Tally(), name="by letter", inputs={"out": first_letter})
    pipeline.add(Tally(), name="by key", inputs=["out"])
    builder = FeedBuilder(pipeline)
    for at, value in enumerate(["plain", "timers", "wall", "clear", "raise"]):
        builder.record(at_us=1_000_000 * (at + 1), value=value, timestamp=20 + at)
    builder.raw(at_us=6_000_000, data=b"{", timestamp=30)
    builder.watermark(at_us=7_000_000, low_watermark=50)
    builder.record(at_us=12_000_000, value="wall", timestamp=55)
    builder.record(at_us=20_000_000, value="late", timestamp=40)
    builder.record(at_us=20_000_001, value="timers", timestamp=60)
    return pipeline, builder.build()


def ran(pipeline: Pipeline, feed: Feed) -> RunResult:
    """What the cluster makes of it, ids of causes left out."""
    return without_causes(result_of(simulate(pipeline, feed)))


def without_causes(result: RunResult) -> RunResult:
    def shown(record: Emitted) -> Emitted:
        letter = msgspec.json.decode(record.value)
        return msgspec.structs.replace(
            record, value=msgspec.json.encode(letter | {"cause": ""}, order="sorted")
        )

    outputs = Counter(shown(record) for record in result.outputs.elements())
    return dataclasses.replace(result, outputs=outputs)


def test_the_engine_agrees_with_the_reference() -> None:
    pipeline, feed = made()
    expected = without_causes(run_reference(pipeline, feed))
    assert {name for name, _ in expected.states} == {"script", "by letter", "by key"}
    assert {record.stream for record in expected.outputs} == {"dead", "refused"}
    assert ran(pipeline, feed) == expected


Break = Callable[[pytest.MonkeyPatch], object]


def replaced(owner: object, name: str, other: object) -> Break:
    return lambda patch: patch.setattr(owner, name, other)


def key_of_the_wrong_consumer(consumer: str, _extractor: object, *record: Any) -> str:
    return key_for(consumer, first_letter, *record)[::-1].upper()


key_for = addressing.key_for


def never_late(*fields: object) -> Record:
    return Record(*fields[:4], False, *fields[5:])  # type: ignore[call-arg,arg-type]  # noqa: FBT003  ``late``


BREAKS: dict[str, Break] = {
    "a record has the key of another consumer": replaced(addressing, "key_for", key_of_the_wrong_consumer),
    "only the first consumer gets a production": replaced(
        Deployed, "consumers", lambda self, stream: self.pipeline.consumers(stream)[:1]
    ),
    "a timer stamps with the watermark": replaced(
        hooks, "stamp_of", lambda timer, low_watermark: low_watermark
    ),
    "a wall timer stamps with what set it": replaced(
        hooks, "stamp_of", lambda timer, low_watermark: timer.set_at if timer.held is None else timer.held
    ),
    "timers fire in reverse order of their tags": replaced(
        StoredTimer,
        "order",
        property(lambda timer: (timer.due, timer.overdue, timer.timestamp, -ord(timer.tag[0]))),
    ),
    "a timer set after its time overtakes those that are due": replaced(
        Rules, "due", lambda self, timestamp, now: timestamp
    ),
    "a late record is said to be on time": replaced(hooks, "Record", never_late),
    "a cancelled timer fires": replaced(Context, "cancel_timer", lambda self, tag: None),
    "a timer that is set again does not move": replaced(
        Context, "_set", lambda self, request: self.timers.setdefault(request.tag, request)
    ),
}


@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
def test_a_bug_in_the_engine_is_not_repeated(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, feed = made()
    expected = without_causes(run_reference(pipeline, feed))
    broken(monkeypatch)
    assert without_causes(run_reference(pipeline, feed)) == expected
    assert ran(pipeline, feed) != expected
