"""A computation's input is as far as the slowest of its senders (MillWheel 4.5, 7.2), whichever version they belong to."""

import pytest

from headrace import MIN_TIME, Computation, Pipeline
from headrace.delivery.deployed import deployed
from headrace.rules import RULES
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import Assignment, Progress, Table
from headrace.worker.input_progress import InputProgress


def chain(*names: str, percentile: float = 100.0) -> Pipeline:
    """A feed, and computations of which each consumes what the one before it outputs; the last follows a percentile."""
    pipeline = Pipeline("chain")
    stream = "feed"
    pipeline.injector("source", outputs=["feed"])
    for name in names:
        followed_percent = percentile if name == names[-1] else 100.0
        output = f"{name} out"
        pipeline.add(
            Computation(), name=name, inputs=[stream], outputs=[output], watermark_percentile=followed_percent
        )
        stream = output
    return pipeline


def table_of(*present: str, topology: int = 0, retiring: tuple[str, ...] = ()) -> Table:
    owned = tuple(Assignment(name, ALL_KEYS, number, "worker-0", 1) for number, name in enumerate(present, 1))
    return Table(1, topology, retiring, owned, retired_from=(0,) * len(retiring))


def followed(pipelines: list[Pipeline], table: Table) -> InputProgress:
    inputs = InputProgress(pipelines, RULES)
    inputs.adopt(table)
    return inputs


def test_senders_of_the_version_in_force_and_those_that_retire_count() -> None:
    versions = [chain("a", "b", "c"), chain("a", "c")]
    table = table_of("a", "b", "c", topology=1, retiring=("b",))
    assert set(followed(versions, table).senders("c")) == {"a", "b"}
    assert followed(versions, table_of("a", "b", "c")).senders("c") == ("b",)


def test_the_senders_of_a_sender_that_has_left_take_its_place() -> None:
    versions = [chain("a", "b", "c"), chain("a")]
    assert followed(versions, table_of("a", "c", topology=1, retiring=("c",))).senders("c") == ("a",)


def test_an_input_is_as_far_as_its_slowest_sender_and_never_goes_back() -> None:
    versions = [chain("a", "b", "c"), chain("a", "c")]
    table = table_of("a", "b", "c", topology=1, retiring=("b",))
    inputs, where = followed(versions, table), deployed("c", versions, table)
    assert inputs.of("c", where) == (MIN_TIME, MIN_TIME, MIN_TIME)
    assert inputs.learn([("a", Progress(30, 3)), ("b", Progress(20, 5))])
    assert inputs.of("c", where) == (20, 20, 3)
    assert not inputs.learn([("a", Progress(10, 1)), ("b", Progress(20, 5))])
    assert inputs.of("c", where) == (20, 20, 3)


@pytest.mark.parametrize(("known", "timer"), [(((90.0, 40),), 40), (((90.0, 10),), 20), ((), 20)])
def test_timers_may_follow_a_percentile_that_is_never_behind_the_low_watermark(
    known: tuple[tuple[float, int], ...], timer: int
) -> None:
    versions, table = [chain("a", "b", percentile=90.0)], table_of("a", "b")
    inputs = followed(versions, table)
    inputs.learn([("a", Progress(20, 3, known))])
    assert inputs.of("b", deployed("b", versions, table)) == (20, timer, 3)
