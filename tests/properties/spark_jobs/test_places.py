"""What is said of a Spark job or sink points at the user's line, and never into a library or into our own files."""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.targets import SparkReport
from headrace_properties.target_kinds import TargetKind
from tests.properties.spark_jobs.planted import Processor

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java

HELPER = """
import functools

def append(df):
    df.write.mode("append").save("t")

def fail():
    raise ValueError("no")

def keep(state, value):
    state.update((value,))

def passing(function):
    @functools.wraps(function)
    def passed(*given):
        yield from function(*given)
    return passed
"""
SCHEMA = "k STRING, n INT"


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A library that is installed."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "helper.py").write_text(HELPER)
    monkeypatch.syspath_prepend(str(folder))
    import helper  # type: ignore[import-not-found]  # noqa: PLC0415  it was just written

    yield helper
    del sys.modules["helper"]


def _report(target: Any) -> SparkReport:
    feed = [[("a", 1), ("a", 2)], [("a", 3)]]
    return spark_target("target", target, schemas=SCHEMA, feed=feed).verify(schedules=12, overtaken=False)


def test_effect_and_error_in_a_library_are_at_the_line_that_calls_it(helper: ModuleType) -> None:
    def sink(df: Any, _batch_id: int) -> None:
        helper.append(df)

    def failing(_df: Any, _batch_id: int) -> None:
        helper.fail()

    (finding,) = _report(sink).findings
    assert finding.place is not None
    assert finding.place.file == __file__
    with pytest.raises(
        HeadraceError, match=r"^\S*test_places.py:\d+: the sink fails on batch 0, undisturbed: ValueError: no"
    ):
        _report(failing)


def test_state_that_a_library_keeps_is_at_the_line_that_calls_it(helper: ModuleType) -> None:
    @helper.passing  # type: ignore[untyped-decorator]
    def last(key: Any, frames: Any, state: Any) -> Any:
        for frame in frames:
            helper.keep(state, int(frame.n.iloc[-1]))
            yield frame[["k"]].head(1)

    def build(rows: Any) -> Any:
        given = ("k STRING", "n INT", "update", "NoTimeout")
        return rows.groupBy("k").applyInPandasWithState(last, *given).writeStream.format("memory").start()

    findings = _report(build).findings
    assert findings
    assert {finding.place.file for finding in findings if finding.place} == {__file__}


class _Sink:
    def __call__(self, df: Any) -> None:
        """Lack a parameter."""


def _sink_of_one(df: Any, *, more: int = 0) -> None:
    """Take no number of the batch."""


@pytest.mark.parametrize("sink", [_Sink(), partial(_sink_of_one, more=1)])
def test_error_without_a_line_of_the_users_is_at_the_definition(sink: Callable[..., Any]) -> None:
    with pytest.raises(HeadraceError, match=r"^\S*test_places.py:\d+: the sink fails on batch 0"):
        _report(lambda rows: rows.writeStream.foreachBatch(sink).start())


def test_parameters_that_only_have_names_are_given_by_name() -> None:
    def build(rows: Any, *args: Any, path: str = "p", **options: Any) -> Any:
        assert (args, path, options) == ((), "p", {})
        return (
            rows.select("k")
            .writeStream.foreachBatch(lambda df, _: df.write.mode("append").save(path))
            .start()
        )

    assert [finding.kind.title for finding in _report(build).findings] == ["each row exactly once (twice)"]


def test_sink_is_known_by_what_only_a_batch_can_do() -> None:
    def sink(df: Any, b: Any) -> None:
        df.write.mode("append").save(f"t{b}")

    def build(left: Any, right: Any) -> Any:
        return left.union(right).writeStream.foreachBatch(sink)

    assert spark_target("target", sink, schemas=SCHEMA).kind is TargetKind.SINK
    assert spark_target("target", build, schemas=SCHEMA).job.steps


def test_state_whose_name_begins_like_a_row_is_blamed() -> None:
    class Stamped(Processor):
        def init(self, handle: Any) -> None:
            self.last = handle.getValueState("row of the day", "at DOUBLE")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            self.last.update((time.time(),))
            yield from ()

    def job(events: Any) -> Any:
        made = events.groupBy("k").transformWithState(Stamped(), "n INT", "append", "None")
        return made.writeStream.format("memory").queryName("q").start()

    (finding,) = [finding for finding in _report(job).findings if finding.kind.name == "chance"]
    assert finding.place is not None
    assert finding.place.line == Stamped.handleInputRows.__code__.co_firstlineno + 1
