"""The graph of a pipeline (MillWheel 2, 3, Figure 3), validated as a whole before anything runs."""

import graphlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from headrace.api.codecs import Codec, JsonCodec
from headrace.api.dead_letters import SAMPLES, check_carries
from headrace.api.errors import CodecError, CycleError, NoSourceError, PipelineError, UnknownStreamError
from headrace.api.specs import OUTSIDE, ComputationSpec, DeadLetter, InjectorSpec, KeyExtractor, same_key

DEFAULT_CODEC = JsonCodec()


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes and codecs of a pipeline, as declared.

    Attributes:
        pipeline: the pipeline's name, for errors.
        computations: computations by name.
        injectors: injectors by name.
        codecs: declared codecs by stream; all others have `DEFAULT_CODEC`.
    """

    pipeline: str
    computations: Mapping[str, ComputationSpec]
    injectors: Mapping[str, InjectorSpec]
    codecs: Mapping[str, Codec]

    def codec(self, stream: str) -> Codec:
        """Return the codec of a stream."""
        return self.codecs.get(stream, DEFAULT_CODEC)


@dataclass(frozen=True, slots=True)
class Topology:
    """A validated graph, and everything that validation found out about it."""

    computations: dict[str, ComputationSpec]
    injectors: dict[str, InjectorSpec]
    streams: tuple[str, ...]
    consumers: dict[str, tuple[tuple[str, KeyExtractor], ...]]
    senders: dict[str, tuple[str, ...]]
    receivers: dict[str, tuple[str, ...]]

    @staticmethod
    def build(nodes: Nodes) -> "Topology":
        """Validate a pipeline's nodes and connect them; see `Pipeline.validate` for the errors."""
        computations, injectors = nodes.computations, nodes.injectors
        producers = producers_of(computations, injectors)
        _check_streams(nodes, producers)
        receivers = _receivers(computations, injectors, producers)
        senders = _turned(receivers)
        order = [name for name in _in_order(nodes, senders) if name in computations]
        _check_sources(nodes, receivers)
        subscribers: dict[str, list[tuple[str, KeyExtractor]]] = {stream: [] for stream in producers}
        for name in order:
            for stream, extractor in computations[name].inputs.items():
                subscribers[stream].append((name, extractor))
        return Topology(
            computations={name: _with_codecs(nodes, computations[name]) for name in order},
            injectors=dict(injectors),
            streams=tuple(sorted(producers)),
            consumers={
                stream: tuple(subscriptions) or ((OUTSIDE, same_key),)
                for stream, subscriptions in subscribers.items()
            },
            senders={name: senders[name] for name in order},
            receivers=receivers,
        )

    def upstream(self, name: str) -> set[str]:
        """Return all computations and injectors that feed a computation directly or indirectly; nobody feeds an injector."""
        return set() if name in self.injectors else _reached(self.senders[name], self.senders)


def _with_codecs(nodes: Nodes, spec: ComputationSpec) -> ComputationSpec:
    return replace(spec, output_codecs={stream: nodes.codec(stream) for stream in spec.outputs})


def producers_of(
    computations: Mapping[str, ComputationSpec], injectors: Mapping[str, InjectorSpec]
) -> dict[str, list[str]]:
    """List the injectors and computations that produce each stream."""
    producers: dict[str, list[str]] = {}
    specs: list[InjectorSpec | ComputationSpec] = [*injectors.values(), *computations.values()]
    for spec in specs:
        for stream in spec.all_outputs:
            producers.setdefault(stream, []).append(spec.name)
    return producers


def _receivers(
    computations: Mapping[str, ComputationSpec],
    injectors: Mapping[str, InjectorSpec],
    producers: Mapping[str, list[str]],
) -> dict[str, tuple[str, ...]]:
    """Return who receives what each node outputs, in the order of their declaration."""
    receivers_of: dict[str, dict[str, None]] = {name: {} for name in (*injectors, *computations)}
    for name, spec in computations.items():
        for stream in spec.inputs:
            for producer in producers[stream]:
                receivers_of[producer][name] = None
    return {name: tuple(receivers) for name, receivers in receivers_of.items()}


def _turned(receivers: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return who sends to each node, sorted."""
    return {
        name: tuple(sorted(sender for sender, others in receivers.items() if name in others))
        for name in receivers
    }


def _in_order(nodes: Nodes, senders: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Sort nodes so that each comes behind its senders; of those that could come next, the first by name does.

    Raises:
        CycleError: they cannot be sorted.
    """
    sorter = graphlib.TopologicalSorter(senders)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        path = " -> ".join(error.args[1])
        problem = f"computations form a cycle: {path}"
        raise CycleError(nodes.pipeline, problem, "Break the cycle: watermarks need a direction") from None
    ready, order = list(sorter.get_ready()), []
    heapify(ready)
    while ready:
        order.append(heappop(ready))
        sorter.done(order[-1])
        for name in sorter.get_ready():
            heappush(ready, name)
    return order


def _reached(starts: Iterable[str], next_of: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the nodes that can be reached, the starts among them."""
    reached: set[str] = set()
    left = list(starts)
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += next_of.get(name, ())
    return reached


def _check_streams(nodes: Nodes, producers: Mapping[str, list[str]]) -> None:
    if not nodes.injectors:
        raise NoSourceError(nodes.pipeline, "it has no injector", "Add one with injector(name)")
    for name, spec in nodes.computations.items():
        for stream in spec.inputs:
            if stream not in producers:
                known = ", ".join(map(repr, sorted(producers)))
                remedy = f"Known streams: {known}. Add an injector or an output with that name"
                raise UnknownStreamError(
                    nodes.pipeline, f"{name!r} consumes stream {stream!r}, which nobody produces", remedy
                )
    _check_dead_letters(nodes)
    for stream in nodes.codecs:
        if stream not in producers:
            raise UnknownStreamError(
                nodes.pipeline,
                f"stream {stream!r} has a codec, but nobody produces it",
                "Remove the codec, or correct the stream's name",
            )


def _check_dead_letters(nodes: Nodes) -> None:
    """Check that codecs declared for dead letters can carry them; the default codec can."""
    policies = [("computation", spec.name, spec.on_failure) for spec in nodes.computations.values()]
    policies += [("injector", spec.name, spec.on_malformed) for spec in nodes.injectors.values()]
    for kind, name, policy in policies:
        if isinstance(policy, DeadLetter) and policy.stream in nodes.codecs:
            where = f"stream {policy.stream!r}"
            try:
                check_carries(where, nodes.codec(policy.stream), SAMPLES[kind])
            except CodecError as error:
                failure = f"{error.codec} cannot {error.action} them: {error.reason}"
                problem = f"{where} receives the dead letters of {name!r}, but {failure}"
                remedy = "Declare a codec that can write a dict, or none, or send the dead letters to another stream"
                raise PipelineError(nodes.pipeline, problem, remedy) from error


def _check_sources(nodes: Nodes, receivers: Mapping[str, tuple[str, ...]]) -> None:
    reached = _reached(nodes.injectors, receivers)
    for name in nodes.computations:
        if name not in reached:
            raise NoSourceError(
                nodes.pipeline, f"no injector reaches {name!r}", "Give it an input that an injector reaches"
            )
