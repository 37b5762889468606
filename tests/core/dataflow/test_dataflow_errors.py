"""Runs of the Dataflow layer that must stop: a function of the user's returns what it must not (Dataflow 2.1, 2.2).

The error must name the function's call and the function, what it returned, and the element or the key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from headrace import SECOND, HeadraceError, JsonCodec, Pipeline, TypedCodec
from headrace.dataflow import (
    END_OF_TIME,
    DataflowError,
    Element,
    FixedWindows,
    Flow,
    KeyContext,
    PCollection,
    Window,
    read,
)
from headrace_sim import ClusterOptions, FeedBuilder, simulate

_WRONG = 7


def _returns(wrong: Any, right: Any) -> Callable[[Any], Any]:
    def function(given: Any) -> Any:
        value = given.value if isinstance(given, Element) else given
        return wrong if value == _WRONG else right

    return function


@dataclass(frozen=True, slots=True)
class _Stateful:
    """Returns something for the wrong element, or at its time."""

    wrong: Any
    at_timer: bool = False

    def initial_state(self) -> None:
        return None

    def process(self, context: KeyContext, element: Element) -> Any:
        if element.value == _WRONG and self.at_timer:
            context.set_timer("wrong", element.time + 1)
        return self.wrong if element.value == _WRONG and not self.at_timer else ()

    def on_timer(self, context: KeyContext, tag: str, time_us: int) -> Any:
        del context, tag, time_us
        return self.wrong


@dataclass(frozen=True, slots=True)
class _Windows:
    """Assigns or merges windows wrongly."""

    wrong: Any = None
    merged: Any = None

    def assign_windows(self, element: Element) -> Any:
        is_wrong = element.value == _WRONG and self.merged is None
        return self.wrong if is_wrong else [Window(element.time, element.time + SECOND)]

    def merge_windows(self, windows: Sequence[Window]) -> Any:
        return windows if self.merged is None or len(windows) == 1 else self.merged


_Make = Callable[[PCollection[Any]], PCollection[Any]]
_FUNCTION = "_returns.<locals>.function"
_AFTER_ALL = Window(END_OF_TIME, END_OF_TIME + 1)


def _tags(wrong: Any) -> _Make:
    return lambda numbers: numbers.par_do_tagged(_returns(wrong, ()), "tag", name="tags")["tag"]


def _keeps(wrong: Any, *, at_timer: bool = False) -> _Make:
    return lambda numbers: numbers.par_do_stateful(_Stateful(wrong, at_timer), name="kept")


def _groups(**wrong: Any) -> _Make:
    return lambda numbers: numbers.window_into(_Windows(**wrong)).sum(name="sums")


def _as_they_are(numbers: PCollection[Any]) -> PCollection[Any]:
    return numbers.map(_returns(1, 2), name="ones")


_FAILURES: Sequence[tuple[_Make, str]] = (
    (lambda some: some.flat_map(_returns(3, ())), f"flat_map({_FUNCTION}) returned 3 as its outputs"),
    (lambda some: some.par_do(_returns(3, ())), f"par_do({_FUNCTION}) returned 3 as its outputs"),
    (lambda some: some.par_do(_returns(["ab"], ())), f"par_do({_FUNCTION}) returned 'ab' as an output"),
    (lambda some: some.par_do(_returns([("a",)], ())), f"par_do({_FUNCTION}) returned ('a',) as an output"),
    (lambda some: some.par_do(_returns([({}, 1)], ())), f"par_do({_FUNCTION}) returned {{}} as a key"),
    (lambda some: some.key_by(_returns({}, "b")), f"key_by({_FUNCTION}) returned {{}} as a key"),
    (lambda some: some.with_time(_returns("x", 5)), f"with_time({_FUNCTION}) returned 'x' as an event time"),
    (
        lambda some: some.with_time(_returns(END_OF_TIME, 5)),
        f"with_time({_FUNCTION}) returned {END_OF_TIME} as an event time",
    ),
    (_tags(3), f"par_do_tagged({_FUNCTION}) returned 3 as its outputs"),
    (_tags([("other", "a", 1)]), f"par_do_tagged({_FUNCTION}) returned ('other', 'a', 1) as an output"),
    (_tags([("tag", "a")]), f"par_do_tagged({_FUNCTION}) returned ('tag', 'a') as an output"),
    (_tags([("tag", {}, 1)]), f"par_do_tagged({_FUNCTION}) returned {{}} as a key"),
    (_keeps(3), "_Stateful.process returned 3"),
    (_keeps([("a",)]), "_Stateful.process returned ('a',)"),
    (_keeps([({}, 1)]), "_Stateful.process returned ({}, 1)"),
    (_keeps([3], at_timer=True), "_Stateful.on_timer returned 3"),
    (_groups(wrong=3), "assign_windows returned 3 for key 'a', not windows in event time"),
    (_groups(wrong=[_AFTER_ALL]), f"assign_windows returned [{_AFTER_ALL!r}] for key 'a', not windows in event time"),
    (_groups(merged=[3]), "merge_windows returned [3] for key 'a', not windows in event time"),
    (
        _groups(merged=[Window(0, 1)]),
        f"merge_windows returned [{Window(0, 1)!r}] for [",
    ),
    (_as_they_are, f"event time {END_OF_TIME} is beyond the global window"),
)  # fmt: skip


_PLACES = (
    "DataflowError: stream 'numbers', record numbers/0:1, key 'a': ",
    "DataflowError: element with key 'a', value 7: ", "DataflowError: key 'a': ", "DataflowError: windows _Windows(",
    "WindowMergeError: _Windows(",
)  # fmt: skip


def _sums(numbers: PCollection[Any], name: str = "sums") -> Flow:
    return numbers.window_into(FixedWindows(SECOND)).sum(name=name).to(name)


def _twice() -> Flow:
    flow = _sums(read("numbers"))
    return flow + flow


def _both_codecs() -> Flow:
    return _sums(read("numbers", codec=JsonCodec())) + _sums(read("numbers", codec=TypedCodec(int)), "other")


_REFUSED: Sequence[tuple[Callable[[], Flow], str]] = (
    (_twice, "it gets the same collection twice"),
    (
        lambda: _sums(read("numbers")) + read("numbers").map(_returns(1, 2), name="ones").to("sums"),
        "it gets both panes and plain values",
    ),
    (_both_codecs, "it is read with the codecs"),
)


@pytest.mark.parametrize(("make", "problem"), _REFUSED)
def test_a_flow_that_contradicts_itself_is_refused(make: Callable[[], Flow], problem: str) -> None:
    with pytest.raises(DataflowError, match=problem):
        make().pipeline("refused")


def test_a_flow_is_added_to_a_pipeline_as_it_makes_one() -> None:
    flow, pipeline = _sums(read("numbers")), Pipeline("added")
    pipeline.injector("numbers")
    flow.add_to(pipeline)
    assert [*flow.pipeline("whole").computations] == [*pipeline.computations]


def error_of(make: _Make) -> str:
    """Give a function the element that it fails on, between two others, and return the error that ends the run."""
    wrong_time = END_OF_TIME if make is _as_they_are else None
    pipeline = make(read("numbers", bounded=True)).to("out").pipeline("halting flows")
    builder = FeedBuilder(pipeline)
    for at_us, value in enumerate((1, _WRONG, 2), SECOND):
        time = wrong_time if wrong_time and value == _WRONG else at_us
        builder.record(at_us=at_us, value=value, timestamp=time, key="a")
    builder.watermark(at_us=2 * SECOND, low_watermark=2 * SECOND)
    with pytest.raises(HeadraceError) as caught:
        simulate(pipeline, builder.build(), options=ClusterOptions(check_invariants=True))
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize(("make", "problem"), _FAILURES, ids=[problem for _, problem in _FAILURES])
def test_a_function_that_returns_the_wrong_thing_is_named_with_it(make: _Make, problem: str) -> None:
    error = error_of(make)
    assert error.startswith(_PLACES)
    assert any(f": {problem}. {verb} " in error for verb in ("Return", "Stamp")) or f".{problem}" in error
