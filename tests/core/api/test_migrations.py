"""States that earlier versions of the code have stored are read by the newest one (`Pipeline.add(migrate=...)`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from headrace import (
    MAX_TIME,
    MILLISECOND,
    SECOND,
    BytesCodec,
    Codec,
    CodecError,
    Computation,
    Context,
    OptionsError,
    PickleCodec,
    Pipeline,
    Record,
    StateCodec,
    TypedCodec,
)
from headrace.wire.messages import ChangeTopology
from headrace_properties.results import result_of
from headrace_sim import Feed, FeedBuilder, simulate
from headrace_sim import faults as f

GOLDEN = {0: b"7", 1: b'\x001\x00{"total":7}', 2: b'\x002\x00{"average":7.0,"count":1}'}
"""The same state as each version of the code below has stored it; the bytes must never change."""


@dataclass
class Mean:
    average: float
    count: int


class Total(Computation):
    """Version 0 keeps a sum."""

    def initial_state(self) -> Any:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        context.state += record.value
        context.produce("out", context.state)


class Named(Total):
    """Version 1 names it."""

    def initial_state(self) -> Any:
        return {"total": 0}

    def process_record(self, context: Context, record: Record) -> None:
        context.state["total"] += record.value
        context.produce("out", context.state["total"])


class Average(Total):
    """Version 2 keeps a class of its own."""

    def initial_state(self) -> Any:
        return Mean(0.0, 0)

    def process_record(self, context: Context, record: Record) -> None:
        mean: Mean = context.state
        mean.count += 1
        mean.average += (record.value - mean.average) / mean.count
        context.produce("out", [mean.average, mean.count])


def name(total: Any) -> Any:
    return {"total": total}


def average(state: Any) -> Any:
    return {"average": float(state["total"]), "count": 1}


VERSIONS: list[tuple[Total, Codec | None, list[Callable[[Any], Any]]]] = [
    (Total(), None, []),
    (Named(), None, [name]),
    (Average(), TypedCodec(Mean), [name, average]),
]


def pipeline_of(version: int, **switches: Any) -> Pipeline:
    computation, codec, migrate = VERSIONS[version]
    pipeline = Pipeline("sums")
    pipeline.injector("in")
    given = {"state_codec": codec, "migrate": migrate} | switches
    pipeline.add(computation, name="sum", inputs=["in"], outputs=["out"], **given)
    return pipeline


def codec_of(version: int) -> StateCodec:
    return pipeline_of(version).computations["sum"].state_codec


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_versions_stored_form_never_changes(version: int) -> None:
    newest = codec_of(version).decode(GOLDEN[version])
    assert codec_of(version).encode(newest) == GOLDEN[version]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_newest_version_reads_what_each_has_stored(version: int) -> None:
    assert codec_of(2).decode(GOLDEN[version]) == Mean(7.0, 1)


def test_an_older_version_refuses_what_a_newer_one_has_stored() -> None:
    with pytest.raises(
        ValueError, match="version 2 wrote it, but this code ends at version 1: deploy the newer code"
    ):
        codec_of(1).decode(GOLDEN[2])


def feed_of(pipeline: Pipeline, values: list[int]) -> Feed:
    builder = FeedBuilder(pipeline)
    for number, value in enumerate(values):
        builder.record(at_us=number * SECOND, key="a", value=value, timestamp=number)
    builder.watermark(at_us=len(values) * SECOND, low_watermark=MAX_TIME)
    return builder.build()


def test_a_running_pipeline_changes_its_version() -> None:
    versions = [pipeline_of(0), pipeline_of(2)]
    change = f.Operate(at_us=1_500 * MILLISECOND, verb=ChangeTopology(1))
    history = simulate(versions, feed_of(versions[0], [3, 4, 10, 4]), faults=f.FaultSchedule((change,)))
    found = [versions[0].codec("out").decode(out.value) for out in result_of(history).outputs.elements()]
    assert sorted(found, key=str) == sorted([3, 7, [8.5, 2], [7.0, 3]], key=str)


def test_a_migration_that_fails_is_named_with_the_row() -> None:
    def broken(state: Any) -> Any:
        return state["absent"]

    old, new = pipeline_of(0), pipeline_of(1, migrate=[broken])
    change = f.Operate(at_us=1_500 * MILLISECOND, verb=ChangeTopology(1))
    with pytest.raises(CodecError, match=r"key 'a'.*broken, from version 0 to the next, raised TypeError"):
        simulate([old, new], feed_of(old, [3, 4, 10, 4]), faults=f.FaultSchedule((change,)))


@pytest.mark.parametrize("migrate", [7, "name", [name, None], {"name": 1}])
def test_anything_but_a_list_of_functions_is_refused(migrate: Any) -> None:
    with pytest.raises(OptionsError, match=r"option migrate=.*functions from one state to the next"):
        pipeline_of(1, migrate=migrate)


@pytest.mark.parametrize("codec", [PickleCodec(), BytesCodec()], ids=repr)
def test_a_codec_that_does_not_write_json_is_refused(codec: Codec) -> None:
    class Raw(Total):
        def initial_state(self) -> Any:
            return b"\xff"

    pipeline = Pipeline("sums")
    pipeline.injector("in")
    with pytest.raises(OptionsError, match="a state codec that writes JSON"):
        pipeline.add(Raw(), name="sum", inputs=["in"], state_codec=codec, migrate=[name])
