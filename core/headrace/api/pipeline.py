"""The topology (MillWheel 2, 3, Figure 3): computations, streams, injectors, and how they are connected.

A stream is identified by its name alone. The consumer names the key extractor. The whole graph is validated before anything runs.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from headrace.api.codecs import (
    Codec,
    MigratingCodec,
    StateCodec,
    TypedCodec,
    decode_state_at,
    encode_state_at,
)
from headrace.api.computation import Computation
from headrace.api.errors import (
    CodecError,
    DuplicateNameError,
    OptionsError,
    PipelineError,
)
from headrace.api.specs import (
    OUTSIDE,
    ComputationSpec,
    DeadLetter,
    FailurePolicy,
    InjectorSpec,
    KeyExtractor,
    Productions,
    Skip,
    Stop,
    is_name,
    same_key,
)
from headrace.api.topology import DEFAULT_CODEC, Nodes, Topology, producers_of

if TYPE_CHECKING:
    import networkx as nx


class Pipeline:
    """A graph of computations connected by streams, fed by injectors.

    >>> pipeline = Pipeline("letters")
    >>> pipeline.injector("mail", outputs=["letters"])
    >>> pipeline.add(Computation(), name="sorter", inputs={"letters": lambda record: record.value["city"]})
    >>> pipeline.validate()
    >>> pipeline.senders("sorter")
    ('mail',)

    Args:
        name: the pipeline's name in messages and reports.
    """

    def __init__(self, name: str) -> None:
        if not is_name(name):
            raise OptionsError("name", name, "a name")
        self.name = name
        self._codecs: dict[str, Codec] = {}
        self._computations: dict[str, ComputationSpec] = {}
        self._injectors: dict[str, InjectorSpec] = {}
        self._frozen: Topology | None = None

    def stream(self, name: str, codec: Codec) -> None:
        """Declare the codec of a stream. Streams without one carry JSON-like values.

        Args:
            name: the stream.
            codec: codec with which all its producers write its values and all its consumers read them.

        Raises:
            DuplicateNameError: the stream already has a codec.
            OptionsError: the name or the codec is invalid.
        """
        if not is_name(name):
            raise OptionsError("stream", name, "the name of a stream")
        if not _is_codec(codec):
            raise OptionsError("codec", codec, _CODEC)
        if name in self._codecs:
            raise DuplicateNameError(
                self.name, f"stream {name!r} already has a codec", "Declare its codec once"
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
            outputs: streams that it injects into; default: one stream with the injector's name.
            processes: number of processes, all of them expected.
            skew_limit_us: how far ahead of the slowest low watermark a record may be injected (8.4); default: no limit. All
                records wait until every computation's watermark is known, so a source with a limit must report its watermark.
            on_malformed: what to do with a record that cannot be decoded or keyed; default: `Stop`.

        Raises:
            DuplicateNameError: the name is taken.
            OptionsError: fewer than one process, a negative limit, or an argument of the wrong type.
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
            raise OptionsError(
                "outputs", outputs, "at least one stream, or None for one with the injector's name"
            )
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
        state_codec: StateCodec | None = None,
        migrate: Iterable[Callable[[Any], Any]] = (),
        watermark_percentile: float = 100.0,
        on_failure: FailurePolicy | Skip | None = None,
        split_at: Iterable[str] = (),
        ordered: bool = False,
        nondeterministic: str = "",
        share_state: bool = False,
    ) -> None:
        """Add a computation (Figure 3).

        Args:
            computation: your object; one instance serves all keys.
            name: unique among computations and injectors.
            inputs: key extractor by stream; a plain list of streams keeps the records' own keys.
            outputs: streams that it may produce to.
            productions: strong or weak (6.1.2, 6.1.3).
            exactly_once: whether deliveries are deduplicated; switch it off for idempotent code (6.1.3).
            state_codec: codec of its state; default: `JsonCodec`.
            migrate: how to read the states that earlier versions of this code have stored: functions, oldest first, each from a
                JSON-like state to that of the next version. Append one when the state's shape changes; remove none.
            watermark_percentile: its timers and lateness follow the progress of this percentage of all pending records (7.2).
            on_failure: what to do when user code keeps failing; default: `Stop`.
            split_at: keys at which to split its key space from the start; load causes further splits.
            ordered: its outcome depends on the order in which records arrive, and is meant to. Without it, `headrace verify`
                reports that as a violation. It does not declare that the wall clock decides.
            nondeterministic: why its outcome, or what it does outside, is not a function of its records and state alone, such
                as ``"samples one record in ten"``. Without a reason, `headrace verify` reports that as a violation.
            share_state: hooks that run for a key in one step are given the same state, decoded and encoded once, and not a copy
                each: much faster where a batch has many records of a key, and states are large. The state needs a `TypedCodec`,
                and hooks must leave values in it that the codec reads back unchanged: no int where the type says float, no
                Counter for a dict. A hook that fails still leaves no trace.

        Raises:
            DuplicateNameError: the name is taken.
            OptionsError: a percentile outside (0, 100], an argument of the wrong type, or ``migrate`` with a codec that does not
                write JSON.
            CodecError: the state codec cannot write the initial state, or reads it back as another type.
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
                state_codec=_migrating(
                    computation, DEFAULT_CODEC if state_codec is None else state_codec, migrate
                ),
                watermark_percentile=watermark_percentile,
                on_failure=Stop() if on_failure is None else on_failure,
                split_at=_several("split_at", split_at),
                ordered=ordered,
                nondeterministic=nondeterministic,
                share_state=share_state,
            )
        )

    def without(self, name: str) -> "Pipeline":
        """Return this pipeline without one computation, for changing the topology while it runs (3)."""
        other = self.copy()
        if other._computations.pop(name, None) is None:
            raise PipelineError(
                self.name, f"no computation {name!r} to remove", "Name an existing computation"
            )
        produced = producers_of(other._computations, other._injectors)
        other._codecs = {stream: codec for stream, codec in other._codecs.items() if stream in produced}
        return other

    def copy(self) -> "Pipeline":
        """Return an independent copy."""
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
            PipelineError: no such computation.
            OptionsError: no such switch, or a value out of range.
        """
        other = self.copy()
        if name not in other._computations:
            raise PipelineError(
                self.name, f"no computation {name!r} to change", "Name an existing computation"
            )
        known = {field.name for field in fields(ComputationSpec)} - {"name", "output_codecs", "initial_state"}
        for change, value in changes.items():
            if change not in known:
                raise OptionsError(change, value, f"one of {', '.join(sorted(known))}")
        other._computations[name] = _checked(replace(other._computations[name], **changes))  # type: ignore[arg-type]
        return other

    # Queries. All but `codec` validate first.

    def validate(self) -> None:
        """Check that the graph is consistent.

        Raises:
            UnknownStreamError: a stream is consumed or has a codec, but nobody produces it.
            PipelineError: the codec of a stream of dead letters cannot carry them.
            CycleError: computations form a cycle.
            NoSourceError: there is no injector, or none reaches a computation.
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
        """The streams without subscribers: their records go outside."""
        topology = self._topology()
        return tuple(stream for stream in topology.streams if topology.consumers[stream][0][0] == OUTSIDE)

    def consumers(self, stream: str) -> tuple[tuple[str, KeyExtractor], ...]:
        """Return (computation, key extractor) of each subscriber; the outside world if there is none."""
        return self._topology().consumers[stream]

    def senders(self, computation: str) -> tuple[str, ...]:
        """Return the computations and injectors that may output to a computation (4.5), sorted."""
        return self._topology().senders[computation]

    def upstream(self, computation: str) -> tuple[str, ...]:
        """Return all computations and injectors that feed a computation directly or indirectly, sorted."""
        return tuple(sorted(self._topology().upstream(computation)))

    def codec(self, stream: str) -> Codec:
        """Return the codec of a stream."""
        return self._codecs.get(stream, DEFAULT_CODEC)

    def receivers(self, name: str) -> tuple[str, ...]:
        """Return the computations that consume what a computation or an injector outputs, in the order of their declaration."""
        return self._topology().receivers[name]

    def streams_between(self, sender: str, receiver: str) -> tuple[str, ...]:
        """Return the streams that a computation or an injector outputs and another computation consumes, as it lists them."""
        topology = self._topology()
        spec = topology.injectors.get(sender) or topology.computations[sender]
        return tuple(
            stream for stream in topology.computations[receiver].inputs if stream in spec.all_outputs
        )

    @property
    def graph(self) -> "nx.DiGraph[str]":
        """Computations and injectors as nodes; each edge lists the streams between two of them in ``streams``."""
        import networkx as nx  # noqa: PLC0415  a third of the time that a process takes to import headrace

        topology = self._topology()
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(topology.receivers)
        for sender, receivers in topology.receivers.items():
            for receiver in receivers:
                graph.add_edge(sender, receiver, streams=self.streams_between(sender, receiver))
        return graph

    def _claim(self, name: str) -> None:
        if not is_name(name) or "/" in name or "@" in name or "#" in name:
            raise OptionsError("name", name, "a name without '/', '@' or '#'")
        if name in self._computations or name in self._injectors:
            raise DuplicateNameError(
                self.name, f"the name {name!r} is used twice", "Give each node its own name"
            )
        self._frozen = None

    def _topology(self) -> Topology:
        if self._frozen is None:
            nodes = Nodes(self.name, self._computations, self._injectors, self._codecs)
            self._frozen = Topology.build(nodes)
        return self._frozen


