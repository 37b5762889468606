"""Runs that a mutant is judged by: each has the name of its workload and a seed, and is the same in every process.

A child process cannot be given functions, so it is told by `RunsSpec` where to get its runs.
"""

import base64
import importlib
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, cycle
from types import CodeType
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from headrace import SECOND
from headrace.dataflow import END_OF_TIME, GlobalWindows, Pane, TimestampCombiner, Timing
from headrace.history import History, Output
from headrace_properties.promises import Promise
from headrace_properties.proof.dataflow.drawn_groupings import GroupingCase, cases, merging_cases
from headrace_properties.proof.dataflow.model import EmittedPane, InputStep, Query, run_model
from headrace_properties.proof.dataflow.transcripts import (
    LOST,
    PANES,
    PROMPT,
    TOLERANCE_US,
    bare,
    committed_panes,
    feed_of,
    in_the_models_order,
    lost_elements,
    pipeline_of,
    received_panes,
    run_layer_counting,
    settled,
    until_the_end,
)
from headrace_properties.proof.mutation.by_hand import AT_ONCE, ToldCase, tell, try_by_hand
from headrace_properties.proof.mutation.chunked import badly_kept, in_small_chunks
from headrace_properties.proof.mutation.disturbed import DISTURBED, try_disturbed
from headrace_properties.proof.mutation.flows import FLOWS, MODEL, flows_pipeline, try_flows
from headrace_properties.proof.mutation.halting import HALTING, try_halting
from headrace_properties.proof.mutation.halting_flows import HALTING_FLOWS, refuse_wrong, try_halting_flows
from headrace_properties.proof.mutation.more_flows import MORE_FLOWS, more_flows_pipeline, try_more_flows
from headrace_properties.proof.mutation.operated import OPERATED, try_operated
from headrace_properties.proof.mutation.watched_options import watched
from headrace_properties.proof.oracles import by_calm, plan_of, try_workload
from headrace_properties.proof.workloads import WORKLOADS, Workload, malformed, read_files
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.fault_kinds import FIRST_TABLE, NEWEST_TABLE
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.plans import Plan
from headrace_properties.verdict import Holds, Verdict, Violated
from headrace_sim import SOUND, Protocol, simulate

GROUPING, SETTLING = "random groupings", "random groupings under faults"
MERGING = "random sessions"
BY_HAND = "groupings by hand"
UNTIMELY = "untimely"
"""Records without a time."""
_HEALTHY = 10
"""Choice: every so many runs of a workload have no faults: what is only late, or costs too much, shows in these alone. If all is
well, one with faults follows, so that whatever is judged by the first run of each workload meets both."""
_AFTER_HEALTHY = 1_000
"""Their seeds begin here."""

