"""Runs of the Dataflow layer that must stop: a function of the user's returns what it must not (Dataflow 2.1, 2.2).

The error must name the function's call and the function, what it returned, and the element or the key.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace import SECOND, JsonCodec, Pipeline, TypedCodec
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
from headrace_properties.proof.mutation.halting import stopped_rightly
from headrace_properties.proof.mutation.watched_options import watched
from headrace_properties.proof.workloads.workload import SHORT
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.plans import Plan
from headrace_properties.search.run_error import RunError
from headrace_sim import NO_FAULTS, SOUND, FeedBuilder, Protocol

HALTING_FLOWS = "halting flows"
_WRONG = 7
_EACH = 3
"""How many of them a run tries."""


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
        f"merge_windows returned [{Window(0, 1)!r}] for [{Window(SECOND + 1, 2 * SECOND + 1)!r}, ",
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


def refuse_wrong() -> str:
    """Build flows that must be refused, and one in two ways; say what is not as it must be."""
    for make, problem in _REFUSED:
        try:
            make().pipeline("refused")
        except DataflowError as error:
            if problem not in str(error):
                return f"a flow was refused as {error}, and had to be as {problem}"
        else:
            return f"a flow was not refused, and had to be as {problem}"
    flow, pipeline = _sums(read("numbers")), Pipeline("added")
    pipeline.injector("numbers")
    flow.add_to(pipeline)
    whole = flow.pipeline("whole")
    if [*whole.computations] != [*pipeline.computations]:
        return f"{[*pipeline.computations]} were added, and not {[*whole.computations]}"
    return ""


def try_halting_flows(seed: int, protocol: Protocol = SOUND) -> JudgedRun:
    """Give a few functions the element that they fail on, and judge by the errors that end the runs; the last run is returned.

    Before that, flows that must be refused are built.
    """
    judged = _tried(seed * _EACH, protocol)
    if problem := refuse_wrong():
        return dataclasses.replace(judged, error=RunError.wrong(problem))
    for number in range(1, _EACH):
        if not judged.error:
            judged = _tried(seed * _EACH + number, protocol)
    return judged


def _tried(number: int, protocol: Protocol) -> JudgedRun:
    number %= len(_FAILURES)
    make, problem = _FAILURES[number]
    wrong_time = END_OF_TIME if make is _as_they_are else None
    pipeline = make(read("numbers", bounded=True)).to("out").pipeline("halting flows")
    builder = FeedBuilder(pipeline)
    for at_us, value in enumerate((1, _WRONG, 2), SECOND):
        time = wrong_time if wrong_time and value == _WRONG else at_us
        builder.record(at_us=at_us, value=value, timestamp=time, key="a")
    builder.watermark(at_us=2 * SECOND, low_watermark=2 * SECOND)
    judged = try_plan(
        Application.with_input((pipeline,), builder.build()),
        PipelineTrial(Plan(NO_FAULTS, watched(SHORT), number)),
        protocol,
    )
    error = str(judged.error or "")
    is_right = error.startswith(_PLACES) and (
        any(f": {problem}. {verb} " in error for verb in ("Return", "Stamp")) or f".{problem}" in error
    )
    return stopped_rightly(judged, f"as {problem}", is_right=is_right)
