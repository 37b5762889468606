"""The progress of a worker's inputs (MillWheel 4.5, 7.2): minima over the senders of each computation.

Rule of this file: a computation's input watermark is the minimum over its senders *as this worker has been told* (7.2); it never
goes back.
"""

from collections.abc import Iterable, Sequence

from headrace.api.pipeline import Pipeline
from headrace.api.time import MIN_TIME
from headrace.delivery.deployed import Deployed, deployed
from headrace.rules import Rules
from headrace.wire import messages as m


class InputProgress:
    """What a worker knows of the progress of computations and injectors, and of who sends to whom.

    Args:
        topologies: the deployed pipeline versions.
        rules: what it asks.

    Attributes:
        known: the latest progress, by sender.
    """

    __slots__ = ("_inputs", "_rules", "_senders", "_table", "_topologies", "known")

    def __init__(self, topologies: Sequence[Pipeline], rules: Rules) -> None:
        self._topologies = topologies
        self._rules = rules
        self._table = m.Table()
        self._senders: dict[str, tuple[str, ...]] = {}
        self._inputs: dict[str, tuple[int, int, int]] = {}
        self.known: dict[str, m.Progress] = {}

    def adopt(self, table: m.Table) -> None:
        """Go by another assignment table: who sends to whom may have changed."""
        self._table = table
        self._senders.clear()
        self._inputs.clear()

    def learn(self, values: Iterable[tuple[str, m.Progress]]) -> bool:
        """Take in progress; return whether any of it is news. Values never go back at any observer (S11)."""
        known, learned = self.known, False
        for name, progress in values:
            before = known.get(name)
            if before == progress:
                continue
            after = progress if before is None else self._rules.merged(before, progress)
            if after != before:
                known[name] = after
                learned = True
        if learned:
            self._inputs.clear()
        return learned

    def of(self, name: str, where: Deployed) -> tuple[int, int, int]:
        """Return (low watermark, what timers follow, horizon) of a computation's input; cached. ``where``: as it is deployed."""
        if name not in self._inputs:
            self._inputs[name] = self._minima(name, where.spec.watermark_percentile)
        return self._inputs[name]

    def _minima(self, name: str, percentile: float) -> tuple[int, int, int]:
        nothing, least = m.Progress(), self._rules.input_watermark
        senders = [self.known.get(sender, nothing) for sender in self.senders(name)]
        low = least([progress.low_watermark for progress in senders])
        horizon = least([progress.horizon for progress in senders])
        if percentile >= 100:
            return low, low, horizon
        timer = least([dict(progress.percentiles).get(percentile, MIN_TIME) for progress in senders])
        return low, max(low, timer), horizon

    def senders(self, computation: str) -> tuple[str, ...]:
        """Return who may output to a computation: by the version in force, and by those that are retiring."""
        if computation not in self._senders:
            self._senders[computation] = self._find_senders(computation)
        return self._senders[computation]

    def _find_senders(self, computation: str) -> tuple[str, ...]:
        """Find its senders by its own pipeline version, and of other versions those that retire or join.

        Choice: the senders of a sender that has left take its place. So a retiring computation whose senders have all left
        still stays behind what is upstream, and can come back.
        """
        table, rules = self._table, self._rules
        own = deployed(computation, self._topologies, table).pipeline.senders(computation)
        computations = {name for pipeline in self._topologies for name in pipeline.computations}
        here = {a.computation for a in table.assignments}
        passing = {*table.retiring, *(here - set(self._topologies[table.topology].computations))}
        versions = [topology for topology in self._topologies if computation in topology.computations]
        candidates = dict.fromkeys(
            [*own, *(name for version in versions for name in version.senders(computation))]
        )
        counted = [name for name in candidates if rules.counts_as_sender(name in own, name in passing)]
        senders: dict[str, None] = {}
        for name in counted:
            left = name in computations and name not in here
            senders |= dict.fromkeys(self._find_senders(name)) if left else {name: None}
        return tuple(senders)
