"""Metamorphic relations: changes to a run that must not change its outcome (MillWheel 3, 4, 6).

Each relation changes the pipeline, its input, the cluster or the faults; the records sent outside and the final states must stay
the same. A relation is `Unknown` where it does not apply, and where user code was seen to depend on the order of arrival: runs
may then differ although the engine is correct. Independence of that order is itself a relation, `ARRIVAL`, whose violation is a
finding about user code. Only `ARRIVAL` decides whether the order matters, so no other relation is excused while it holds.

Relations are also `Unknown` where the source delivers late records: lateness at a computation depends on how far its low
watermark has advanced. But runs of a Dataflow pipeline are compared by what their panes settle to (`settled_runs`), where late
records change nothing. And they are where an outcome contains ids of productions, which differ from run to run (6.1.1), unless
the ids decide more than that. Ids of injected records number them in order, so the records are not reordered then, nor if some of
them become dead letters of an injector, which name their offsets.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import msgspec

from headrace import HeadraceError, Pipeline, Productions
from headrace.history import History
from headrace_properties.checkers import judge
from headrace_properties.reference import Emitted, HookCall, RunResult, StepResult, run_reference, run_step
from headrace_properties.reference.running_computation import RunningComputation
from headrace_properties.results import result_of
from headrace_properties.search.plans import draw_faults, ground_of
from headrace_properties.user_code.comparison import leveled, same_output, without_ids
from headrace_properties.user_code.feeds import has_dead_letters, has_late_records, permuted
from headrace_properties.user_code.hosting import with_fresh_code
from headrace_properties.user_code.reexecution import check_replay
from headrace_properties.user_code.settled_runs import Settling, settling_of
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import ClusterOptions, FaultSchedule, Feed, simulate
from headrace_sim import faults as f
from headrace_sim.kernel import seldom_collected

FAULTS = 6
"""Number of faults drawn for each faulty run."""

_SEEDS = (1, 2, 3)
"""Seeds from which a relation draws faults, orders of arrival and delays."""


@dataclass(frozen=True, slots=True)
class RunSetup:
    """Everything that determines a run.

    Attributes:
        pipeline: what runs.
        feed: its input.
        options: of the cluster.
        faults: the fault schedule.
        seed: seed of all random choices.
    """

    pipeline: Pipeline
    feed: Feed
    options: ClusterOptions = field(default_factory=ClusterOptions)
    faults: FaultSchedule = f.NO_FAULTS
    seed: int = 0

    def run(self) -> History:
        """Simulate the run on copies of the user's objects, so that one run leaves nothing behind for another."""
        return simulate(
            with_fresh_code(self.pipeline),
            self.feed,
            options=self.options,
            faults=self.faults,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class Relation:
    """A change that must not affect the outcome.

    Attributes:
        name: its name in reports.
        title: the claim, in one line.
        change: makes the changed setups; none if the relation does not apply.
        read: reads the result of a changed run as if nothing had been changed, without the ids that differ.
    """

    name: str
    title: str
    change: Callable[[RunSetup], list[RunSetup]]
    read: Callable[[RunResult, Pipeline], RunResult] = without_ids


ARRIVAL = "arrival"
REFERENCE = "reference"
REPLAY = "replay"


@seldom_collected()
def check_relations(
    pipeline: Pipeline, feed: Feed, *, options: ClusterOptions | None = None, seed: int = 0,
    relations: Sequence[Relation] = (), order_matters: str = "",
) -> dict[str, Verdict]:  # fmt: skip
    """Run a pipeline in all the ways that must give the same outcome.

    Args:
        pipeline: what to run.
        feed: its input.
        options: of the cluster.
        seed: seed of all random choices.
        relations: the relations to check; default: `RELATIONS`.
        order_matters: why the outcome is known to depend on the order of arrival, whatever these runs show; ``""`` if it is not.

    Returns:
        Verdict by the relation's name; ``reference``: the plain sequential reference; ``replay``: each step, computed again.

    Raises:
        HeadraceError: the run stops even without faults.
    """
    setup = RunSetup(pipeline, feed, options or ClusterOptions(), seed=seed)
    settling = settling_of(pipeline, feed)
    history = setup.run()
    base = _Outcome.of(without_ids(result_of(history), pipeline), pipeline, settling)
    naming = _naming_ids(pipeline, feed)
    keeps_order = bool(naming) or has_dead_letters(setup.pipeline, feed)
    order = replace(_ARRIVAL, change=_delayed) if keeps_order else _ARRIVAL
    arrival = Violated(order_matters, ()) if order_matters else _check(order, setup, base, settling)
    verdicts = {
        relation.name: arrival if relation is _ARRIVAL else _check(relation, setup, base, settling)
        for relation in relations or RELATIONS
    }
    reference = without_ids(run_reference(with_fresh_code(pipeline), feed), pipeline)
    verdicts[REFERENCE] = _compare(
        "the sequential reference", base, _Outcome.of(reference, pipeline, settling)
    )
    verdicts[REPLAY] = check_replay(history, pipeline)
    why = _uncomparable(pipeline, feed, settling, naming)
    kept = {REPLAY, ARRIVAL} if order_matters or not why else {REPLAY}
    why = why or _by_order(arrival)
    return {name: verdict if name in kept else _excused(verdict, why) for name, verdict in verdicts.items()}


def _naming_ids(pipeline: Pipeline, feed: Feed) -> dict[str, bool]:
    """Return the computations whose outcome changes with the ids of the records that they process.

    The value is whether it only contains the ids, so that it is the same but for them; otherwise they decide something.
    """
    naming: dict[str, bool] = {}

    def host(pipeline: Pipeline, stage: RunningComputation, step: HookCall) -> StepResult:
        result = run_step(pipeline, stage, step)
        if step.record is None or not naming.get(step.computation, True):
            return result
        name = f"{step.cause}~"
        try:
            renamed = run_step(pipeline, stage, replace(step, cause=name))
        except Exception:  # noqa: BLE001  user code may raise anything, such as for an id that it cannot parse
            naming[step.computation] = False
            return result
        if _written(renamed) != _written(result):
            naming[step.computation] = _written(renamed, name, step.cause) == _written(result)
        return result

    run_reference(with_fresh_code(pipeline), feed, host=host)
    return naming


def _written(result: StepResult, name: str = "", instead: str = "") -> tuple[object, ...]:
    """Return a call's outcome as bytes, with one id replaced by another; ``name``: of the first, ``""`` replaces nothing."""
    state = None if result.state is None else bytes(result.state)
    written = [(emitted.stream, emitted.key, emitted.timestamp, emitted.value) for emitted in result.made]
    if not name:
        return state, written
    old, new = name.encode(), instead.encode()
    renamed = [
        (stream, key.replace(name, instead), at, value.replace(old, new))
        for stream, key, at, value in written
    ]
    return state and state.replace(old, new), renamed


def _uncomparable(pipeline: Pipeline, feed: Feed, settling: Settling | None, naming: dict[str, bool]) -> str:
    """Return why correct runs may differ, whatever code does with the order of arrival; ``""`` if they may not."""
    if settling is None and has_late_records(feed):
        return "the source delivers late records, and their lateness depends on how far the low watermark has advanced"
    injected = {stream for spec in pipeline.injectors.values() for stream in spec.all_outputs}
    for name in sorted(name for name, contains in naming.items() if contains):
        if not injected.issuperset(pipeline.computations[name].inputs):
            return f"the outcome of {name!r} contains ids of productions, which differ from run to run"
    return ""


def _by_order(arrival: Verdict) -> str:
    """Return why correct runs may differ if the order of arrival decides the outcome; ``""`` if it does not."""
    if isinstance(arrival, Violated):
        return "the outcome depends on the order of arrival"
    return arrival.why if arrival == _RERUN_DIFFERS else ""


def _excused(verdict: Verdict, why: str) -> Verdict:
    """Turn a violation into `Unknown` if correct runs may differ; ``why``: the reason, ``""`` if there is none."""
    return Unknown(f"{why}; {verdict.message}") if why and isinstance(verdict, Violated) else verdict


_RERUN_DIFFERS = Unknown("weak user code produced something else when it was rerun (S5-weak)")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a run, as far as runs can be compared.

    Attributes:
        result: its records and states.
        settled: what its panes settle to; ``None``: they do not, or it has dropped elements.
        settling: how they do; ``None``: they do not.
    """

    result: RunResult
    settled: RunResult | None
    settling: Settling | None

    @classmethod
    def of(cls, result: RunResult, pipeline: Pipeline, settling: Settling | None) -> "_Outcome":
        settled = None
        if settling is not None and not settling.has_dropped(result):
            settled = RunResult(settling.outputs(result), {})
        return cls(leveled(result, pipeline), settled, settling)


def _check(relation: Relation, setup: RunSetup, base: _Outcome, settling: Settling | None) -> Verdict:
    setups = relation.change(setup)
    verdict: Verdict = Unknown("the relation does not apply to this pipeline", applies=False)
    reached = 0
    for changed in setups:
        try:
            history = changed.run()
        except HeadraceError as error:
            return Violated(f"{relation.title}: the other run stops with {type(error).__name__}: {error}", ())
        if _reruns_disagree(history, changed.pipeline):
            return _RERUN_DIFFERS
        result = relation.read(result_of(history), changed.pipeline)
        verdict = _compare(relation.title, base, _Outcome.of(result, changed.pipeline, settling))
        if not isinstance(verdict, Holds):
            return verdict
        reached += verdict.reached
    return Holds(reached) if setups else verdict


def _reruns_disagree(history: History, pipeline: Pipeline) -> bool:
    is_weak = any(spec.productions is Productions.WEAK for spec in pipeline.computations.values())
    return is_weak and isinstance(judge(history, [pipeline]).get("S5-weak"), Violated)


def _compare(title: str, base: _Outcome, other: _Outcome) -> Verdict:
    """Compare what two runs settle to, or their records if they do not settle."""
    if base.settled is not None and other.settled is not None:
        return _compared(title, base.settled, other.settled)
    verdict = _compared(title, *_with_same_times(base.result, other.result))
    if base.settling is not None and isinstance(verdict, Violated):
        why = "elements that are too late are dropped, and the watermark decides which"
        return Unknown(f"{why}; {verdict.message}")
    return verdict


def _with_same_times(base: RunResult, other: RunResult) -> tuple[RunResult, RunResult]:
    """Return two results, without timestamps if nothing else differs in their records.

    Choice: code that lets the first of several equal records pass stamps it with that one's time, in any order. `orders` compares
    the timestamps that code chooses, and `check_replay` those of each step.
    """
    first, second = _untimed(base.outputs), _untimed(other.outputs)
    return (
        (replace(base, outputs=first), replace(other, outputs=second)) if first == second else (base, other)
    )


def _untimed(outputs: Counter[Emitted]) -> Counter[Emitted]:
    untimed: Counter[Emitted] = Counter()
    for emitted, times in outputs.items():
        untimed[msgspec.structs.replace(emitted, timestamp=0)] += times
    return untimed


def _shown(output: Emitted) -> str:
    value = output.value.decode(errors="backslashreplace")
    return f"{value:.160} on {output.stream!r}, key {output.key!r}, timestamp {output.timestamp}"


def _compared(title: str, base: RunResult, other: RunResult) -> Verdict:
    outputs = same_output(base.outputs, other.outputs)
    reached = outputs.common + len(base.states)
    if not outputs.same:
        which = {"first": "only in the plain run", "second": "only in the other"}
        shown = "; ".join(f"{which[side]}: {_shown(output)}" for side, output in outputs.examples(3))
        return Violated(f"{title}: {outputs.differing} outputs differ ({shown})", ())
    differing = sorted(
        name
        for name in base.states.keys() | other.states.keys()
        if base.states.get(name) != other.states.get(name)
    )
    if differing:
        (computation, key), count = differing[0], len(differing)
        text = f"{title}: {count} states differ, first that of key {key!r} at {computation!r}"
        return Violated(
            f"{text}: {base.states.get(differing[0])!r} and {other.states.get(differing[0])!r}", ()
        )
    return Holds(reached) if reached else Unknown("nothing came out, and no state was left", applies=False)


# The changes


def with_faults(setup: RunSetup) -> list[RunSetup]:
    """Add random faults, except those that make records late, which would change their meaning (4.5)."""
    ground = ground_of(setup.pipeline, setup.feed, setup.options)
    schedules = [
        draw_faults(ground, FAULTS, setup.seed + more, without=(f.LateRecords, f.SkewClock))
        for more in _SEEDS
    ]
    return [replace(setup, faults=schedule) for schedule in schedules]


def _reordered(setup: RunSetup) -> list[RunSetup]:
    """Reorder the records of each source, and change delays, which reorders records of several sources or stages."""
    feeds = [permuted(setup.feed, Random(f"{setup.seed}/{more}")) for more in _SEEDS]
    return [*[replace(setup, feed=feed) for feed in feeds], *_delayed(setup)]


def _delayed(setup: RunSetup) -> list[RunSetup]:
    return [replace(setup, seed=setup.seed + more) for more in _SEEDS]


_ARRIVAL = Relation(ARRIVAL, "another order of arrival gives the same outcome", _reordered)

RELATIONS = (
    _ARRIVAL,
    Relation("faults", "a run with faults gives the same outcome as one without", with_faults),
)
"""The relations that user code can break; each is compared with a plain run."""
