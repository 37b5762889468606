"""Who should own what (MillWheel 7.1): pure functions from the table, the live workers and their loads to changes of the table.

Rules of this file:

* A computation's intervals always cover all keys: every change replaces intervals by intervals of the same keys.
* Whatever has to find an owner goes to the live worker that has the fewest intervals, the first by address among equals: for a
  fresh pipeline this is round-robin.
* An interval weighs as many records as it ran, or as its CPU time is worth by the proportion of `split_load` to `split_cpu_us`,
  whichever is more: few records of expensive user code are a load too.
* By load: an interval that is too hot is split, and its upper part given to the least loaded worker; a worker that is
  overloaded or short of memory gives one interval away, to one that then has less and is not short itself; neighbours that
  are idle are merged. One kind of change at a time, the first that applies: the next look sees what it did.
* Only the splitting looks at intervals singly. Moves and merges wait until every interval is listed by its owner, as a
  scanning owner knows no loads yet.

Choice: a worker that runs less than one interval may (`split_load`) is not overloaded, however idle the others are: a move
costs a scan, and the ratio of small numbers is noise.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.rules import RULES, Rules
from headrace.wire import messages as m
from headrace.wire.keys import KeyInterval, split_all_keys


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live worker, which may own intervals. ``incarnation`` counts its restarts."""

    address: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class BalanceView:
    """What balancing looks at.

    Attributes:
        table: the assignment.
        workers: the live ones, sorted by address.
        loads: by sequencer, of intervals that their owners have scanned.
    """

    table: m.Table
    workers: Sequence[Candidate]
    loads: Mapping[int, m.IntervalLoad]


@dataclass(frozen=True, slots=True)
class Unowned:
    """An interval that needs an owner."""

    computation: str
    interval: KeyInterval


def first_intervals(pipeline: Pipeline, table: m.Table) -> list[Unowned]:
    """Divide the key spaces of the computations that have no interval yet, at the keys that the user gave."""
    known = {assignment.computation for assignment in table.assignments}
    return [
        Unowned(name, interval)
        for name, spec in pipeline.computations.items()
        if name not in known
        for interval in split_all_keys(spec.split_at)
    ]


def assign(unowned: Iterable[Unowned], cluster: BalanceView) -> list[m.MintChange]:
    """Give each interval to the live worker that has the fewest; nothing while there is none."""
    if not cluster.workers:
        return []
    owned = dict.fromkeys(cluster.workers, 0)
    for assignment in cluster.table.assignments:
        owner = _owner(assignment)
        if owner in owned:
            owned[owner] += 1
    changes = []
    for gap in unowned:
        worker = min(cluster.workers, key=owned.__getitem__)
        owned[worker] += 1
        changes.append(_give(gap.computation, gap.interval, worker))
    return changes


# The operator's verbs. One that cannot be done changes nothing.


def move_interval(
    verb: m.MoveInterval, cluster: BalanceView, options: EngineOptions, rules: Rules = RULES
) -> list[m.MintChange]:
    """Give the interval with this key to another worker."""
    assignment = _find(cluster.table, verb.computation, verb.key)
    if assignment is None:
        return []
    others = [worker for worker in cluster.workers if worker != _owner(assignment)]
    if verb.to:
        others = [worker for worker in others if worker.address == verb.to]
    if not others:
        return []
    loads = _Loads(cluster, options, rules)
    return [_give(assignment.computation, assignment.interval, min(others, key=loads.order))]


def split_interval(verb: m.SplitInterval, cluster: BalanceView) -> list[m.MintChange]:
    """Divide the interval with this key at it; both parts stay with their owner."""
    assignment = _find(cluster.table, verb.computation, verb.key)
    if assignment is None or assignment.interval.low == verb.key:
        return []
    return _split(assignment, verb.key, _owner(assignment))


def merge_intervals(verb: m.MergeIntervals, cluster: BalanceView) -> list[m.MintChange]:
    """Join the interval with this key and the next one, at the former's owner."""
    first = _find(cluster.table, verb.computation, verb.key)
    if first is None or first.interval.high is None:
        return []
    second = _find(cluster.table, verb.computation, first.interval.high)
    assert second is not None, "intervals cover all keys"
    return [_merge(first, second)]


# By load


def rebalance(cluster: BalanceView, options: EngineOptions, rules: Rules = RULES) -> list[m.MintChange]:
    """Change the table as the loads require (7.1): split, else move, else merge."""
    if not cluster.workers:
        return []
    loads = _Loads(cluster, options, rules)
    changes = loads.split_hot()
    if changes or any(assignment.sequencer not in cluster.loads for assignment in cluster.table.assignments):
        return changes
    return loads.move_from_overloaded() or loads.merge_idle()


