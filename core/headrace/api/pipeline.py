"""The topology (MillWheel 2, 3, Figure 3): computations, streams, injectors, and how they are joined.

A stream is its name. The consumer names the key extractor. The graph is validated as a whole before anything runs.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

import networkx as nx

from headrace.api.codecs import Codec, JsonCodec, decode_at, encode_at
from headrace.api.computation import Computation
from headrace.api.dead_letters import SAMPLES, check_carries
from headrace.api.errors import (
    CodecError,
    CycleError,
    DuplicateNameError,
    NoSourceError,
    OptionsError,
    PipelineError,
    UnknownStreamError,
)
from headrace.api.records import Record

OUTSIDE = ""
"""As a consumer: the outside world, which takes every stream that no computation subscribes to."""

KeyExtractor = Callable[[Record], str]


def same_key(record: Record) -> str:
    """Keep the record's own key: the default key extractor."""
    return record.key


class Productions(enum.Enum):
    """When productions leave (MillWheel 6.1.2, 6.1.3)."""

    STRONG = "strong"
    """After they were checkpointed with the state, in one atomic write."""
    WEAK = "weak"
    """Before anything is persisted; only stragglers are checkpointed. For idempotent code."""


@dataclass(frozen=True, slots=True)
class Stop:
    """On failure: stop the run with an error that names record, key and computation (the default)."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """On failure: send a dead letter to this stream, and go on.

    A dead letter is a dict, which the stream's codec writes (JSON, if it has none). A computation's has the fields
    ``computation``, ``key``, ``cause`` (the record's id), ``stream``, ``value_base64`` (the record's bytes), ``timestamp`` and
    ``error``; of a timer, ``stream`` and ``value_base64`` are ``None``. An injector's has ``injector``, ``stream``, ``offset``,
    ``key``, ``value`` (base64 of the bytes), ``timestamp`` and ``error``; what is of the wrong type is in it as its ``repr``.

    Attributes:
        stream: where to. A codec that can not carry the dict is refused when the pipeline is validated.
    """

    stream: str

    def __post_init__(self) -> None:
        """Refuse a stream without a name."""
        if not _is_name(self.stream):
            raise OptionsError("DeadLetter", self.stream, "the name of a stream")


@dataclass(frozen=True, slots=True)
class Skip:
    """On failure: as `DeadLetter` for records and timers that an operator has let go, and as `Stop` for all others.

    For hosts, which know what the operator has said; a pipeline is written with one of the other two.

    Attributes:
        stream: where dead letters go.
        causes: ids of these records and timers, as errors and dead letters name them.
    """

    stream: str
    causes: frozenset[str]


FailurePolicy = Stop | DeadLetter


def letters_to(policy: FailurePolicy | Skip, cause: str) -> str | None:
    """The stream that the dead letter of a record or timer goes to; ``None``: the run stops."""
    if isinstance(policy, Skip):
        return policy.stream if cause in policy.causes else None
    return policy.stream if isinstance(policy, DeadLetter) else None


@dataclass(frozen=True, slots=True)
class ComputationSpec:
    """One node of the graph, with its switches. Built by `Pipeline.add`.

    Attributes:
        name: unique in the pipeline.
        computation: the user's object.
        inputs: stream to key extractor.
        outputs: streams that it may produce to.
        productions: strong or weak (6.1.2, 6.1.3).
        exactly_once: whether deliveries are deduplicated (6.1.1).
        state_codec: how its state is written.
        watermark_percentile: 100 for the low watermark; less for the heuristic of 7.2.
        on_failure: what happens when user code keeps failing.
        split_at: keys at which its key space is divided from the start.
        output_codecs: codec by output stream (dead letters are not the user's to produce).
        initial_state: the encoded initial state, which is stored as nothing.
    """

    name: str
    computation: Computation
    inputs: Mapping[str, KeyExtractor]
    outputs: tuple[str, ...]
    productions: Productions = Productions.STRONG
    exactly_once: bool = True
    state_codec: Codec = field(default_factory=JsonCodec)
    watermark_percentile: float = 100.0
    on_failure: FailurePolicy | Skip = Stop()
    split_at: tuple[str, ...] = ()
    output_codecs: Mapping[str, Codec] = field(default_factory=dict)
    initial_state: bytes = b""

    @property
    def all_outputs(self) -> tuple[str, ...]:
        """Its outputs, and its dead letters' stream if it has one."""
        policy = self.on_failure
        return self.outputs + ((policy.stream,) if isinstance(policy, DeadLetter | Skip) else ())


@dataclass(frozen=True, slots=True)
class InjectorSpec:
    """A source of records from outside (MillWheel 5.2). Built by `Pipeline.injector`.

    Attributes:
        name: unique in the pipeline.
        outputs: streams that it injects into.
        processes: how many processes it consists of; each is expected, and one that is missing holds the watermark.
        skew_limit_us: records more than this ahead of the slowest low watermark wait (8.4); ``None``: no limit.
        on_malformed: what happens to a record that can not be read or keyed.
    """

    name: str
    outputs: tuple[str, ...]
    processes: int = 1
    skew_limit_us: int | None = None
    on_malformed: FailurePolicy = Stop()

    @property
    def all_outputs(self) -> tuple[str, ...]:
        """Its outputs, and its dead letters' stream if it has one."""
        return self.outputs + (
            (self.on_malformed.stream,) if isinstance(self.on_malformed, DeadLetter) else ()
        )

    def addresses(self) -> list[str]:
        """The addresses of its processes: the expected set of 5.2."""
        return [f"{self.name}/{number}" for number in range(self.processes)]


class Pipeline:
    """A graph of computations joined by streams, fed by injectors.

    >>> pipeline = Pipeline("letters")
    >>> pipeline.injector("mail", outputs=["letters"])
    >>> pipeline.add(Computation(), name="sorter", inputs={"letters": lambda record: record.value["city"]})
    >>> pipeline.validate()
    >>> pipeline.senders("sorter")
    ('mail',)

    Args:
        name: what messages and reports call it.
    """

    def __init__(self, name: str) -> None:
        if not _is_name(name):
            raise OptionsError("name", name, "a name")
        self.name = name
        self._codecs: dict[str, Codec] = {}
        self._default_codec: Codec = JsonCodec()
        self._computations: dict[str, ComputationSpec] = {}
        self._injectors: dict[str, InjectorSpec] = {}
        self._frozen: _Topology | None = None

    def stream(self, name: str, codec: Codec) -> None:
        """Name the codec of a stream. Streams without one carry JSON-like values.

        Args:
            name: the stream.
            codec: how all its producers write and all its consumers read its values.

        Raises:
            DuplicateNameError: the stream has a codec already.
            OptionsError: no name, or no codec.
        """
        if not _is_name(name):
            raise OptionsError("stream", name, "the name of a stream")
        if not _is_codec(codec):
            raise OptionsError("codec", codec, _CODEC)
        if name in self._codecs:
            raise DuplicateNameError(
                self.name, f"stream {name!r} is given a codec twice", "Name its codec once"
            )
        self._codecs[name] = codec
        self._frozen = None

    def injector(
        self,
        name: str,
        *,
        outputs: Iterable[str] | None = None,
        processes: int = 1,
        skew_limit_us: int | None = None,
        on_malformed: FailurePolicy | None = None,
    ) -> None:
        """Add a source of records (MillWheel 5.2).

        Args:
            name: unique among computations and injectors.
            outputs: streams that it injects into; default: one stream of its own name.
            processes: how many processes it consists of, all of them expected.
            skew_limit_us: how far ahead of the slowest low watermark a record may be to be injected (8.4). Until each
                computation's watermark is known, all records wait: a source with a limit has to tell its watermark.
            on_malformed: default `Stop`.

        Raises:
            DuplicateNameError: the name is taken.
            OptionsError: no process, a negative limit, or an argument of the wrong kind.
        """
        self._claim(name)
        if type(processes) is not int or processes < 1:
            raise OptionsError("processes", processes, "an int of at least 1")
        if skew_limit_us is not None and (type(skew_limit_us) is not int or skew_limit_us < 0):
            raise OptionsError("skew_limit_us", skew_limit_us, "at least 0 microseconds, or None")
        policy = Stop() if on_malformed is None else on_malformed
        if not isinstance(policy, FailurePolicy):
            raise OptionsError("on_malformed", policy, "Stop() or DeadLetter(stream)")
        streams = _streams("outputs", outputs) if outputs is not None else (name,)
        if not streams:
            raise OptionsError("outputs", outputs, "at least one stream, or None for one of its own name")
        self._injectors[name] = InjectorSpec(name, streams, processes, skew_limit_us, policy)

    def add(
        self,
        computation: Computation,
        *,
        name: str,
        inputs: Mapping[str, KeyExtractor] | Iterable[str],
        outputs: Iterable[str] = (),
        productions: Productions = Productions.STRONG,
        exactly_once: bool = True,
        state_codec: Codec | None = None,
        watermark_percentile: float = 100.0,
        on_failure: FailurePolicy | Skip | None = None,
        split_at: Iterable[str] = (),
    ) -> None:
        """Add a computation (Figure 3).

        Args:
            computation: your object; one serves all keys.
            name: unique among computations and injectors.
            inputs: stream to key extractor; a plain list of streams keeps the records' own keys.
            outputs: streams that it may produce to.
            productions: strong or weak (6.1.2, 6.1.3).
            exactly_once: switch deduplication off for code that is idempotent (6.1.3).
            state_codec: how its state is written; default: JSON-like.
            watermark_percentile: its timers and lateness follow the progress of this part of all pending records (7.2).
            on_failure: default `Stop`.
            split_at: keys at which to divide its key space from the start (more splits follow the load).

        Raises:
            DuplicateNameError: the name is taken.
            OptionsError: a percentile outside (0, 100], or an argument of the wrong kind.
            CodecError: the state codec can not write the initial state, or reads it back as something else.
        """
        self._claim(name)
        streams = _streams("inputs", inputs)
        extractors = dict(inputs) if isinstance(inputs, Mapping) else dict.fromkeys(streams, same_key)
        self._computations[name] = _checked(
            ComputationSpec(
                name=name,
                computation=computation,
                inputs=extractors,
                outputs=_streams("outputs", outputs),
                productions=productions,
                exactly_once=exactly_once,
                state_codec=JsonCodec() if state_codec is None else state_codec,
                watermark_percentile=watermark_percentile,
                on_failure=Stop() if on_failure is None else on_failure,
                split_at=_several("split_at", split_at),
            )
        )

    def without(self, name: str) -> "Pipeline":
        """Return this pipeline without one computation, as a topology to change to while it runs (3)."""
        other = self.copy()
        if other._computations.pop(name, None) is None:
            raise PipelineError(
                self.name, f"there is no computation {name!r} to remove", "Name one that is there"
            )
        produced = _producers(other._computations, other._injectors)
        other._codecs = {stream: codec for stream, codec in other._codecs.items() if stream in produced}
        return other

    def copy(self) -> "Pipeline":
        """Return an equal pipeline that can be changed on its own."""
        other = Pipeline(self.name)
        other._codecs = dict(self._codecs)
        other._computations = dict(self._computations)
        other._injectors = dict(self._injectors)
        return other

    def with_computation(self, name: str, **changes: object) -> "Pipeline":
        """Return this pipeline with some of a computation's switches changed.

        Args:
            name: the computation.
            changes: fields of `ComputationSpec`, such as ``productions`` and ``exactly_once``.

        Raises:
            PipelineError: there is no such computation.
            OptionsError: there is no such switch, or its value is out of range.
        """
        other = self.copy()
        if name not in other._computations:
            raise PipelineError(
                self.name, f"there is no computation {name!r} to change", "Name one that is there"
            )
        known = {one.name for one in fields(ComputationSpec)} - {"name", "output_codecs", "initial_state"}
        for change, value in changes.items():
            if change not in known:
                raise OptionsError(change, value, f"one of {', '.join(sorted(known))}")
        other._computations[name] = _checked(replace(other._computations[name], **changes))  # type: ignore[arg-type]
        return other

    # Reading it. Everything below validates first.

    def validate(self) -> None:
        """Check that the graph fits together.

        Raises:
            UnknownStreamError: a consumed stream that nobody produces.
            PipelineError: a stream of dead letters whose codec can not carry them.
            CycleError: computations in a circle.
            NoSourceError: no injector, or a computation that none reaches.
        """
        self._topology()

    @property
    def computations(self) -> Mapping[str, ComputationSpec]:
        """The computations by name, sources first (topological order)."""
        return self._topology().computations

    @property
    def injectors(self) -> Mapping[str, InjectorSpec]:
        """The injectors by name."""
        return self._topology().injectors

    @property
    def streams(self) -> tuple[str, ...]:
        """All streams, sorted."""
        return self._topology().streams

    @property
    def output_streams(self) -> tuple[str, ...]:
        """The streams that nobody subscribes to: they go outside."""
        topology = self._topology()
        return tuple(stream for stream in topology.streams if topology.consumers[stream][0][0] == OUTSIDE)

    def consumers(self, stream: str) -> tuple[tuple[str, KeyExtractor], ...]:
        """(computation, key extractor) of each subscriber; the outside world if there is none."""
        return self._topology().consumers[stream]

    def senders(self, computation: str) -> tuple[str, ...]:
        """The computations and injectors that may output to it (4.5), sorted."""
        return self._topology().senders[computation]

    def upstream(self, computation: str) -> tuple[str, ...]:
        """All that feed it, directly or not, sorted."""
        topology = self._topology()
        return tuple(sorted(nx.ancestors(topology.graph, computation)))

    def codec(self, stream: str) -> Codec:
        """The codec of a stream."""
        return self._codecs.get(stream, self._default_codec)

    @property
    def graph(self) -> "nx.DiGraph[str]":
        """Computations and injectors as nodes; an edge for each stream between two, named in its ``streams``."""
        return self._topology().graph

    def _claim(self, name: str) -> None:
        if not _is_name(name) or "/" in name or "@" in name or "#" in name:
            raise OptionsError("name", name, "a name without '/', '@' and '#'")
        if name in self._computations or name in self._injectors:
            raise DuplicateNameError(
                self.name, f"there are two of the name {name!r}", "Give each its own name"
            )
        self._frozen = None

    def _topology(self) -> "_Topology":
        if self._frozen is None:
            self._frozen = _Topology.build(self)
        return self._frozen


@dataclass(frozen=True, slots=True)
class _Topology:
    """What validation finds out once, and everything else looks up."""

    graph: "nx.DiGraph[str]"
    computations: dict[str, ComputationSpec]
    injectors: dict[str, InjectorSpec]
    streams: tuple[str, ...]
    consumers: dict[str, tuple[tuple[str, KeyExtractor], ...]]
    senders: dict[str, tuple[str, ...]]

    @staticmethod
    def build(pipeline: Pipeline) -> "_Topology":
        computations, injectors = pipeline._computations, pipeline._injectors
        producers = _producers(computations, injectors)
        _check_streams(pipeline, producers)
        graph = _graph(computations, injectors, producers)
        _check_graph(pipeline, graph)
        order = [name for name in nx.lexicographical_topological_sort(graph) if name in computations]
        subscribers: dict[str, list[tuple[str, KeyExtractor]]] = {stream: [] for stream in producers}
        for name in order:
            for stream, extractor in computations[name].inputs.items():
                subscribers[stream].append((name, extractor))
        return _Topology(
            graph=graph,
            computations={name: _with_codecs(pipeline, computations[name]) for name in order},
            injectors=dict(injectors),
            streams=tuple(sorted(producers)),
            consumers={
                stream: tuple(found) or ((OUTSIDE, same_key),) for stream, found in subscribers.items()
            },
            senders={name: tuple(sorted(graph.predecessors(name))) for name in order},
        )


def _several(option: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise OptionsError(option, names, f"several names, such as [{names!r}]")
    given: object = names
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    if not isinstance(given, Iterable) or any(type(name) is not str for name in found):
        raise OptionsError(option, names, "several names, each a str")
    return found


def _streams(option: str, names: Iterable[str]) -> tuple[str, ...]:
    found = _several(option, names)
    if "" in found:
        raise OptionsError(option, names, "the names of streams, none of them empty")
    return found


def _check_extractor(computation: str, extractor: object) -> None:
    if not callable(extractor):
        expected = f"a function from a record to its key, for each input of computation {computation!r}"
        raise OptionsError("inputs", extractor, expected)


def _is_name(name: object) -> bool:
    return type(name) is str and name != ""


def _is_codec(codec: object) -> bool:
    """Tell whether it is an object that encodes and decodes; the class of one is none."""
    methods = (getattr(codec, "encode", None), getattr(codec, "decode", None))
    return not isinstance(codec, type) and all(map(callable, methods))


_CODEC = "an object with encode and decode, such as JsonCodec()"


def _checked(spec: ComputationSpec) -> ComputationSpec:
    """Refuse switches out of range; normalise the rest."""
    for option, kind in _KINDS.items():
        value = getattr(spec, option)
        if not isinstance(value, kind):
            names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise OptionsError(option, value, f"an object of {names}, for computation {spec.name!r}")
    percentile = spec.watermark_percentile
    if type(percentile) not in (int, float) or not 0 < percentile <= 100:
        raise OptionsError("watermark_percentile", percentile, "a number of more than 0 and at most 100")
    for extractor in spec.inputs.values():
        _check_extractor(spec.name, extractor)
    if not _is_codec(spec.state_codec):
        raise OptionsError("state_codec", spec.state_codec, _CODEC)
    where, initial = f"initial state of {spec.name!r}", spec.computation.initial_state()
    data = encode_at(where, spec.state_codec, initial)
    again = decode_at(where, spec.state_codec, data)
    if type(again) is not type(initial):
        reason = f"{type(initial).__name__} comes back as {type(again).__name__}"
        raise CodecError(where, repr(spec.state_codec), "carry", reason)
    return replace(
        spec, split_at=tuple(sorted({*_several("split_at", spec.split_at)} - {""})), initial_state=data
    )


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "computation": Computation,
    "inputs": Mapping,
    "productions": Productions,
    "exactly_once": bool,
    "on_failure": (Stop, DeadLetter, Skip),
}


def _with_codecs(pipeline: Pipeline, spec: ComputationSpec) -> ComputationSpec:
    return replace(spec, output_codecs={stream: pipeline.codec(stream) for stream in spec.outputs})


def _producers(
    computations: Mapping[str, ComputationSpec], injectors: Mapping[str, InjectorSpec]
) -> dict[str, list[str]]:
    producers: dict[str, list[str]] = {}
    specs: list[InjectorSpec | ComputationSpec] = [*injectors.values(), *computations.values()]
    for spec in specs:
        for stream in spec.all_outputs:
            producers.setdefault(stream, []).append(spec.name)
    return producers


def _graph(
    computations: Mapping[str, ComputationSpec],
    injectors: Mapping[str, InjectorSpec],
    producers: Mapping[str, list[str]],
) -> "nx.DiGraph[str]":
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from([*injectors, *computations])
    for name, spec in computations.items():
        for stream in spec.inputs:
            for producer in producers[stream]:
                streams = graph.get_edge_data(producer, name, {"streams": ()})["streams"]
                graph.add_edge(producer, name, streams=(*streams, stream))
    return graph


def _check_streams(pipeline: Pipeline, producers: Mapping[str, list[str]]) -> None:
    if not pipeline._injectors:
        raise NoSourceError(pipeline.name, "it has no injector", "Add one with injector(name)")
    for name, spec in pipeline._computations.items():
        for stream in spec.inputs:
            if stream not in producers:
                known = ", ".join(map(repr, sorted(producers)))
                remedy = f"Produced are: {known}. Add an injector or an output of that name"
                raise UnknownStreamError(
                    pipeline.name, f"{name!r} consumes stream {stream!r}, which nobody produces", remedy
                )
    _check_dead_letters(pipeline)
    for stream in pipeline._codecs:
        if stream not in producers:
            raise UnknownStreamError(
                pipeline.name,
                f"stream {stream!r} is given a codec, but nobody produces it",
                "Remove it, or mend its name",
            )


def _check_dead_letters(pipeline: Pipeline) -> None:
    """A codec that is declared for dead letters has to carry them; the default one does."""
    policies = [("computation", one.name, one.on_failure) for one in pipeline._computations.values()]
    policies += [("injector", one.name, one.on_malformed) for one in pipeline._injectors.values()]
    for kind, name, policy in policies:
        if isinstance(policy, DeadLetter) and policy.stream in pipeline._codecs:
            where = f"stream {policy.stream!r}"
            try:
                check_carries(where, pipeline.codec(policy.stream), SAMPLES[kind])
            except CodecError as error:
                failure = f"{error.codec} can not {error.action} them: {error.reason}"
                problem = f"{where} gets the dead letters of {name!r}, and {failure}"
                remedy = "Declare a codec that carries a dict for it, or none; or send dead letters to a stream of their own"
                raise PipelineError(pipeline.name, problem, remedy) from error


def _check_graph(pipeline: Pipeline, graph: "nx.DiGraph[str]") -> None:
    try:
        cycle = [edge[0] for edge in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        cycle = []
    if cycle:
        path = " -> ".join([*cycle, cycle[0]])
        problem = f"computations feed each other in a circle: {path}"
        raise CycleError(pipeline.name, problem, "Break it: watermarks need a direction")
    reached = set(pipeline._injectors).union(*(nx.descendants(graph, name) for name in pipeline._injectors))
    for name in pipeline._computations:
        if name not in reached:
            raise NoSourceError(
                pipeline.name, f"no injector reaches {name!r}", "Give it an input that comes from one"
            )
