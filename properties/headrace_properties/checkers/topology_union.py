"""The deployed topologies as checkers need them: the union of all versions, so that a run that changes them is judged as one."""

from collections.abc import Iterable, Mapping, Sequence

from headrace import ComputationSpec, InjectorSpec, Pipeline, Productions

NOBODY: tuple[str, ...] = ()


class TopologyUnion:
    """The union of some pipelines; if two specs have the same name, the later one counts.

    Attributes:
        computations: by name.
        injectors: by name.
        senders: computation to all that ever output to it.
        upstream: name to itself and all that feed it, directly or not.
        sources: name to the addresses of the injectors' processes that feed it (or that it consists of).
        weak: computations with weak productions (6.1.3).
        at_least_once: computations without exactly-once (6.1.3).
        loose: those, and all downstream of them: what they make may stem from a record that was run twice.
        percentile: computations that follow a percentile watermark (7.2).
        versions: the pipelines.
        changes: there is more than one version.
    """

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self.computations: dict[str, ComputationSpec] = {}
        self.injectors: dict[str, InjectorSpec] = {}
        self.senders: dict[str, tuple[str, ...]] = {}
        for pipeline in pipelines:
            self.injectors.update(pipeline.injectors)
            for name, spec in pipeline.computations.items():
                self.computations[name] = spec
                self.senders[name] = tuple(sorted({*self.senders.get(name, ()), *pipeline.senders(name)}))
        names = [*self.injectors, *self.computations]
        self.upstream = {name: _reached_from(name, self.senders) for name in names}
        self.sources = {name: tuple(self._addresses(self.upstream[name])) for name in names}
        specs = self.computations.values()
        self.weak = frozenset(spec.name for spec in specs if spec.productions is Productions.WEAK)
        self.at_least_once = frozenset(spec.name for spec in specs if not spec.exactly_once)
        self.loose = frozenset(
            name for name in names if not self.at_least_once.isdisjoint(self.upstream[name])
        )
        self.percentile = frozenset(spec.name for spec in specs if spec.watermark_percentile < 100)
        self.versions = tuple(pipelines)
        self.changes = len(self.versions) > 1

    def _addresses(self, names: Iterable[str]) -> Iterable[str]:
        for name in names:
            if name in self.injectors:
                yield from self.injectors[name].addresses()


def _reached_from(name: str, senders: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the name and everything upstream of it, in a fixed order."""
    reached = {name: None}
    waiting = [name]
    while waiting:
        for sender in senders.get(waiting.pop(), NOBODY):
            if sender not in reached:
                reached[sender] = None
                waiting.append(sender)
    return tuple(reached)
