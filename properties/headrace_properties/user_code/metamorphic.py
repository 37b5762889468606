"""Relations between runs: what may be changed in a run so that its outcome stays the same (MillWheel 3, 4, 6).

Each relation changes the pipeline, its input, the cluster or the faults, and says what must not change: what went outside, and
the states in the end. A relation is `Unknown` where it does not apply, and where user code has been seen to depend on the order
of arrival: then the runs differ and nobody is to blame. That is a relation, too, `ARRIVAL`, and a finding about the user's code;
it alone says whether the order matters, so that no other relation is excused by what it denies.
So it is where the source brings late records: how far the low watermark of a computation has come decides what is late there. But
runs of a Dataflow pipeline are compared by what their panes settle to (`settled_runs`), where late records change nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from headrace import Computation, Context, HeadraceError, Pipeline, Productions, Record, Timer, same_key
from headrace.api.dead_letters import Letter
from headrace.history import History
from headrace_properties.checkers import judge
from headrace_properties.reference import RunResult, run_reference
from headrace_properties.results import result_of
from headrace_properties.search.plans import draw_faults, ground_of
from headrace_properties.user_code.comparison import leveled, same_output, without_ids
from headrace_properties.user_code.feeds import has_late_records, permuted
from headrace_properties.user_code.hosting import with_fresh_code
from headrace_properties.user_code.reexecution import check_replay
from headrace_properties.user_code.settled_runs import Settling, settling_of
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import ClusterOptions, FaultSchedule, Feed, simulate
from headrace_sim import faults as f
from headrace_sim.kernel import seldom_collected

FAULTS = 6
"""Drawn for each faulty run."""

_SEEDS = (1, 2, 3)
"""Of what a relation draws anew: faults, orders of arrival, delays."""


@dataclass(frozen=True, slots=True)
class RunSetup:
    """All that a run is made of.

    Attributes:
        pipeline: what runs.
        feed: its input.
        options: of the cluster.
        faults: what goes wrong.
        seed: of all draws.
    """

    pipeline: Pipeline
    feed: Feed
    options: ClusterOptions = field(default_factory=ClusterOptions)
    faults: FaultSchedule = f.NO_FAULTS
    seed: int = 0

    def run(self) -> History:
        """Simulate it, on copies of the user's objects: what one run left in them is not to show in another."""
        return simulate(
            with_fresh_code(self.pipeline),
            self.feed,
            options=self.options,
            faults=self.faults,
            seed=self.seed,
        )

    def with_engine(self, **changes: object) -> "RunSetup":
        """The same with some of the engine's options changed."""
        engine = replace(self.options.engine, **changes)  # type: ignore[arg-type]
        return replace(self, options=msgspec.structs.replace(self.options, engine=engine))


@dataclass(frozen=True, slots=True)
class Relation:
    """A change that must not show in the outcome.

    Attributes:
        name: what reports call it.
        title: what holds, in a line.
        change: makes the other trials; none: it does not apply.
        finding: a difference says something of the user's code.
    """

    name: str
    title: str
    change: Callable[[RunSetup], list[RunSetup]]
    finding: bool = False


ARRIVAL = "arrival"
REFERENCE = "reference"
REPLAY = "replay"


@seldom_collected()
def check_relations(
    pipeline: Pipeline, feed: Feed, *, options: ClusterOptions | None = None, seed: int = 0,
    relations: Sequence[Relation] | None = None, order_matters: str = "",
) -> dict[str, Verdict]:  # fmt: skip
    """Run a pipeline in all the ways that must come to the same.

    Args:
        pipeline: what to run.
        feed: its input.
        options: of the cluster.
        seed: of all draws.
        relations: default: all.
        order_matters: how the outcome is known to depend on the order of arrival, whatever these runs show; ``""``: it is not.

    Returns:
        Verdict by the relation's name; ``reference``: the plain sequential reference; ``replay``: each step, computed again.

    Raises:
        HeadraceError: the run stops even without faults.
    """
    setup = RunSetup(pipeline, feed, options or ClusterOptions(), seed=seed)
    settling = settling_of(pipeline, feed)
    history = setup.run()
    base = _outcome_of(history, pipeline, settling)
    chosen = RELATIONS if relations is None else relations
    arrival = Violated(order_matters, ()) if order_matters else _check(_ARRIVAL, setup, base, settling)
    found = {
        relation.name: arrival if relation is _ARRIVAL else _check(relation, setup, base, settling)
        for relation in chosen
    }
    reference = without_ids(run_reference(with_fresh_code(pipeline), feed), pipeline)
    found[REFERENCE] = _compare("the sequential reference", base, _Outcome.of(reference, pipeline, settling))
    found[REPLAY] = check_replay(history, pipeline)
    if isinstance(weak := found.get("weak"), Violated):
        found["weak"] = Unknown(f"this code needs strong productions; {weak.message}")
    why = _excuse(arrival, feed, settling)
    return {name: _excused(name, one, why) for name, one in found.items()} if why else found


