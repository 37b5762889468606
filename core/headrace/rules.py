"""Every decision of the protocol, once and by name (MillWheel 4-7).

Rules of this file:

* A rule is a pure function of plain values. It keeps no state and asks no one.
* The machines of `headrace.worker`, `headrace.injector`, `headrace.store`, `headrace.watermarks` and `headrace.ownership` collect
  the values, ask the rule and act on its answer. They decide nothing themselves.
* Each docstring states, in the paper's verbs, the sentence that the rule carries out, with its section. A departure from the
  paper begins ``Deviation:``; a decision on which the paper is silent begins ``Choice:``.
* A rule that returns a constant says so: it is a seam for mutants, and the sound protocol never answers otherwise.
* A broken protocol is a subclass that overrides a rule (`headrace_properties.proof.mutants`). docs/protocol.md lists each
  sentence with its rule, the mutants that break it and the invariants that catch them. ``python -m docs.scripts.tables`` makes
  that table from these docstrings: run it after every change of this file.
"""

import enum
from collections.abc import Sequence
from fractions import Fraction
from operator import attrgetter
from typing import TypeVar

from headrace.api.options import Eviction
from headrace.api.records import Clock
from headrace.api.time import MAX_TIME
from headrace.wire.keys import KeyInterval
from headrace.wire.messages import Progress
from headrace.wire.rows import Production, RowDelta, RowImage, StoredTimer, Version

SubscriberT = TypeVar("SubscriberT")


class Act(enum.Enum):
    """What is done for a record, in the order that `Rules.order` gives (6.1.1, 6.1.3)."""

    RUN = "run"
    """User code is run and results in pending changes."""
    SEND = "send"
    """Pending productions are sent."""
    AWAIT = "await"
    """The ACKs of what was sent are awaited; a straggler is checkpointed instead."""
    COMMIT = "commit"
    """Pending changes are committed to the backing store."""
    ACK = "ack"
    """The sender is ACKed."""


class Work(enum.Enum):
    """Pending work, which may hold back a low watermark or a horizon."""

    INJECTED = "injected"
    """A record that an injector has read but not delivered to all consumers."""
    SENT = "sent"
    """A production that was sent before its step was durable and is not ACKed."""
    CHECKPOINT = "checkpoint"
    """A checkpointed production that is not ACKed."""
    TIMER = "timer"
    """A pending timer of a computation with strong productions."""
    WEAK_TIMER = "weak timer"
    """A pending timer of a computation with weak productions."""
    STATE = "state"
    """State with a hold."""
    FIRING = "firing"
    """What a fired timer produces, until it is sent."""
    RECEIVED = "received"
    """A delivery that waits at its consumer, or is being committed there."""


class Change(enum.Enum):
    """What a mint does to an interval with an extant sequencer (7.1)."""

    MOVED = "moved"
    """It is reassigned as a whole."""
    SPLIT = "split"
    """Its keys are divided among several intervals."""
    MERGED = "merged"
    """Its keys become part of a larger interval."""


class Leaving(enum.Enum):
    """Which cached row leaves next (8.3)."""

    SPENT = "spent"
    """An empty row without timers."""
    FURTHEST_BOUNDARY = "furthest boundary"
    """The row whose next watermark timer is furthest away."""
    LEAST_RECENTLY_USED = "least recently used"
    """The row that has not been used for longest."""


_TIMER = Work.TIMER  # asked for with each timer; a global name is found faster than an enumeration's member