def _several(option: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise OptionsError(option, names, f"a list of names, such as [{names!r}]")
    argument: object = names
    several = tuple(argument) if isinstance(argument, Iterable) else (argument,)
    if not isinstance(argument, Iterable) or any(type(name) is not str for name in several):
        raise OptionsError(option, names, "a list of names, each a str")
    return several


def _streams(option: str, names: Iterable[str]) -> tuple[str, ...]:
    streams = _several(option, names)
    if "" in streams:
        raise OptionsError(option, names, "the names of streams, none empty")
    return streams


def _is_codec(codec: object) -> bool:
    """Return whether an object encodes and decodes; a codec's class does not count."""
    methods = (getattr(codec, "encode", None), getattr(codec, "decode", None))
    return not isinstance(codec, type) and all(map(callable, methods))


_CODEC = "an object with encode and decode, such as JsonCodec()"


def _migrating(computation: Computation, codec: StateCodec, migrate: object) -> StateCodec:
    """Return the codec, or one that reads earlier versions too."""
    steps = tuple(migrate) if isinstance(migrate, Iterable) and not isinstance(migrate, str) else (migrate,)
    if not all(map(callable, steps)):
        raise OptionsError("migrate", migrate, "a list of functions from one state to the next, oldest first")
    if not steps or not _is_codec(codec):
        return codec  # what is wrong with it is told next
    try:
        DEFAULT_CODEC.decode(bytes(codec.encode(computation.initial_state())))
    except ValueError as error:
        raise OptionsError(
            "migrate", codec, "a state codec that writes JSON, such as TypedCodec(State)"
        ) from error
    return MigratingCodec(codec, steps)


def _checked(spec: ComputationSpec) -> ComputationSpec:
    """Refuse switches out of range; normalize the rest."""
    for option, kind in _KINDS.items():
        value = getattr(spec, option)
        if not isinstance(value, kind):
            names = " or ".join(cls.__name__ for cls in (kind if isinstance(kind, tuple) else (kind,)))
            raise OptionsError(option, value, f"an instance of {names}, for computation {spec.name!r}")
    codec = spec.state_codec
    if (
        spec.share_state
        and type(codec.codec if isinstance(codec, MigratingCodec) else codec) is not TypedCodec
    ):
        expected = f"False, or a state_codec=TypedCodec(State), for computation {spec.name!r}"
        raise OptionsError("share_state", spec.share_state, expected)
    percentile = spec.watermark_percentile
    if type(percentile) not in (int, float) or not 0 < percentile <= 100:
        raise OptionsError("watermark_percentile", percentile, "a number above 0 and at most 100")
    extractors: Iterable[object] = spec.inputs.values()
    for extractor in extractors:
        if not callable(extractor):
            expected = f"a function from a record to its key, for each input of computation {spec.name!r}"
            raise OptionsError("inputs", extractor, expected)
    if not _is_codec(spec.state_codec):
        raise OptionsError("state_codec", spec.state_codec, _CODEC)
    where, initial = f"initial state of {spec.name!r}", spec.computation.initial_state()
    data = bytes(encode_state_at(where, spec.state_codec, initial))
    again = decode_state_at(where, spec.state_codec, data)
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
    "ordered": bool,
    "nondeterministic": str,
    "share_state": bool,
    "on_failure": (Stop, DeadLetter, Skip),
}