_TURNS = 8
"""Choice: disturbances of versions have so many turns where a workload has one; others half as many; the rarest one."""
_DISTURBED = {
    f"{kind} {turn}": (kind, turn)
    for kind in DISTURBED
    for turn in range({"replaced": _TURNS, "driven": 1, "mended": 1}.get(kind, _TURNS // 2))
}


_TRIED: Mapping[str, Callable[[int, Protocol], JudgedRun]] = {
    FLOWS: try_flows, MORE_FLOWS: try_more_flows, OPERATED: try_operated, HALTING: try_halting, HALTING_FLOWS: try_halting_flows,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs to judge a mutant by.

    Attributes:
        workloads: their names.
        run: makes and judges the run of a workload and a seed.
        roots: code is under test only while one of these functions is running: checkers and promises are not.
    """

    workloads: tuple[str, ...]
    run: Callable[[str, int], JudgedRun]
    roots: frozenset[CodeType] = frozenset({simulate.__code__})


class RunsSpec(msgspec.Struct, frozen=True):
    """Where to get runs.

    Attributes:
        maker: a function, ``MODULE:FUNCTION``, that takes the arguments and gives `Runs`.
        arguments: for it.
    """

    maker: str
    arguments: dict[str, Any]

    def load(self) -> Runs:
        """Get them."""
        module, _, name = self.maker.partition(":")
        runs = getattr(importlib.import_module(module), name)(self.arguments)
        assert isinstance(runs, Runs)
        return runs


def engine_spec(seeds: int, workloads: tuple[str, ...] = (), protocol: str = "") -> RunsSpec:
    """Where to get the runs that judge the engine.

    Args:
        seeds: how many of each workload there may be.
        workloads: only these; none: all, and those of the Dataflow layer.
        protocol: a file of Python that is executed before the first run; the runs host its ``protocol``, if it has one.
    """
    varied = (FLOWS, MORE_FLOWS, BY_HAND, *_DRAWN, HALTING, HALTING_FLOWS, OPERATED, UNTIMELY)
    wanted = workloads or (*varied, *_DISTURBED, *WORKLOADS)  # in this order, if not all have a turn
    groupings = {name: _drawn(seeds, name) for name in _DRAWN if name in wanted}
    by_hand = [*tell(_crowded(seeds * AT_ONCE))] if BY_HAND in wanted else []
    # Drawn here, as a mutant of the layer's own checks would draw others.
    pickled = base64.b64encode(pickle.dumps((groupings, by_hand))).decode()
    arguments = {"workloads": list(wanted), "groupings": pickled, "protocol": protocol}
    return RunsSpec(f"{__name__}:engine_runs", arguments)


def engine_runs(arguments: Mapping[str, Any]) -> Runs:
    """The workloads of the search, and random groupings of the Dataflow layer, on the engine or on a protocol of the user's."""
    groupings: dict[str, list[GroupingCase]]
    by_hand: list[ToldCase]
    groupings, by_hand = pickle.loads(base64.b64decode(arguments["groupings"]))  # noqa: S301  our own
    protocol = _protocol_of(arguments["protocol"]) if arguments["protocol"] else SOUND

    def run(name: str, number: int) -> JudgedRun:
        if name == BY_HAND:
            return try_by_hand(by_hand[number * AT_ONCE : (number + 1) * AT_ONCE])
        if name in groupings:
            return _try_grouping(groupings[name][number], number, protocol, faulty=name == SETTLING)
        if name in _TRIED:
            return _TRIED[name](number, protocol)
        if name in _DISTURBED:
            kind, turn = _DISTURBED[name]
            first = (number * _TURNS + turn) * 2
            return _both(
                try_disturbed(kind, first, protocol), lambda: try_disturbed(kind, first + 1, protocol)
            )
        workload = malformed(untimely=True) if name == UNTIMELY else WORKLOADS[name]
        if number % _HEALTHY:
            return _try_faulty(workload, number, protocol)
        feed = workload.feed(number)
        plan = msgspec.structs.replace(plan_of(workload, feed, 0), seed=number)
        return _both(
            try_workload(workload, feed, _limited(plan), protocol),
            lambda: _try_faulty(workload, _AFTER_HEALTHY + number, protocol),
        )

    makers = (
        simulate,
        pipeline_of,
        in_small_chunks,
        feed_of,
        flows_pipeline,
        more_flows_pipeline,
        read_files,
        run_layer_counting,
        refuse_wrong,
    )
    roots = frozenset(made.__code__ for made in makers)
    return Runs(tuple(arguments["workloads"]), run, roots)


def pipeline_runs(workload: Workload, promises: tuple[Promise, ...]) -> Runs:
    """Give the runs of a user's pipeline, under random plans.

    Args:
        workload: the pipeline and its input.
        promises: what is judged besides the invariants.
    """

    def run(_: str, number: int) -> JudgedRun:
        feed = workload.feed(number)
        application = Application.with_input(workload.deployed, feed, promises)
        return try_plan(application, PipelineTrial(plan_of(workload, feed, number)))

    return Runs((workload.name,), run)


def _try_faulty(workload: Workload, number: int, protocol: Protocol) -> JudgedRun:
    feed = workload.feed(number)
    table = NEWEST_TABLE if number % 2 else FIRST_TABLE  # as in `verify`
    return try_workload(workload, feed, _limited(plan_of(workload, feed, number, table)), protocol)


def _both(one: JudgedRun, other: Callable[[], JudgedRun]) -> JudgedRun:
    """Return a run that fails, or two as one; the second is made only if nothing is wrong with the first."""
    if one.failed:
        return one
    second = other()
    if second.failed:
        return second
    verdicts = {**second.verdicts, **{name: it for name, it in one.verdicts.items() if isinstance(it, Holds)}}
    cases = Counter(one.cases) + Counter(second.cases)
    return replace(one, verdicts=verdicts, cases=dict(cases), digest=f"{one.digest} {second.digest}")


def _limited(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, options=watched(plan.options))


def _protocol_of(path: str) -> Protocol:
    names: dict[str, Any] = {"__name__": "headrace_patch", "__file__": path}
    with open(path, encoding="utf-8") as file:  # noqa: PTH123  a path of the command line, checked there
        exec(compile(file.read(), path, "exec"), names)  # noqa: S102  the user's own code
    found = names.get("protocol", SOUND)
    if not isinstance(found, Protocol):
        raise TypeError(f"protocol in {path} is a {type(found).__name__}, not a headrace_sim.Protocol")
    return found


# Random groupings


_DRAWN: Mapping[str, Callable[[], st.SearchStrategy[GroupingCase]]] = {
    GROUPING: cases,
    SETTLING: lambda: cases(settling=True),
    MERGING: merging_cases,
}


@cache
def _drawn(count: int, name: str) -> list[GroupingCase]:
    """Draw the cases of a workload, always the same."""
    found = _examples(_CHOICE * max(count, 30), _DRAWN[name]())
    return [case for _, case in zip(range(count), _varied(found), strict=False)]


def _crowded(count: int) -> list[GroupingCase]:
    """Draw groupings, every other one of sessions, each with an input that is longer than most."""
    drawn = _examples(3 * count, cases(coinciding=True, retractions=True))
    inputs = sorted(drawn, key=lambda case: len(case.steps), reverse=True)[:count]
    queries = chain.from_iterable(zip(drawn, _examples(count, merging_cases()), strict=False))
    pairs = zip(queries, inputs, strict=False)
    return [
        GroupingCase(case.query, _shifted(given.steps, number)) for number, (case, given) in enumerate(pairs)
    ]


def _shifted(steps: tuple[InputStep, ...], number: int) -> tuple[InputStep, ...]:
    """Let half of every third input come a microsecond later: right after what is due at a whole second."""
    if number % 3:
        return steps
    late = [replace(step, at_us=step.at_us + place % 2) for place, step in enumerate(steps)]
    return tuple(sorted(late, key=lambda step: step.at_us))


def _examples(count: int, drawn: st.SearchStrategy[GroupingCase]) -> list[GroupingCase]:
    found: list[GroupingCase] = []

    @seed(0)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,  # by the seed above, whatever a profile says
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn)
    def draw(case: GroupingCase) -> None:
        found.append(case)

    draw()
    return found


def _varied(cases: Sequence[GroupingCase]) -> Iterator[GroupingCase]:
    """Yield cases, for ever, each with as many of the things that have come up least as any that is left.

    Any input goes with any query; the longest come first.
    """
    seen: Counter[str] = Counter()
    left: dict[str, Query] = {}
    inputs = cycle(sorted({case.steps: None for case in cases}, key=len, reverse=True))
    while True:
        left = left or {repr(case.query): case.query for case in cases}
        most = max(left, key=lambda text: sum(1 / (1 + seen[name]) for name in _things(text)))
        seen.update(_things(most))
        yield GroupingCase(left.pop(most), next(inputs))


@cache
def _things(query: str) -> frozenset[str]:
    """What there is in a query, as text: kinds of windows, of triggers and of engines, and options."""
    return frozenset(_NAME.findall(query))


_CHOICE = 20
"""Of so many cases one is chosen."""
_NAME = re.compile(r"[A-Z]\w+(?=\()|(?<=\w\.)[A-Z_]+|\w+=(?:None|True|False)|us=0")


def _try_grouping(case: GroupingCase, number: int, protocol: Protocol, *, faulty: bool) -> JudgedRun:
    query = case.query
    drops = not faulty and query.allowed_lateness_us is not None
    pipeline = pipeline_of(query, dropped_to=LOST if drops else "")
    if number % 2:
        pipeline = in_small_chunks(pipeline)
    feed = feed_of(pipeline, case.steps)
    workload = Workload(SETTLING if faulty else GROUPING, pipeline, lambda _: feed, PROMPT)
    plan = plan_of(workload, feed, number if faulty else 0)

    def by_model(history: History) -> dict[str, Verdict]:
        told = run_model(query, until_the_end(case.steps))
        if faulty:
            received = settled(received_panes(history, pipeline), query.accumulation)
            agrees = received == settled(told.panes, query.accumulation)
        else:
            panes = in_the_models_order(committed_panes(history, pipeline), told.panes)
            agrees = bare(panes) == bare(told.panes) and _in_time(panes, told.panes)
        if drops:
            elements = [(case.steps[step].element, window) for step, window in told.dropped]
            lost = Counter(
                (one.key, Pane(one.value, window, one.time, 0, Timing.LATE))
                for one, window in elements
                if one is not None
            )
            agrees &= lost == lost_elements(history, pipeline)
        problem = badly_kept(history, pipeline) or _badly_stamped(query, history)
        if not agrees:
            problem = "panes differ from what the model tells of the same input"
        differs = {MODEL: Violated(problem, ())} if problem else {}
        return by_calm(workload, plan, history) | differs

    return try_plan(
        Application.with_input(pipeline, feed), PipelineTrial(_limited(plan)), protocol, more=by_model
    )


def _badly_stamped(query: Query, history: History) -> str:
    """Say which pane's record is not stamped with a window's end or an element's time, all of which are whole seconds here."""
    if query.timestamps is TimestampCombiner.END_OF_WINDOW and type(query.windows) is not GlobalWindows:
        for event in history:
            if isinstance(event, Output) and event.production.stream == PANES:
                timestamp = event.production.timestamp
                if timestamp % SECOND and timestamp != END_OF_TIME:
                    return f"{event.production.record_id} has the timestamp {timestamp}"
    return ""


def _in_time(panes: Sequence[EmittedPane], told: Sequence[EmittedPane]) -> bool:
    """Each pane comes when the model tells it, but for what messages take; both are the same but for that."""
    pairs = zip(*(sorted(some, key=lambda pane: pane.key) for some in (panes, told)), strict=True)
    return all(abs(pane.at_us - other.at_us) <= TOLERANCE_US for pane, other in pairs)