class Rules:
    """What MillWheel's protocol decides. Everything else in the engine is bookkeeping."""

    __slots__ = ()

    # Duplicates (6.1.1)

    def remembers(self, exactly_once: bool) -> bool:
        """Return whether a computation deduplicates; disabling exactly-once skips the deduplication pass (6.1.3)."""
        return exactly_once

    def joins_copy(self) -> bool:
        """Return whether a record joins a copy of itself that is being processed; duplicates are discarded (6.1.1).

        A seam for mutants.
        """
        return True

    def is_remnant(self, origin: int, horizon: int) -> bool:
        """Return whether a delivery is a network remnant, whose id may already be collected.

        Ids are collected once all senders have finished retrying (6.1.1). Choice: a copy that the network delays beyond that is
        recognized by its origin, so that no clock has to be trusted.
        """
        return origin < horizon

    def must_check_row(self) -> bool:
        """Return whether a hit of the Bloom filter is looked up in the row.

        The filter is a fast path for records that are provably never seen before; for all others the backing store must be read
        to determine whether they are duplicates (6.1.1). A seam for mutants.
        """
        return True

    def is_duplicate(self, row_has_id: bool) -> bool:
        """Return whether a record is a duplicate: its unique id is among those in the row (6.1.1)."""
        return row_has_id

    def acks_duplicate(self) -> bool:
        """Return whether a duplicate is ACKed: it is discarded and ACKed, lest its sender retry indefinitely (6.1.1).

        A seam for mutants.
        """
        return True

    def collects_below(self, horizon: int, slack_us: int) -> int:
        """Return the origin below which ids are garbage collected.

        Ids are collected once all internal senders have finished retrying, which the horizon tells, and then some slack later,
        for injectors that deliver late (6.1.1).

        Deviation: the slack is a second for all computations (`EngineOptions.id_slack_us`), not hours for those that are fed late
        data (6.1.1). The horizon counts late records too, so they need no slack.
        """
        return horizon - slack_us

    # A step, its write, and what follows (6.1.1, 6.2)

    def locks_key(self) -> bool:
        """Return whether a key waits for the write of its last step: processing is serialized per key (4.1).

        A seam for mutants.
        """
        return True

    def must_read(self, stored: bool) -> bool:
        """Return whether a row that is not cached must be read from the store before its key is processed (6.2, 8.3)."""
        return stored

    def ends_step(self, timer: StoredTimer, watermark: int, wall: int) -> bool:
        """Return whether a timer that was just set ends the step: it is due, and a key's timers must fire in order (4.6, 6.2)."""
        return self.may_fire(timer.due, watermark if timer.clock is Clock.WATERMARK else wall)

    def written(self, delta: RowDelta) -> RowDelta:
        """Return what a step's write holds: all changes to the row of a key, wrapped in a single atomic operation (6.2).

        Several records may be coalesced into a single checkpoint, which includes the unique id of each in the same atomic write
        as the state modification (6.1.1). Strong productions are checkpointed in that write too (6.1.2).
        """
        return delta

    def needs_write(self, changes_row: bool, exactly_once: bool, consumed_records: bool) -> bool:
        """Return whether a step is committed; a stateless filter with exactly-once disabled has nothing to remember (6.1.3)."""
        return changes_row or (exactly_once and consumed_records)

    def order(self, strong: bool) -> tuple[Act, ...]:
        """Return what is done for a record, in order.

        Strong: user code is run, pending changes are committed, senders are ACKed, pending productions are sent (6.1.1); those
        were checkpointed before delivery (6.1.2). Weak: downstream deliveries are broadcast optimistically, prior to persisting
        state, and their ACKs are awaited (6.1.3).
        """
        if strong:
            return Act.RUN, Act.COMMIT, Act.ACK, Act.SEND
        return Act.RUN, Act.SEND, Act.AWAIT, Act.COMMIT, Act.ACK

    def acks_refused(self) -> bool:
        """Return whether the records of a refused write are ACKed: the write was not allowed to commit (6.2).

        A seam for mutants.
        """
        return False

    # Productions (6.1.1-6.1.3)

    def recipients(self, subscribers: Sequence[SubscriberT]) -> Sequence[SubscriberT]:
        """Return the consumers to which a record of a stream is delivered: all that subscribe to it (4.3)."""
        return subscribers

    def id_prefix(self, computation: str, version: Version, cause: str, strong: bool) -> str:
        """Return the prefix of the unique ids that records are assigned at production time (6.1.1).

        Choice: strong productions are named after the row's version, which the same atomic write makes durable; weak ones after
        their cause, so that a re-run produces the same ids (6.1.3).
        """
        return f"{computation}@{version}" if strong else f"{cause}>{computation}"

    def first_ordinal(self, emitted: int, strong: bool) -> int:
        """Return the ordinal of a cause's first production: ids are unique, so those of one version share a count (6.1.1)."""
        return emitted if strong else 0

    def is_straggler(self, waited_us: int, delay_us: int) -> bool:
        """Return whether a weak step has waited too long for an ACK: a straggler is checkpointed after 1 second (6.1.3)."""
        return waited_us >= delay_us

    def checkpointed(self, straggling: tuple[Production, ...]) -> tuple[Production, ...]:
        """Return what a weak step checkpoints before it ACKs its senders: its straggler pending productions (6.1.3)."""
        return straggling

    def deletes_checkpoint(self) -> bool:
        """Return whether an ACKed production's checkpoint is deleted: it is, once the delivery was successful (6.1.2).

        A seam for mutants.
        """
        return True

    def settled_by(self, consumer: str, pending: Sequence[str]) -> tuple[str, ...]:
        """Return the consumers whose copies of a record an ACK settles: only the consumer that sent it (4.3, 6.1.1).

        Args:
            consumer: the one that ACKed.
            pending: the consumers that have not yet ACKed something.
        """
        return (consumer,)

    def retries(self, injected: bool) -> bool:
        """Return whether an un-ACKed delivery is sent again: deliveries are retried until they are ACKed (6.1.1).

        A seam for mutants.
        """
        return True

    def retried(self, production: Production, attempts: int) -> Production:
        """Return what a retry sends: the record with the unique id that it was assigned at production time (6.1.1)."""
        return production

    # Timers (4.6, 6.2)

    def due(self, timestamp: int, now: int) -> int:
        """Return when a timer set at ``now`` of its clock is due: at its timestamp, or at once if that has passed (4.6)."""
        return max(timestamp, now)

    def queues(self, timer: StoredTimer, recovered: bool) -> bool:
        """Return whether a timer enters the heap of pending timers: when set, and when found by the initial scan (4.6, 7.1).

        A seam for mutants.
        """
        return True

    def may_fire(self, due: int, reading: int) -> bool:
        """Return whether a timer fires: the low watermark, or wall time, has reached the time at which it is due (4.6)."""
        return due <= reading

    def in_order(self, due: list[StoredTimer]) -> list[StoredTimer]:
        """Sort the due timers of a key: they fire in increasing timestamp order (4.6, 6.2).

        Deviation: timers fire in the order in which they are due, for each clock on its own (4.6). A timer that is set for a time
        that has passed cannot fire before those that already have, and event time and wall time have no common order.
        """
        return sorted(due, key=attrgetter("order"))

    def most_firings(self, room: int) -> int:
        """Return how many due timers of a key may fire in one step: as many as the step has room for (4.6, 6.1.1)."""
        return room

    def fires_rest(self) -> bool:
        """Return whether due timers that a step had no room for fire in the next one: timers are guaranteed to fire (4.6).

        A seam for mutants.
        """
        return True

    def origin_of_firing(self, origin: int, horizon: int, strong: bool) -> int:
        """Return the origin of what a timer produces.

        Choice: a strong timer does not hold the horizon while it is pending, so what it produces takes the horizon of its
        computation as its origin; a weak timer holds it, so that a re-run makes the same record (6.1.1, 6.1.3).
        """
        return max(origin, horizon) if strong else origin

    # Recovery (6.1.2, 6.2, 7.1)

    def scans_first(self) -> bool:
        """Return whether a new owner scans the backing store: it does whenever an interval is assigned to a new owner (7.1).

        A seam for mutants.
        """
        return True

    def continues_scan(self, after: str | None) -> bool:
        """Return whether a scan continues after this key: the whole interval is scanned (7.1)."""
        return after is not None

    def may_run_during_scan(self, known: bool) -> bool:
        """Return whether a key runs while its interval is scanned asynchronously, processing input records meanwhile (6.2).

        Choice: it does once its row is known, that is, was read or has come with the scan. All timers of a key are in its row, so
        they fire in order, by the low watermark that was journaled when the scan began.
        """
        return known

    def read_during_scan(self, image: RowImage) -> RowImage:
        """Return what a read during an asynchronous scan recovers of a row (6.2): all that the scan would, timers included."""
        return image

    def takes_scanned(self, known: bool) -> bool:
        """Return whether a row is taken from the scan: not if it is known already, since its key may have run meanwhile (6.2)."""
        return not known

    def recovered(self, image: RowImage) -> RowImage:
        """Return what a scan recovers of a row: pending timers, checkpointed productions to replay, record ids (6.1.2, 7.1)."""
        return image

    def is_owner(self, incarnation: int, assigned: int) -> bool:
        """Return whether an assignment is for this incarnation of a process.

        Soft state is consistent with the backing store for the lifetime of the assignment (7.1), and a crash ends it: what an
        earlier incarnation was assigned is not this one's.
        """
        return incarnation == assigned

    # The store (6.2, 7.1)

    def is_valid(self, interval: KeyInterval | None, low: str, high: str) -> bool:
        """Return whether a sequencer is valid for these keys.

        The mediator of the backing store checks it for validity before allowing the write to commit (6.2). Choice: reads, scans
        and collections are checked too, so that any request tells a replaced owner that it was replaced.

        Args:
            interval: the one that the sequencer was minted for; ``None`` if it was invalidated.
            low: the first key that is touched.
            high: the last key that is touched.
        """
        if interval is None:
            return False
        end = interval.high
        return interval.low <= low and (end is None or high < end)

    def is_applied(self, write: tuple[int, int], row: tuple[int, int]) -> bool:
        """Return whether a row has taken a write: updates obey exactly-once semantics, so a repeat changes nothing (6.2, 6.1.1).

        Args:
            write: its sequencer and number.
            row: sequencer and number of the last write that the row took.
        """
        return write <= row

    def invalidates(self, change: Change) -> bool:
        """Return whether a mint invalidates the extant sequencer of an interval that it changes.

        New workers invalidate any extant sequencers before starting work, so that no remnant writes can succeed thereafter (6.2);
        a sequencer is invalidated whenever its interval is moved, split, or merged (7.1).

        Deviation: the store invalidates them when the master mints the new sequencer; the new worker does not have to (6.2). So
        the table of owners and the valid sequencers cannot disagree, and nobody can scan too early. A seam for mutants.
        """
        return True

    def next_sequencer(self, unused: int, former: int | None) -> int:
        """Return the sequencer of an assignment: each interval is assigned a unique sequencer (7.1).

        Args:
            unused: the smallest sequencer that was never assigned.
            former: the one of the same interval's last assignment; ``None`` if no assignment had exactly these keys.
        """
        return unused

    def takes_report(self, latest: bool) -> bool:
        """Return whether the store accepts a journal entry that is based on a watermark report.

        Sequencers are attached to all low watermark updates, so that only the latest owner of a given key interval can update
        its low watermark value (7.2).

        Args:
            latest: the reporter's sequencer, or an injector's epoch, is the latest.
        """
        return latest

    def may_claim(self, seen_epoch: int, latest: int) -> bool:
        """Return whether a claim of a replicated role succeeds (7.1). Choice: if none claimed it since the claimant looked."""
        return seen_epoch == latest

    def is_fenced(self, epoch: int, latest: int) -> bool:
        """Return whether a role's holder was replaced, so that the store refuses its mints and journal entries.

        Choice: epochs fence replicas of the master and of the authority, and processes of an injector, as sequencers fence owners
        (7.1, 7.2, 6.2).
        """
        return epoch != latest

    # Low watermarks (4.5, 7.2)

    def holds_watermark(self, work: Work, timestamp: int, reported: int) -> bool:
        """Return whether pending work holds back the low watermark.

        Low watermarks must reflect all pending state: checkpointed or pending productions, pending timers and persisted state
        (7.2, 6.2). Late work, behind what was reported before, holds nothing back: a low watermark is monotonic even in the face
        of late data (4.5).

        Deviation: persisted state and wall timers hold nothing back unless user code says until when (7.2). They have no event
        time of their own, and state that is kept for good would stop every watermark.

        Args:
            work: what is pending.
            timestamp: event time, microseconds.
            reported: the low watermark that was last reported, event time in microseconds.
        """
        return timestamp >= reported

    def holds_horizon(self, work: Work, origin: int, reported: int) -> bool:
        """Return whether pending work holds back the horizon: what it produces may not have an origin before the horizon (6.1.1).

        Choice: a pending timer of a computation with strong productions does not hold it; see `origin_of_firing`. A delivery does
        at its consumer too: a weak sender may be dead, and what its successor sends instead go elsewhere (6.1.3).

        Args:
            work: what is pending.
            origin: when its record entered the system, microseconds.
            reported: the horizon that was last reported, microseconds.
        """
        return work is not _TIMER and origin >= reported

    def low_watermark(self, reported: int, oldest_work: int, input_watermark: int) -> int:
        """Return an interval's low watermark: min(oldest work, low watermark of C: C outputs to A), made monotonic (4.5).

        The horizon follows the same rule, with origins in place of timestamps.
        """
        return max(reported, min(oldest_work, input_watermark))

    def input_watermark(self, senders: Sequence[int]) -> int:
        """Return the low watermark of a computation's input: the minimum over the values of its senders (4.5, 7.2).

        The minimum is computed by the workers rather than by the central authority, which is thereby at least as conservative as
        they are (7.2).
        """
        return min(senders, default=MAX_TIME)

    def counts_as_sender(self, in_own_version: bool, is_passing: bool) -> bool:
        """Return whether a computation holds the input of one that it outputs to.

        Choice: while the topology changes, every computation that may still send counts: those of the consumer's own version, and
        those of any version that are retiring or joining (3, 4.5).

        Args:
            in_own_version: it outputs to the consumer in the version that the consumer is deployed in.
            is_passing: it outputs to the consumer in some version, and is retiring or joining.
        """
        return in_own_version or is_passing

    def is_late(self, timestamp: int, watermark: int) -> bool:
        """Return whether a record is late: its timestamp is behind the low watermark (4.5)."""
        return timestamp < watermark

    def may_report(self, scanned: bool) -> bool:
        """Return whether an owner follows an interval's input and reports its progress.

        It does once the initial scan has populated in-memory structures, on whose consistency the report depends (7.1, 7.2).

        Deviation: in the paper a scan can often be asynchronous, allowing the computation to continue processing input records
        while it progresses (6.2). Here that is an option (`EngineOptions.asynchronous_scans`); by default what is delivered waits
        for the end of the scan, which costs no further reads.
        """
        return scanned

    def is_newer(self, sequencer: int, known: int) -> bool:
        """Return whether a report may replace what another owner reported for the same keys.

        Only the latest owner of a given key interval can update its low watermark value (7.2).
        """
        return sequencer > known

    def reported(self, known: int, behind: int) -> int:
        """Return an owner's progress after a report that is behind an earlier one: the network reorders reports (7.2)."""
        return known

    def value_of_missing(self, last_known: int) -> int:
        """Return the value of a missing interval: it corresponds to the last known value, until its owner reports (7.2)."""
        return last_known

    def journals_first(self) -> bool:
        """Return whether the authority journals a value before it broadcasts it.

        It journals all low watermark values to persistent state, which prevents the reporting of erroneous values after a process
        failure (7.2). A seam for mutants.
        """
        return True

    def merged(self, known: Progress, update: Progress) -> Progress:
        """Return a computation's known progress after an update: low watermarks never move backwards (7.2)."""
        return known.at_least(update)

    def advanced(self, known: int, update: int) -> int:
        """Return an interval's input watermark or horizon after an update: low watermarks never move backwards (7.2)."""
        return max(known, update)

    def outliers(self, percent: float, pending: int) -> int:
        """Return how many pending records a percentile watermark may pass: it strips away outliers (7.2).

        Choice: rounded down, so that 0.1 % of 999 records is none. Computed in fractions, since 100 - 99.9 is not 0.1 in binary.

        Args:
            percent: the share of record timestamps whose progress the watermark corresponds to.
            pending: how many records are pending.
        """
        return int((100 - Fraction(str(percent))) * pending / 100)

    # Injectors (5.2, 8.4)

    def injected_id(self, address: str, offset: int, incarnation: int) -> str:
        """Return the unique id of an injected record (6.1.1). Choice: its position in the source, the same for every reader."""
        return f"{address}:{offset}"

    def stamp(self, arrived_us: int, now: int) -> int:
        """Return the stamp that becomes a record's origin (6.1.1). Choice: the source's own, the same for every reader."""
        return arrived_us

    def resumes_at(self, unfinished: int, next_offset: int) -> int:
        """Return the offset at which a successor begins to read: that of the oldest unfinished record (5.2, 6.1.1).

        Args:
            unfinished: the smallest offset that is not delivered to all consumers.
            next_offset: the smallest offset that has not been read.
        """
        return unfinished

    def may_inject(self, timestamp: int, slowest: int, limit_us: int) -> bool:
        """Return whether a record may be injected: newer ones wait until the low watermarks have advanced (8.4).

        Args:
            timestamp: of the record, event time in microseconds.
            slowest: the smallest low watermark of all computations, event time in microseconds.
            limit_us: the skew limit, microseconds.
        """
        return timestamp <= slowest + limit_us

    # Ownership and topology (3, 7.1)

    def is_lost(self, silent_us: int, timeout_us: int) -> bool:
        """Return whether silence counts as a machine failure, from which MillWheel recovers (7.1).

        Choice: it does after a timeout. A process that was only slow lives on as a zombie writer (6.2).

        Args:
            silent_us: how long nothing has been heard from a process, or about an interval from its owner.
            timeout_us: how long it may be silent.
        """
        return silent_us > timeout_us

    def is_orphan(self, lost: bool, restarted: bool) -> bool:
        """Return whether an interval is assigned to a new owner: work shifts between machines because of failures (6.2, 7.1)."""
        return lost or restarted

    def may_lead(self, silent_us: int, lease_us: int) -> bool:
        """Return whether a standby claims a replicated role (7.1). Choice: if the holder has not renewed it for a lease."""
        return silent_us >= lease_us

    def weight(self, records: int, cpu_us: int, split_load: int, split_cpu_us: int) -> int:
        """Return an interval's weight for load balancing, in records: each process reports its CPU load (7.1).

        Choice: the number of records processed, or the equivalent of its CPU time in records, whichever is more.

        Args:
            records: how many it processed.
            cpu_us: CPU time of its user code, microseconds.
            split_load: how many records are equivalent to ``split_cpu_us``.
            split_cpu_us: CPU time, microseconds.
        """
        return max(records, cpu_us * split_load // split_cpu_us)

    def is_overloaded(self, load: float, most: float) -> bool:
        """Return whether an interval must be split, or a worker must give one away.

        In response to increased CPU load or memory pressure, the master can move intervals around, split them, or merge
        them (7.1).

        Args:
            load: weight or bytes of an interval or a worker.
            most: the limit, in the same unit.
        """
        return load > most

    def is_relief(self, target: int, source: int) -> bool:
        """Return whether it is worthwhile to move an interval from one worker to another (7.1).

        Choice: only if the new owner then has less load than the old one had. Loads converge that way, and moving ends.

        Args:
            target: load of the new owner after the move.
            source: load of the old owner before it, in the same unit.
        """
        return target < source

    def is_idle(self, load: int, least: int) -> bool:
        """Return whether two neighbouring intervals are merged (7.1). Choice: they are if their load is not worth two sequencers.

        Args:
            load: weight of both together.
            least: the weight at which an interval is worth its sequencer and its scans.
        """
        return load < least

    def adopts_version(self, injects: bool) -> bool:
        """Return whether a process follows the version of the topology that a new table announces (3). A seam for mutants.

        Args:
            injects: it is an injector's process rather than a worker.
        """
        return True

    def may_switch(self, all_know: bool) -> bool:
        """Return whether a new version of the topology takes effect.

        Choice: once all processes know its computations (3). The watermark of an owner that does not count a new sender could
        pass what that sender sends (4.5).
        """
        return all_know

    def may_remove(self, drained: bool) -> bool:
        """Return whether a retiring computation leaves the topology.

        Choice: once it has drained, that is, no record is on its way to it and it has nothing left to do (3). Until then its
        oldest work holds the watermarks of its consumers (4.5).
        """
        return drained

    # The cache (8.3)

    def may_evict(self, busy: bool) -> bool:
        """Return whether a row may leave the cache: not while a step of its key is in progress.

        Soft state must be consistent with the backing store (6.2), and a step's changes reach the cached row once they are
        durable.
        """
        return not busy

    def eviction_order(self, eviction: Eviction) -> tuple[Leaving, ...]:
        """Return which rows leave the cache first, in order.

        The most recently modified row is the one least likely to be fetched soon, a pattern that is hostile to LRU; MillWheel
        knows how data is likely to be used (8.3). Choice: first empty rows without timers, lest those of old keys fill the
        cache; then rows whose next timer is furthest away.
        """
        if eviction is Eviction.BOUNDARY:
            return Leaving.SPENT, Leaving.FURTHEST_BOUNDARY, Leaving.LEAST_RECENTLY_USED
        return (Leaving.LEAST_RECENTLY_USED,)


RULES = Rules()
"""The sound protocol."""