def _excuse(arrival: Verdict, feed: Feed, settling: Settling | None) -> str:
    """Why runs may differ without anybody's fault; ``""``: they may not."""
    if settling is None and has_late_records(feed):
        return "the source brings late records, and whether they are late depends on how far the low watermark has come"
    if isinstance(arrival, Violated):
        return "the outcome depends on the order of arrival"
    return arrival.why if arrival == _RERUN_DIFFERS else ""


def _excused(name: str, verdict: Verdict, why: str) -> Verdict:
    """What differs need not be the engine's fault."""
    if isinstance(verdict, Violated) and name not in (ARRIVAL, REPLAY):
        return Unknown(f"{why}; {verdict.message}")
    return verdict


_RERUN_DIFFERS = Unknown("weak user code made something else when it was run again (S5-weak)")


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
    verdict: Verdict = Unknown("the relation does not apply to this pipeline")
    reached = 0
    for other in setups:
        try:
            history = other.run()
        except HeadraceError as error:
            return Violated(f"{relation.title}: the other run stops with {type(error).__name__}: {error}", ())
        if _reruns_disagree(history, other.pipeline):
            return _RERUN_DIFFERS
        verdict = _compare(relation.title, base, _outcome_of(history, other.pipeline, settling))
        if not isinstance(verdict, Holds):
            return verdict
        reached += verdict.reached
    return Holds(reached) if setups else verdict


def _reruns_disagree(history: History, pipeline: Pipeline) -> bool:
    return isinstance(judge(history, [pipeline]).get("S5-weak"), Violated)


def _compare(title: str, base: _Outcome, other: _Outcome) -> Verdict:
    """Compare what two runs settle to, or their records if they do not settle."""
    if base.settled is not None and other.settled is not None:
        return _compared(title, base.settled, other.settled)
    verdict = _compared(title, base.result, other.result)
    if base.settling is not None and isinstance(verdict, Violated):
        why = "elements that are too late are dropped, and the watermark decides which"
        return Unknown(f"{why}; {verdict.message}")
    return verdict


def _compared(title: str, base: RunResult, other: RunResult) -> Verdict:
    outputs = same_output(base.outputs, other.outputs)
    reached = outputs.common + len(base.states)
    if not outputs.same:
        which = {"first": "only in the plain run", "second": "only in the other"}
        shown = "; ".join(f"{which[side]}: {_shown(one)}" for side, one in outputs.examples(3))
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
    return Holds(reached) if reached else Unknown("nothing came out, and no state was left")


def _shown(one: object) -> str:
    return f"{one!r:.160}"


# The changes


def _with_faults(setup: RunSetup) -> list[RunSetup]:
    """What makes records late is left out: that changes what they mean (4.5)."""
    ground = ground_of(setup.pipeline, setup.feed, setup.options)
    schedules = [
        draw_faults(ground, FAULTS, setup.seed + more, without=(f.LateRecords, f.SkewClock))
        for more in _SEEDS
    ]
    return [replace(setup, faults=schedule) for schedule in schedules]


def _reordered(setup: RunSetup) -> list[RunSetup]:
    """Records of a source change places; and those of several sources, or of several stages, as other delays have it."""
    feeds = [permuted(setup.feed, Random(f"{setup.seed}/{more}")) for more in _SEEDS]
    return [replace(setup, feed=feed) for feed in feeds] + [
        replace(setup, seed=setup.seed + more) for more in _SEEDS
    ]


def _split(setup: RunSetup) -> list[RunSetup]:
    """All in one interval, and in five."""
    return [
        replace(setup, pipeline=_everywhere(setup.pipeline, split_at=at)) for at in ((), ("c", "h", "m", "t"))
    ]


def _single_commits(setup: RunSetup) -> list[RunSetup]:
    return [setup.with_engine(commit_batch=1), setup.with_engine(commit_linger_us=20_000)]


def _duplicated(setup: RunSetup) -> list[RunSetup]:
    if any(not spec.exactly_once for spec in setup.pipeline.computations.values()):
        return []
    ground = ground_of(setup.pipeline, setup.feed, setup.options)
    twice = f.Noise(at_us=0, for_us=ground.horizon_us, duplicate=1.0, delay_us=300_000, kinds=("Deliver",))
    return [replace(setup, faults=FaultSchedule((twice,)))]


