"""What a run costs and how long things take in it when nothing disturbs it: an oracle for runs without faults.

A mistake that only makes the engine wait, ask or send more than it has to breaks no invariant: all comes out right, some day. But
without faults every wait ends with a message or a period of the options. So bounds follow from the options alone:

* **Nothing is done twice.** One mint, one claim of each role, one scan of each interval; nothing is refused or given up, and
  nothing is sent again that was first sent when all owners had scanned.
* **Nothing comes late.** A record is durable, ACKed and sent on, a timer fires, a checkpoint is deleted and an id collected, a
  few messages and the periods in between after what it waits for.
* **Nobody gets more than a share.** The first intervals are spread over the workers.
* **Nobody is asked more often than the periods say.** Heartbeats, reports, broadcasts, journal entries, looks at a role, wakes,
  reads and writes; and heartbeats, not less often either.

Rule of this file: what it cannot know, it leaves out: what waits for wall time that user code chose, for a skew limit (8.4), or
for user code that fails; and a cluster that splits and merges intervals by load.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from headrace import MILLISECOND, Clock, EngineOptions, Pipeline, Productions
from headrace.history import (
    Acked,
    Applied,
    CheckpointsDeleted,
    Delivered,
    Event,
    Executed,
    FaultStruck,
    History,
    IdsCollected,
    Injected,
    IntervalDropped,
    IntervalMinted,
    Output,
    ProcessStarted,
    Published,
    Resent,
    Rested,
    RoleClaimed,
    ScanBegun,
    ScanEnded,
    SourceHeld,
    StepReached,
    UserCodeFailed,
    WriteRefused,
)
from headrace.store.mediator import MASTER_ROLE
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace.wire.messages import STORE
from headrace_properties.verdict import Verdict, Violated
from headrace_sim import ClusterOptions
from headrace_sim.steps import role_of

CALM = "calm"
"""Its name."""

_MESSAGE_US = 15 * MILLISECOND
"""Choice: a message, or a write and its answer, with all that a process has to do before; ten times what the link takes."""

_Copy = tuple[str, str]
"""Id and consumer of a record."""


def judge_calm(history: History, pipeline: Pipeline, options: ClusterOptions) -> dict[str, Verdict]:
    """Tell what took longer or cost more than it may; nothing, if all is well or something disturbed the run.

    Args:
        history: of the run, with its activations.
        pipeline: the only version of the topology that was in force.
        options: of the cluster; links and store no slower than by default.
    """
    if options.engine.merge_load or any(isinstance(event, FaultStruck | StepReached) for event in history):
        return {}
    problem = next(_Calm(history, pipeline, options).problems(), "")
    return {CALM: Violated(f"nothing disturbed the run, and {problem}", ())} if problem else {}


class _Calm:
    """A run that nothing disturbed."""

    def __init__(self, history: History, pipeline: Pipeline, options: ClusterOptions) -> None:
        self._history, self._pipeline, self._engine = history, pipeline, options.engine
        self._workers = options.workers
        self._end_us = history[-1].at_us
        self._awake_us: int = self._end_us - sum(event.for_us for event in self._of(Rested))
        self._scanned_us = max((event.at_us for event in self._of(ScanEnded)), default=0)
        self._depths = _depths(pipeline)

    def problems(self) -> Iterator[str]:
        """Say what is wrong, one after the other."""
        yield from self._twice()
        yield from self._too_often()
        failed = any(self._of(UserCodeFailed))
        limited = any(spec.skew_limit_us is not None for spec in self._pipeline.injectors.values())
        yield from self._uneven()
        yield from self._slow_mints()
        if not limited:
            yield from self._slow_injection()
        if not failed:
            yield from self._slow_records()
        yield from self._slow_deletions()
        yield from self._slow_wall_timers()
        if not limited and not self._waits_for_the_wall():
            if not failed:
                yield from self._slow_timers()
            yield from self._slow_collection()

    def _of(self, kind: type) -> Iterator:  # type: ignore[type-arg]
        return (event for event in self._history if type(event) is kind)

    # Nothing is done twice

    def _twice(self) -> Iterator[str]:
        for wrong in (*self._of(WriteRefused), *self._of(IntervalDropped)):
            yield f"there is a {type(wrong).__name__} at {wrong.at_us} us"
        for kind, name_of in _ONCE.items():
            for name, count in Counter(map(name_of, self._of(kind))).items():
                if count > 1:
                    yield f"{name} had {count} times a {kind.__name__}"
        mints, scans = sum(1 for _ in self._of(IntervalMinted)), sum(1 for _ in self._of(ScanEnded))
        if mints != scans:
            yield f"{mints} intervals were minted and {scans} scanned"
        yield from self._hasty()
        first: dict[tuple[str, str], int] = {}
        for event in self._history:
            for production in _sent_first(event):
                first.setdefault((production.record_id, production.consumer), event.at_us)
            if type(event) is Resent:
                sent_us = first.get((event.record_id, event.consumer), 0)
                if sent_us > self._scanned_us + _MESSAGE_US:
                    yield f"{event.record_id} was sent again at {event.at_us} us, and for the first time at {sent_us} us"
                if event.at_us < sent_us + self._engine.retry_us and sent_us > self._scanned_us:
                    yield f"{event.record_id} was sent again too soon"

    def _hasty(self) -> Iterator[str]:
        """Yield retries whose delays do not double (6.1.1), up to the longest."""
        times: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        for event in self._of(Resent):
            times[event.process, event.record_id, event.consumer].append(event.at_us)
        for (process, record_id, _), sent in times.items():
            for first_us, second_us, third_us in zip(sent, sent[1:], sent[2:], strict=False):
                if third_us - second_us < min(1.5 * (second_us - first_us), self._engine.retry_max_us):
                    yield f"{process} sent {record_id} again {third_us - second_us} us after {second_us - first_us} us"

    # Nobody is asked more often than the periods say

    def _too_often(self) -> Iterator[str]:
        asked = Counter(
            (activation.process, activation.input)
            for activation in self._history.activations
            if activation.process not in ("", "outside")
        )
        published = sum(1 for _ in self._of(Published))
        messages: Counter[str] = Counter()
        for (process, what), count in asked.items():
            if what != "Wake":
                messages[process] += min(count, published) if what == "Watermarks" else count
        in_all: Counter[tuple[str, str]] = Counter()
        most = self._most(messages)
        for (process, what), count in asked.items():
            role = "store" if process == STORE else role_of(process)
            in_all[role, what] += count
            explained = most.get((role, what), count)
            if what == "Wake":
                explained = min(explained, self._most_wakes(role, messages[process]))
            if count > explained:
                yield f"{process} got {count} {what}, of which {explained:.1f} are explained"
        all_most = self._most_in_all()
        if in_all["worker", "Deliver"] < all_most["worker", "Deliver"]:
            yield f"workers got only {in_all['worker', 'Deliver']} of {all_most['worker', 'Deliver']} deliveries"
        for (role, what), explained in all_most.items():
            if in_all[role, what] > explained:
                yield f"each {role} together got {in_all[role, what]} {what}, of which {explained:.1f} are explained"
        beats = self._times(self._engine.heartbeat_period_us) - 2
        for address in self._engine.master_addresses():
            if asked[address, "Heartbeat"] < (self._workers + self._injecting) * beats:
                yield f"{address} got {asked[address, 'Heartbeat']} heartbeats, which are too few"

    def _times(self, period_us: int) -> float:
        return self._awake_us / period_us

    @property
    def _injecting(self) -> int:
        return sum(spec.processes for spec in self._pipeline.injectors.values())

    def _most(self, messages: Mapping[str, int]) -> Mapping[tuple[str, str], float]:
        """Map (role, message) to how many each process of the role may get. ``messages``: how many each got that bring news."""
        engine, times = self._engine, self._times
        turns = times(engine.lease_us // 4) + 3
        peeks = times(engine.lease_us // 2) + 3
        looks = times(engine.broadcast_period_us) + 3
        held = sum(1 for _ in self._of(SourceHeld))
        beats = times(engine.heartbeat_period_us) + 3
        changes = held + sum(1 for event in self._of(Acked))
        journaled = min(times(engine.injector_journal_us), changes) + 3
        reports = times(engine.report_period_us) + 3
        repeats = times(max(8 * engine.report_period_us, engine.heartbeat_period_us)) + 3
        reported: defaultdict[str, float] = defaultdict(float)
        for process, count in messages.items():
            reported[role_of(process)] += min(reports, repeats + count)
        resent = sum(1 for _ in self._of(Resent))
        writes = sum(1 for _ in self._of(Applied))
        lingers = writes if engine.commit_linger_us else 0
        broadcasts = sum(1 for _ in self._of(Published)) + looks / 8 + 3 * engine.authority_shards
        sweeps = times(engine.sweep_period_us) + 3
        return {
            ("master", "Heartbeat"): (self._workers + self._injecting) * (beats + 1),
            ("master", "Peeked"): peeks, ("master", "Renewed"): turns, ("master", "Minted"): 1,
            ("authority", "Report"): reported["worker"],
            ("authority", "InjectorReport"): reported["injector"],
            ("authority", "Wake"): looks + turns,
            ("authority", "Peeked"): peeks, ("authority", "Renewed"): turns, ("authority", "Journaled"): looks,
            ("injector", "Journaled"): journaled,
            ("injector", "Wake"): beats + times(engine.injector_journal_us) + 3 + reports + held + resent,
            ("injector", "Table"): 3,
            ("injector", "Watermarks"): broadcasts,
            ("worker", "Table"): 3,
            ("worker", "Watermarks"): broadcasts,
            ("worker", "Wake"): beats + reports + sweeps + 4 * self._wall_timers + lingers,
        }  # fmt: skip

    @property
    def _wall_timers(self) -> int:
        return sum(
            timer.clock is Clock.WALL for event in self._of(Applied) for timer in event.delta.set_timers
        )

    def _most_wakes(self, role: str, messages: int) -> float:
        """Return how often a process may be woken at most: for its periods, and once for what follows from each message."""
        beats, turns = (
            self._times(self._engine.heartbeat_period_us) + 3,
            self._times(self._engine.lease_us // 4),
        )
        if role == "master":
            return beats + turns
        resent = sum(1 for _ in self._of(Resent))
        return messages + resent + (3 + turns if role == "authority" else beats + self._wall_timers)

    def _most_in_all(self) -> Mapping[tuple[str, str], float]:
        """Return the same for all processes of a role together."""
        engine = self._engine
        sent = {
            (production.record_id, production.consumer)
            for event in self._history for production in _sent_first(event) if production.consumer
        }  # fmt: skip
        resent = sum(1 for _ in self._of(Resent))
        mints = sum(1 for _ in self._of(IntervalMinted))
        executed = {(event.computation, event.key, event.version) for event in self._of(Executed)}
        deletions = sum(1 for _ in self._of(CheckpointsDeleted))
        most: dict[tuple[str, str], float] = {
            ("worker", "Deliver"): len(sent) + resent,
            ("store", "Scan"): mints if engine.scan_page_rows >= len(executed) else self._end_us,
            ("store", "Write"): len(executed) + deletions,
            ("store", "CollectIds"): mints * (self._times(engine.collect_period_us) + 1),
        }
        default = EngineOptions()
        if engine.cache_bytes >= default.cache_bytes and engine.bloom_capacity >= default.bloom_capacity:
            most["store", "Read"] = 0
        return most

    # Nothing comes late

    def _uneven(self) -> Iterator[str]:
        """Judge whether the first intervals go to whoever has the fewest (7.1)."""
        workers = {event.process for event in self._of(ProcessStarted) if role_of(event.process) == "worker"}
        owned = Counter(dict.fromkeys(workers, 0))
        owned.update(event.owner for event in self._of(IntervalMinted))
        if max(owned.values()) - min(owned.values()) > 1:
            yield f"the workers were given {dict(sorted(owned.items()))} intervals"

    def _slow_mints(self) -> Iterator[str]:
        """Judge the first intervals: a new master listens for two heartbeat periods, and decides at its next wake (7.1)."""
        beat_us = self._engine.heartbeat_period_us
        for claim in self._of(RoleClaimed):
            for mint in self._of(IntervalMinted):
                waited_us = mint.at_us - claim.at_us
                if claim.role == MASTER_ROLE and not 2 * beat_us <= waited_us <= 3 * beat_us + _MESSAGE_US:
                    yield f"{mint.computation} was minted {waited_us} us after the master's claim"

    def _slow_injection(self) -> Iterator[str]:
        """Yield the records that an injector could send, and kept."""
        held: dict[tuple[str, int], int] = {}
        for event in self._history:
            if type(event) is SourceHeld and type(event.what) is SourceRecord:
                held[event.process, event.what.offset] = event.at_us
            elif type(event) is Injected:
                since_us = max(held.get((event.process, event.offset), event.at_us), self._scanned_us)
                if event.at_us > since_us + _MESSAGE_US:
                    yield f"{event.process} injected offset {event.offset} {event.at_us - since_us} us after it could"

    def _slow_records(self) -> Iterator[str]:
        """Judge records: from the step that made them to their owner, to the write that consumes them, and to their ACK."""
        scanned_us = self._scanned_us
        produced, came, durable = dict[_Copy, int](), dict[_Copy, int](), dict[_Copy, int]()
        for event in self._history:
            for production in _sent_first(event):
                produced.setdefault((production.record_id, production.consumer), event.at_us)
            if type(event) is Delivered:
                copy = event.record_id, event.computation
                came[copy] = event.at_us
                since_us = produced.get(copy, event.at_us)
                if since_us > scanned_us and event.at_us > since_us + 2 * _MESSAGE_US:
                    yield f"{event.record_id} came to {event.computation} after {event.at_us - since_us} us"
            elif type(event) is Applied:
                most_us = self._step_us(event.computation)
                for record_id, _ in event.delta.seen:
                    copy = record_id, event.computation
                    durable[copy] = event.at_us
                    since_us = max(came.get(copy, event.at_us), scanned_us)
                    if event.at_us > since_us + most_us:
                        yield f"{record_id} was durable at {event.computation} {event.at_us - since_us} us after it came"
            elif type(event) is Acked:
                since_us = durable.pop((event.record_id, event.consumer), event.at_us)
                if event.at_us > since_us + _MESSAGE_US:
                    yield f"{event.record_id} was ACKed {event.at_us - since_us} us after it was durable"
        if durable:
            yield f"{min(durable)} was never ACKed"

    def _step_us(self, computation: str) -> int:
        """Return how long a step may take: a write waits for another of its key; a weak one for the ACKs from further down."""
        linger_us = self._engine.commit_linger_us
        return (4 * _MESSAGE_US + linger_us) * (1 + max(self._depths.values()) - self._depths[computation])

    def _slow_deletions(self) -> Iterator[str]:
        acked: dict[tuple[str, str], int] = {}
        for event in self._history:
            if type(event) is Acked:
                acked[event.record_id, event.consumer] = event.at_us
            elif type(event) is Output:
                acked[event.production.record_id, ""] = event.at_us
            elif type(event) is CheckpointsDeleted:
                for _, record_id, consumer in event.checkpoints:
                    since_us = max(acked.get((record_id, consumer), event.at_us), self._scanned_us)
                    engine = self._engine
                    if (
                        event.at_us
                        > since_us + engine.delete_delay_us + engine.sweep_period_us + 2 * _MESSAGE_US
                    ):
                        yield f"the checkpoint {record_id} was deleted {event.at_us - since_us} us after its ACK"

    def _slow_wall_timers(self) -> Iterator[str]:
        """Judge wall timers: their key is locked while user code that has failed rests."""
        engine = self._engine
        rests_us = (
            engine.user_code_retry_us * engine.user_code_attempts if any(self._of(UserCodeFailed)) else 0
        )
        for event in self._of(Executed):
            if event.timer is not None and event.timer.clock is Clock.WALL:
                late_us = event.at_us - max(event.timer.due, self._scanned_us)
                most_us = engine.sweep_period_us + 4 * _MESSAGE_US + rests_us
                if late_us > most_us or event.at_us < event.timer.due:
                    yield f"the wall timer {event.timer.tag} of {event.computation} fired {late_us} us late"

    def _waits_for_the_wall(self) -> bool:
        return any(
            event.timer is not None and event.timer.clock is Clock.WALL for event in self._of(Executed)
        ) or any(
            asked.clock is Clock.WALL
            for event in self._of(Executed)
            if event.asked
            for asked in event.asked.timers
        )

    def _slow_timers(self) -> Iterator[str]:
        """Judge watermark timers: they fire when the watermark has come from the source, through all that is upstream."""
        reached = _Reached(
            self._history,
            self._pipeline,
            lambda what: what.low_watermark if isinstance(what, SourceWatermark) else None,
        )
        since: dict[tuple[str, str, str], int] = {}
        for event in self._history:
            if type(event) is Applied:
                for timer in event.delta.set_timers:
                    since[event.computation, event.delta.key, timer.tag] = event.at_us
            if type(event) is Executed and event.timer is not None:
                name = event.computation, event.key, event.timer.tag
                known_us = max(
                    reached.at(event.computation, event.timer.due), since.get(name, 0), self._scanned_us
                )
                if event.at_us > known_us + self._way_us(event.computation):
                    yield f"the timer {event.timer.tag} of {event.computation} fired {event.at_us - known_us} us after it could"

    def _way_us(self, computation: str) -> int:
        """Return how long a watermark is on its way from the source to a computation."""
        engine = self._engine
        turn_us = (
            engine.report_period_us + engine.sweep_period_us + engine.broadcast_period_us + 6 * _MESSAGE_US
        )
        return engine.injector_journal_us + self._depths[computation] * turn_us

    def _slow_collection(self) -> Iterator[str]:
        """Judge ids: they are collected when all that is older than they and the slack has gone through."""
        if any(spec.productions is Productions.WEAK for spec in self._pipeline.computations.values()):
            return
        engine = self._engine
        reached = _Reached(self._history, self._pipeline, lambda what: what.arrived_us)

        # What is not ACKed holds the horizon.
        held_us = max((event.at_us for event in self._of(Resent)), default=self._scanned_us)

        def going_us(computation: str, origin: int) -> int:
            older_us = max(
                reached.at(computation, origin + engine.id_slack_us + 1), held_us, self._scanned_us
            )
            return (
                older_us + self._way_us(computation) + engine.collect_period_us + engine.heartbeat_period_us
            )

        kept: defaultdict[str, dict[tuple[str, str], int]] = defaultdict(dict)
        for event in self._history:
            if type(event) is Applied:
                ids = kept[event.computation]
                ids |= {(event.delta.key, record_id): origin for record_id, origin in event.delta.seen}
            elif type(event) is IdsCollected or event is self._history[-1]:
                for computation, ids in kept.items():
                    for (key, record_id), origin in list(ids.items()):
                        if event.at_us > going_us(computation, origin):
                            yield f"{computation} still had {record_id} at {event.at_us} us"
                        if _collects(event, computation, key, origin):
                            del ids[key, record_id]


class _Reached:
    """When the sources of a computation have come so far.

    Args:
        history: of the run.
        pipeline: the topology.
        how_far: what something at the source tells of it; ``None``: nothing.
    """

    def __init__(
        self,
        history: History,
        pipeline: Pipeline,
        how_far: Callable[[SourceRecord | SourceWatermark], int | None],
    ) -> None:
        self._pipeline = pipeline
        self._watermarks: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for event in history:
            if type(event) is SourceHeld and (value := how_far(event.what)) is not None:
                self._watermarks[event.process].append((event.at_us, value))

    def at(self, computation: str, value: int) -> int:
        """Return when all of them have, microseconds; the end of time, if not all do."""
        addresses = [
            address
            for name in self._pipeline.upstream(computation) if name in self._pipeline.injectors
            for address in self._pipeline.injectors[name].addresses()
        ]  # fmt: skip
        return max(
            next((at_us for at_us, reached in self._watermarks[address] if reached >= value), _NEVER)
            for address in addresses
        )


_NEVER = 1 << 60

_ONCE: Mapping[type, Callable[..., object]] = {
    RoleClaimed: lambda event: event.role,
    IntervalMinted: lambda event: (event.computation, event.interval),
    ScanBegun: lambda event: event.sequencer,
    ScanEnded: lambda event: event.sequencer,
}


def _collects(event: Event, computation: str, key: str, origin: int) -> bool:
    if not isinstance(event, IdsCollected) or event.computation != computation:
        return False
    return origin < event.below and event.interval.contains(key)


def _sent_first(event: object) -> tuple:  # type: ignore[type-arg]
    match event:
        case Injected() | Executed():
            return event.productions
        case _:
            return ()


def _depths(pipeline: Pipeline) -> dict[str, int]:
    """Return how many computations there are on the longest way from a source, with itself."""
    depths: dict[str, int] = {}

    def depth(name: str) -> int:
        if name in pipeline.injectors:
            return 0
        if name not in depths:
            depths[name] = 1 + max(map(depth, pipeline.senders(name)), default=0)
        return depths[name]

    for name in pipeline.computations:
        depth(name)
    return depths
