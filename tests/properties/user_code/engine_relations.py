"""Relations between runs that prove the engine, and not the user's program: other intervals, commits, caches, and duplicates.

They hold whatever code does that keeps to its context; `headrace_properties.user_code.metamorphic` has those that code can break.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from headrace import Computation, Context, Pipeline, Productions, Record, Timer, same_key
from headrace.api.dead_letters import Letter
from headrace_properties.reference import RunResult
from headrace_properties.search.plans import ground_of
from headrace_properties.user_code import metamorphic
from headrace_properties.user_code.comparison import without_ids
from headrace_properties.user_code.metamorphic import Relation, RunSetup, with_faults
from headrace_properties.verdict import Unknown, Verdict, Violated
from headrace_sim import ClusterOptions, FaultSchedule, Feed
from headrace_sim import faults as f


def check_relations(
    pipeline: Pipeline, feed: Feed, *, options: ClusterOptions | None = None, seed: int = 0,
    relations: Sequence[Relation] = (), order_matters: str = "",
) -> dict[str, Verdict]:  # fmt: skip
    """Check all relations, as `metamorphic.check_relations` does those of user code.

    Code that does worse with weak productions needs strong ones, which is no fault of the engine.
    """
    found = metamorphic.check_relations(
        pipeline,
        feed,
        options=options,
        seed=seed,
        relations=relations or RELATIONS,
        order_matters=order_matters,
    )
    if isinstance(weak := found.get("weak"), Violated):
        found["weak"] = Unknown(f"this code needs strong productions; {weak.message}", applies=False)
    return found


def _with_engine(setup: RunSetup, **changes: object) -> RunSetup:
    engine = replace(setup.options.engine, **changes)  # type: ignore[arg-type]
    return replace(setup, options=msgspec.structs.replace(setup.options, engine=engine))


def _split(setup: RunSetup) -> list[RunSetup]:
    """Use one key interval, and five."""
    return [
        replace(setup, pipeline=_everywhere(setup.pipeline, split_at=at)) for at in ((), ("c", "h", "m", "t"))
    ]


def _single_commits(setup: RunSetup) -> list[RunSetup]:
    return [_with_engine(setup, commit_batch=1), _with_engine(setup, commit_linger_us=20_000)]


def _duplicated(setup: RunSetup) -> list[RunSetup]:
    if any(not spec.exactly_once for spec in setup.pipeline.computations.values()):
        return []
    ground = ground_of(setup.pipeline, setup.feed, setup.options)
    twice = f.Noise(at_us=0, for_us=ground.horizon_us, duplicate=1.0, delay_us=300_000, kinds=("Deliver",))
    return [replace(setup, faults=FaultSchedule((twice,)))]


def _uncached(setup: RunSetup) -> list[RunSetup]:
    return [_with_engine(setup, cache_bytes=0), _with_engine(setup, cache_bytes=600)]


def _weak(setup: RunSetup) -> list[RunSetup]:
    weak = replace(setup, pipeline=_everywhere(setup.pipeline, productions=Productions.WEAK))
    return [weak, *with_faults(weak)]


def _everywhere(pipeline: Pipeline, **changes: object) -> Pipeline:
    for name in pipeline.computations:
        pipeline = pipeline.with_computation(name, **changes)
    return pipeline


class _Identity(Computation):
    """A computation that forwards records to one consumer of a stream.

    Args:
        stream: its input stream.
        consumer: the computation that it precedes.
        output: its output stream.
    """

    def __init__(self, stream: str, consumer: str, output: str) -> None:
        self.stream = stream
        self.consumer = consumer
        self._output = output

    def process_record(self, context: Context, record: Record) -> None:
        """Forward the record."""
        context.produce(self._output, record.value)


class _Behind(Computation):
    """A user's computation behind identities, which receives each record as it would without them.

    Args:
        original: the user's computation.
        streams: an identity's output stream to its input stream.
    """

    def __init__(self, original: Computation, streams: dict[str, str]) -> None:
        self._original = original
        self._streams = streams

    def initial_state(self) -> Any:
        return self._original.initial_state()

    def process_record(self, context: Context, record: Record) -> None:
        record_id = record.record_id.removesuffix(f">{record.stream}#0")  # it is named after its stream
        stream = self._streams[record.stream]
        self._original.process_record(
            context, msgspec.structs.replace(record, stream=stream, record_id=record_id)
        )

    def process_timer(self, context: Context, timer: Timer) -> None:
        self._original.process_timer(context, timer)


def _deeper(setup: RunSetup) -> list[RunSetup]:
    """Put an identity before each input of each computation; it extracts keys, and fails, in the computation's place.

    An identity's productions are weak: their ids are derived from those of its inputs (6.1.2), which can thus be recovered.
    """
    pipeline = setup.pipeline.copy()
    for name, spec in setup.pipeline.computations.items():
        streams: dict[str, str] = {}
        for number, (stream, extractor) in enumerate(spec.inputs.items()):
            passed = f"identity {number} of {name}"
            streams[passed] = stream
            pipeline.stream(passed, setup.pipeline.codec(stream))
            pipeline.add(
                _Identity(stream, name, passed), name=passed, inputs={stream: extractor}, outputs=[passed],
                productions=Productions.WEAK, on_failure=spec.on_failure,
            )  # fmt: skip
        behind = _Behind(spec.computation, streams)
        pipeline = pipeline.with_computation(
            name, inputs=dict.fromkeys(streams, same_key), computation=behind
        )
    return [replace(setup, pipeline=pipeline)]


def _without_identities(result: RunResult, pipeline: Pipeline) -> RunResult:
    """Leave out the rows of identities, which hold only an empty state. An identity's dead letter counts as its consumer's."""
    computations = {name: spec.computation for name, spec in pipeline.computations.items()}
    identities = {
        name: computation for name, computation in computations.items() if isinstance(computation, _Identity)
    }

    def told(letter: Letter) -> Letter:
        letter = dict(letter)
        if letter["stream"] in identities:
            letter["stream"] = identities[letter["stream"]].stream
        if letter.get("computation") in identities:
            letter["computation"] = identities[letter["computation"]].consumer
        for name, identity in identities.items():
            letter["error"] = letter["error"].replace(name, identity.consumer)
        return letter

    states = {name: state for name, state in result.states.items() if name[0] not in identities}
    return without_ids(replace(result, states=states), pipeline, told)


RELATIONS = (
    *metamorphic.RELATIONS,
    Relation("splits", "other key intervals give the same outcome", _split),
    Relation(
        "commits", "single and lingering commits give the same outcome as coalesced ones", _single_commits
    ),
    Relation("duplicates", "input that arrives twice gives the same outcome", _duplicated),
    Relation("cache", "no cache, or a small one, gives the same outcome", _uncached),
    Relation("depth", "an identity between all stages gives the same outcome", _deeper, _without_identities),
    Relation("weak", "weak productions of idempotent code give the same outcome as strong ones", _weak),
)
"""All relations; each is compared with a plain run."""