def _uncached(setup: RunSetup) -> list[RunSetup]:
    return [setup.with_engine(cache_bytes=0), setup.with_engine(cache_bytes=600)]


def _weak(setup: RunSetup) -> list[RunSetup]:
    weak = replace(setup, pipeline=_everywhere(setup.pipeline, productions=Productions.WEAK))
    return [weak, *_with_faults(weak)]


def _everywhere(pipeline: Pipeline, **changes: object) -> Pipeline:
    for name in pipeline.computations:
        pipeline = pipeline.with_computation(name, **changes)
    return pipeline


class Identity(Computation):
    """Passes records on to one consumer of a stream.

    Args:
        stream: that it takes them from.
        consumer: the computation that it stands before.
        output: the stream that it passes them on to.
    """

    def __init__(self, stream: str, consumer: str, output: str) -> None:
        self.stream = stream
        self.consumer = consumer
        self._output = output

    def process_record(self, context: Context, record: Record) -> None:
        """Pass it on."""
        context.produce(self._output, record.value)


class _Behind(Computation):
    """A user's computation behind identities: it is given each record as it would be without them.

    Args:
        original: the user's.
        streams: stream that an identity passes records on to, to the one that it takes them from.
    """

    def __init__(self, original: Computation, streams: dict[str, str]) -> None:
        self._original = original
        self._streams = streams

    def initial_state(self) -> Any:
        return self._original.initial_state()

    def process_record(self, context: Context, record: Record) -> None:
        record_id = record.record_id.removesuffix(f">{record.stream}#0")  # an identity has its stream's name
        stream = self._streams[record.stream]
        self._original.process_record(
            context, msgspec.structs.replace(record, stream=stream, record_id=record_id)
        )

    def process_timer(self, context: Context, timer: Timer) -> None:
        self._original.process_timer(context, timer)


def _deeper(setup: RunSetup) -> list[RunSetup]:
    """An identity before each input of each computation, in whose place it extracts keys and fails.

    Its productions are weak: their ids follow from those of what it takes (6.1.2), so that these can be had back.
    """
    pipeline = setup.pipeline.copy()
    for name, spec in setup.pipeline.computations.items():
        streams: dict[str, str] = {}
        for number, (stream, extractor) in enumerate(spec.inputs.items()):
            passed = f"identity {number} of {name}"
            streams[passed] = stream
            pipeline.stream(passed, setup.pipeline.codec(stream))
            pipeline.add(
                Identity(stream, name, passed), name=passed, inputs={stream: extractor}, outputs=[passed],
                productions=Productions.WEAK, on_failure=spec.on_failure,
            )  # fmt: skip
        behind = _Behind(spec.computation, streams)
        pipeline = pipeline.with_computation(
            name, inputs=dict.fromkeys(streams, same_key), computation=behind
        )
    return [replace(setup, pipeline=pipeline)]


def _outcome_of(history: History, pipeline: Pipeline, settling: Settling | None) -> _Outcome:
    """Return the outcome of a run (`headrace_properties.user_code.comparison`).

    Left out are ids, which dead letters have, and identities: they keep nothing but an empty state, and their rows are not the
    user's. A dead letter of theirs is their consumer's.
    """
    computations = {name: spec.computation for name, spec in pipeline.computations.items()}
    identities = {name: one for name, one in computations.items() if isinstance(one, Identity)}

    def told(letter: Letter) -> Letter:
        letter = dict(letter)
        if letter["stream"] in identities:
            letter["stream"] = identities[letter["stream"]].stream
        if letter.get("computation") in identities:
            letter["computation"] = identities[letter["computation"]].consumer
        for name, identity in identities.items():
            letter["error"] = letter["error"].replace(name, identity.consumer)
        return letter

    found = result_of(history)
    states = {name: state for name, state in found.states.items() if name[0] not in identities}
    return _Outcome.of(without_ids(replace(found, states=states), pipeline, told), pipeline, settling)


_ARRIVAL = Relation(ARRIVAL, "another order of arrival comes to the same", _reordered, finding=True)

RELATIONS = (
    _ARRIVAL,
    Relation("faults", "a faulty run comes to the same as one without faults", _with_faults),
    Relation("splits", "other key intervals come to the same", _split),
    Relation("commits", "single and lingering commits come to the same as coalesced ones", _single_commits),
    Relation("duplicates", "input that arrives twice comes to the same", _duplicated),
    Relation("cache", "no cache, or a small one, comes to the same", _uncached),
    Relation("depth", "an identity between all stages comes to the same", _deeper),
    Relation("weak", "weak productions of idempotent code come to the same as strong ones", _weak),
)
"""All of them; their result is compared with that of a plain run."""