class _Loads:
    """Loads by interval's sequencer, and by worker."""

    def __init__(self, cluster: BalanceView, options: EngineOptions, rules: Rules) -> None:
        self.cluster, self.options, self.rules = cluster, options, rules
        records, cpu_us = options.split_load, options.split_cpu_us
        self.weights = {
            sequencer: rules.weight(load.records, load.cpu_us, records, cpu_us)
            for sequencer, load in cluster.loads.items()
        }
        self.sizes = {sequencer: load.bytes for sequencer, load in cluster.loads.items()}
        self.burdens = dict.fromkeys(cluster.workers, 0)
        self.bytes = dict.fromkeys(cluster.workers, 0)
        self.intervals: dict[Candidate, list[m.Assignment]] = {worker: [] for worker in cluster.workers}
        for assignment in cluster.table.assignments:
            owner = _owner(assignment)
            if owner in self.burdens:
                self.intervals[owner].append(assignment)
                self.burdens[owner] += self.weights.get(assignment.sequencer, 0)
                self.bytes[owner] += self.sizes.get(assignment.sequencer, 0)

    def order(self, worker: Candidate) -> tuple[int, int]:
        """Order workers by load: weight first, then intervals."""
        return self.burdens[worker], len(self.intervals[worker])

    def split_hot(self) -> list[m.MintChange]:
        """Split the intervals that are too hot; if any is, weights by worker are those after it."""
        changes: list[m.MintChange] = []
        for assignment in self.cluster.table.assignments:
            weight = self.weights.get(assignment.sequencer, 0)
            if not self.rules.is_overloaded(weight, self.options.split_load):
                continue
            owner, key = _owner(assignment), self.cluster.loads[assignment.sequencer].split_key
            if key <= assignment.interval.low or not assignment.interval.contains(key):
                continue
            target = min(self.cluster.workers, key=self.order)
            if owner in self.burdens:
                self.burdens[owner] -= weight // 2
            self.burdens[target] += weight // 2
            changes += _split(assignment, key, target)
        return changes

    def move_from_overloaded(self) -> list[m.MintChange]:
        """Let the first worker that is overloaded or short of memory, and can be helped, give an interval away."""
        workers, options = self.cluster.workers, self.options
        most = max(options.split_load, options.overload * sum(self.burdens.values()) / len(workers))
        for worker in workers:
            changes: list[m.MintChange] = []
            if self._is_short(self.bytes[worker]):
                changes = self._relieve(worker, self.bytes, self.sizes)
            elif self.rules.is_overloaded(self.burdens[worker], most):
                changes = self._relieve(worker, self.burdens, self.weights)
            if changes:
                return changes
        return []

    def _is_short(self, size: int) -> bool:
        return self.rules.is_overloaded(size, self.options.memory_limit_bytes)

    def _relieve(
        self, worker: Candidate, burdens: Mapping[Candidate, int], weights: Mapping[int, int]
    ) -> list[m.MintChange]:
        """Move the heaviest interval that leaves its new owner with less than its old one had, and with memory to spare.

        So short memory never gets shorter, and loads only converge: moves end.
        """
        for interval in sorted(self.intervals[worker], key=lambda load: -weights[load.sequencer]):
            weight, size = weights[interval.sequencer], self.sizes[interval.sequencer]
            fitting = [
                other for other in burdens if other != worker and not self._is_short(self.bytes[other] + size)
            ]
            if not weight or not fitting:
                continue
            target = min(fitting, key=burdens.__getitem__)
            if self.rules.is_relief(burdens[target] + weight, burdens[worker]):
                return [_give(interval.computation, interval.interval, target)]
        return []

    def merge_idle(self) -> list[m.MintChange]:
        """Merge neighbours that are idle."""
        changes: list[m.MintChange] = []
        first: m.Assignment | None = None
        for second in self.cluster.table.assignments:
            if first is None or first.computation != second.computation:
                first = second
                continue
            idle_weight = self.weights[first.sequencer] + self.weights[second.sequencer]
            if self.rules.is_idle(idle_weight, self.options.merge_load):
                changes.append(_merge(first, second))
                first = None
            else:
                first = second
        return changes


# Single changes


def _owner(assignment: m.Assignment) -> Candidate:
    return Candidate(assignment.owner, assignment.incarnation)


def _give(computation: str, interval: KeyInterval, worker: Candidate) -> m.MintChange:
    return m.MintChange(computation, interval, worker.address, worker.incarnation)


def _split(assignment: m.Assignment, key: str, upper: Candidate) -> list[m.MintChange]:
    name, low, high = assignment.computation, assignment.interval.low, assignment.interval.high
    return [
        _give(name, KeyInterval(low, key), _owner(assignment)),
        _give(name, KeyInterval(key, high), upper),
    ]


def _merge(first: m.Assignment, second: m.Assignment) -> m.MintChange:
    return _give(first.computation, KeyInterval(first.interval.low, second.interval.high), _owner(first))


def _find(table: m.Table, computation: str, key: str) -> m.Assignment | None:
    for assignment in table.assignments:
        if assignment.computation == computation and assignment.interval.contains(key):
            return assignment
    return None
