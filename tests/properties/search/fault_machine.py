"""A Hypothesis state machine whose rules are the fault verbs: the cluster, operated by hand.

Bulk search for broken protocols goes through `headrace_properties.search.strategy`; this machine is for the verbs
themselves, and for stories that Hypothesis finds and shrinks step by step. Safety is judged after every step, liveness at
the end.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from headrace import MILLISECOND, SECOND, Pipeline
from headrace.wire.effects import SourceRecord
from headrace.wire.messages import ChangeTopology, MergeIntervals, MoveInterval, SplitInterval
from headrace_properties.checkers import Judge, engine_checkers
from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.search.plans import Ground, ground_of
from headrace_properties.verdict import Violated
from headrace_sim import SOUND, Cluster, ClusterOptions, Feed, Protocol, start
from headrace_sim.faults import (
    DelayCommit,
    DropMessages,
    DuplicateCommit,
    Hold,
    LoseCommit,
    LoseReply,
    Noise,
    Partition,
    StoreUnavailable,
)

_MESSAGES = ("Deliver", "Ack", "Report", "Table", "Watermarks", "Heartbeat", "InjectorReport")
_places = st.integers(0, 30)
_pauses = st.sampled_from([5, 50, 400, 1_500]).map(lambda ms: ms * MILLISECOND)


def fault_machine(
    pipeline: Pipeline | Sequence[Pipeline],
    feed_of: Callable[[int], Feed],
    options: ClusterOptions | None = None,
    protocol: Protocol = SOUND,
) -> type[RuleBasedStateMachine]:
    """Make the machine for a pipeline; run it with ``run_state_machine_as_test``, or as ``machine.TestCase``.

    Args:
        pipeline: what runs in the cluster, or its deployed versions, of which the first is in force from the start.
        feed_of: makes an input from a seed.
        options: of the cluster.
        protocol: the state machines to host.
    """
    base = options or ClusterOptions()
    versions = (pipeline,) if isinstance(pipeline, Pipeline) else tuple(pipeline)

    class FaultMachine(_FaultMachine):
        """The machine for one pipeline."""

        def build(self, seed: int) -> None:
            """Start the cluster of a run."""
            self.feed = feed_of(seed)
            self.cluster = start(versions, self.feed, options=base, seed=seed, protocol=protocol)
            self.ground = ground_of(versions[0], self.feed, base)
            self.judge = Judge(engine_checkers(versions, base.engine))
            self.versions = len(versions)

    return FaultMachine


class _FaultMachine(RuleBasedStateMachine):
    """A few coarse rules; processes and keys are numbered, so that they shrink to the first."""

    down = Bundle("down")
    paused = Bundle("paused")
    active = Bundle("active")

    cluster: Cluster
    ground: Ground
    judge: Judge
    feed: Feed
    versions: int
    judged: int

    def build(self, seed: int) -> None:
        """Start the cluster of a run; given by `fault_machine`."""
        raise NotImplementedError

    @initialize(seed=st.integers(0, 3))
    def begin(self, seed: int) -> None:
        """Create a fresh cluster, and let it assign all keys."""
        self.build(seed)
        self.judged = 0
        self.cluster.advance(SECOND)

    @rule(dt=_pauses)
    def advance(self, dt: int) -> None:
        self.cluster.advance(dt)

    @rule(which=_places, age=_pauses)
    def inject(self, which: int, age: int) -> None:
        """Repeat one of the feed's records by hand, older than now; do nothing once the source has ended."""
        records = [
            (entry.address, entry.event)
            for entry in self.feed.entries
            if isinstance(entry.event, SourceRecord)
        ]
        address, record = records[which % len(records)]
        timestamp = max(self.cluster.kernel.now - age, 0)
        self.cluster.inject(address, msgspec.structs.replace(record, timestamp=timestamp))

    @rule(target=down, place=_places)
    def crash(self, place: int) -> str:
        address = self._process(place)
        self.cluster.crash(address)
        return address

    @rule(address=consumes(down))
    def restart(self, address: str) -> None:
        self.cluster.restart(address)

    @rule(target=paused, place=_places)
    def pause(self, place: int) -> str:
        address = self._process(place)
        self.cluster.pause(address)
        return address

    @rule(address=consumes(paused))
    def revive(self, address: str) -> None:
        """Revive it: as a zombie, if it was replaced."""
        self.cluster.revive(address)

    @rule(target=active, place=_places, one_way=st.booleans(), masters=st.booleans())
    def partition(self, place: int, one_way: bool, masters: bool) -> int:  # noqa: FBT001  drawn by Hypothesis
        """Cut a process off, from the masters or from everybody."""
        address = self._process(place)
        other = tuple(name for name in self.ground.leaders if masters and name != address)
        return self.cluster.network.begin(
            Partition(at_us=0, side=(address,), other=other, for_us=0, one_way=one_way)
        )

    @rule(target=active, message=st.sampled_from(_MESSAGES), count=st.integers(1, 4))
    def hold(self, message: str, count: int) -> int:
        return self.cluster.network.begin(Hold(at_us=0, message=message, count=count, for_us=0))

    @rule(target=active, message=st.sampled_from(_MESSAGES), count=st.integers(1, 4))
    def drop(self, message: str, count: int) -> int:
        return self.cluster.network.begin(DropMessages(at_us=0, message=message, count=count))

    @rule(target=active)
    def duplicate(self) -> int:
        """Duplicate and delay, and so reorder, messages."""
        noise = Noise(at_us=0, for_us=0, drop=0.1, duplicate=0.3, delay=0.3, delay_us=500 * MILLISECOND)
        return self.cluster.network.begin(noise)

    @rule(handle=consumes(active))
    def release(self, handle: int) -> None:
        """Heal a partition, release what is held, or end the noise."""
        self.cluster.release(handle)

    @rule(
        place=_places, kind=st.sampled_from([DelayCommit, DuplicateCommit, LoseCommit, LoseReply]), by=_pauses
    )
    def disturb_commit(self, place: int, kind: Any, by: int) -> None:
        """Delay, duplicate or lose a worker's next write, or its reply."""
        worker = self.ground.workers[place % len(self.ground.workers)]
        late = {"by_us": by} if kind in (DelayCommit, DuplicateCommit) else {}
        self.cluster.store.expect(kind(at_us=0, process=worker, **late))

    @rule(silent=st.booleans(), dt=_pauses)
    def store_unavailable(self, silent: bool, dt: int) -> None:  # noqa: FBT001  drawn by Hypothesis
        """Make the store silent for a while."""
        handle = self.cluster.store.begin(StoreUnavailable(at_us=0, for_us=0, silent=silent))
        self.cluster.advance(dt)
        self.cluster.store.end(handle)

    @rule(place=_places, key=_places, verb=st.sampled_from([MoveInterval, SplitInterval, MergeIntervals]))
    def operate(self, place: int, key: int, verb: Any) -> None:
        computations, keys = self.ground.computations, self.ground.keys
        self.cluster.operate(verb(computations[place % len(computations)], keys[key % len(keys)]))

    @precondition(lambda self: self.versions > 1)
    @rule(version=_places)
    def change_topology(self, version: int) -> None:
        """Add or remove computations: deploy another version."""
        self.cluster.operate(ChangeTopology(version % self.versions))

    @invariant()
    def nothing_is_violated(self) -> None:
        """Check safety after every step."""
        if not hasattr(self, "cluster"):
            return
        events = self.cluster.history.events
        self.judge.take(islice(events, self.judged, None))
        self.judged = len(events)
        self._assert_holds()

    def teardown(self) -> None:
        """Heal; then require all accepted work to be done in bounded time."""
        if not hasattr(self, "cluster"):
            return
        self.cluster.network.clear()
        self.cluster.heal()
        self.cluster.run_to_the_end()
        self.judge.take(islice(self.cluster.history.events, self.judged, None))
        self._assert_holds()

    def _assert_holds(self) -> None:
        broken = [
            f"{name}: {verdict.message}"
            for name, verdict in self.judge.verdicts().items()
            if isinstance(verdict, Violated) and not is_about_code(name)
        ]
        assert not broken, "\n".join(broken)

    def _process(self, place: int) -> str:
        return self.ground.processes[place % len(self.ground.processes)]
