"""A computation as deployed (MillWheel 3): its spec in the pipeline version that applies to it.

Rules of this file: the table says which version is in force, and which one still applies to a retiring computation.
"""

from collections.abc import Sequence

from headrace.api.codecs import Codec
from headrace.api.pipeline import Pipeline
from headrace.api.specs import OUTSIDE, ComputationSpec, Productions, Subscriber
from headrace.rules import RULES, Rules
from headrace.wire.messages import Table


class Deployed:
    """One computation as deployed: its spec, and the pipeline version that routes its streams (3).

    Attributes:
        spec: the computation's spec.
        pipeline: the pipeline version that contains the spec.
        present: consumers that have not left the topology.
        strong: whether its productions are strong (6.1.2).
        exactly_once: whether its deliveries are deduplicated (6.1.1).
        is_late: returns whether a timestamp is late at a low watermark (4.5).
        rules: the rules of the protocol.
    """

    __slots__ = (
        "_codecs",
        "_consumers",
        "exactly_once",
        "is_late",
        "pipeline",
        "present",
        "rules",
        "spec",
        "strong",
    )

    def __init__(
        self, spec: ComputationSpec, pipeline: Pipeline, present: frozenset[str], rules: Rules = RULES
    ) -> None:
        self.rules = rules
        self.is_late = rules.is_late
        self.spec = spec
        self.pipeline = pipeline
        self.present = present
        self.strong = spec.productions is Productions.STRONG
        self.exactly_once = spec.exactly_once
        self._codecs: dict[str, Codec] = {}
        self._consumers: dict[str, Sequence[Subscriber]] = {}

    def codec(self, stream: str) -> Codec:
        """Return the codec of a stream; cached, since every record needs it."""
        codec = self._codecs.get(stream)
        if codec is None:
            codec = self._codecs[stream] = self.pipeline.codec(stream)
        return codec

    def consumers(self, stream: str) -> Sequence[Subscriber]:
        """Return (computation, key extractor) of each subscriber that is present; cached."""
        consumers = self._consumers.get(stream)
        if consumers is None:
            subscribers = [
                subscriber for subscriber in self.pipeline.consumers(stream) if subscriber[0] in self.present
            ]
            consumers = self._consumers[stream] = self.rules.recipients(subscribers)
        return consumers


def deployed(name: str, topologies: Sequence[Pipeline], table: Table, rules: Rules = RULES) -> Deployed:
    """Find a computation's spec: in the version in force, or, if it is retiring, in the version before it retired.

    Choice: a computation whose version was never in force retires by the last earlier version that has it, else by any.
    """
    present = frozenset([OUTSIDE, *(a.computation for a in table.assignments)])
    since = dict(zip(table.retiring, table.retired_from, strict=False))
    former = topologies[since.get(name, table.topology)]
    for pipeline in [
        topologies[table.topology],
        former,
        *reversed(topologies[: table.topology]),
        *topologies,
    ]:
        spec = pipeline.computations.get(name)
        if spec is not None:
            return Deployed(spec, pipeline, present, rules)
    raise AssertionError(f"no deployed pipeline version has computation {name!r}")
