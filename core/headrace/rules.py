"""Every decision of the protocol, once and by name (MillWheel 4-7).

Rules of this file:

* A rule is a pure function of plain values. It keeps nothing, and asks nobody.
* The machines of `headrace.worker`, `headrace.injector`, `headrace.store`, `headrace.watermarks` and `headrace.ownership` collect
  the values, ask the rule, and act on the answer. They decide nothing themselves.
* Each docstring says, in the paper's verbs, the sentence that the rule carries out. A departure from the paper begins
  ``Deviation:``; a decision on which the paper is silent begins ``Choice:``.
* A broken protocol is a subclass that overrides a rule (`headrace_properties.mutants`). docs/protocol.md lists, for each
  sentence, its rule, the mutants that break it and the invariants that catch them; it is generated from this file.
"""

import enum
from collections.abc import Sequence
from fractions import Fraction
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
    """User code is run, resulting in pending changes."""
    SEND = "send"
    """Pending productions are sent."""
    AWAIT = "await"
    """The ACKs of what was sent are waited for; a straggler is checkpointed instead."""
    COMMIT = "commit"
    """Pending changes are committed to the backing store."""
    ACK = "ack"
    """The sender is ACKed."""


class Work(enum.Enum):
    """Pending work, which may hold a low watermark or a horizon back."""

    INJECTED = "injected"
    """A record that an injector has read and not delivered to all consumers."""
    SENT = "sent"
    """A production that was sent before its step was durable, and is not ACKed."""
    CHECKPOINT = "checkpoint"
    """A checkpointed production that is not ACKed."""
    TIMER = "timer"
    """A pending timer of a computation with strong productions."""
    WEAK_TIMER = "weak timer"
    """A pending timer of a computation with weak productions."""
    STATE = "state"
    """State with a hold."""
    FIRING = "firing"
    """What a timer that has fired produces, until it is sent."""


class Change(enum.Enum):
    """What a mint does to an interval that has an extant sequencer (7.1)."""

    MOVED = "moved"
    """It is assigned anew as a whole."""
    SPLIT = "split"
    """Its keys are divided among several intervals."""
    MERGED = "merged"
    """Its keys become part of a larger interval."""


class Leaving(enum.Enum):
    """Which of the cached rows leaves next (8.3)."""

    SPENT = "spent"
    """An empty one that waits for no timer."""
    FURTHEST_BOUNDARY = "furthest boundary"
    """The one whose next watermark timer is the furthest away."""
    LEAST_RECENTLY_USED = "least recently used"


_TIMER = Work.TIMER  # asked for with each timer; a global name is found faster than an enumeration's member


class Rules:
    """What MillWheel's protocol decides. Everything else in the engine is bookkeeping."""

    __slots__ = ()

    # Duplicates (6.1.1)

    def remembers(self, exactly_once: bool) -> bool:
        """Tell whether a computation deduplicates: disabling exactly-once skips the deduplication pass (6.1.3)."""
        return exactly_once

    def joins_copy(self) -> bool:
        """Tell whether a record that arrives while a copy of it is processed joins the copy: duplicates are discarded (6.1.1)."""
        return True

    def is_remnant(self, origin: int, horizon: int) -> bool:
        """Tell whether a delivery is a network remnant, whose id may have been collected.

        Choice: the paper collects ids once all senders have finished retrying (6.1.1); a copy that the network delayed beyond
        that is refused by its origin, so that no clock is trusted.
        """
        return origin < horizon

    def must_check_row(self) -> bool:
        """Tell whether a record that the Bloom filter may have seen is looked up in its row.

        The filter is a fast path for records provably never seen before; for others the backing store determines whether they are
        duplicates (6.1.1).
        """
        return True

    def is_duplicate(self, row_has_id: bool) -> bool:
        """Tell whether a record that may have been seen is a duplicate: its id is compared with the journaled ones (6.1.1)."""
        return row_has_id

    def acks_duplicate(self) -> bool:
        """Tell whether a duplicate is ACKed: discard and ACK it, lest it continue to be retried (6.1.1)."""
        return True

    def collects_below(self, horizon: int, slack_us: int) -> int:
        """Return the origin below which ids are garbage collected.

        Ids go once all senders have finished retrying, which is what the horizon says, delayed by a slack for injectors that
        deliver late (6.1.1).
        """
        return horizon - slack_us

    # A step, its write, and what follows (6.1.1, 6.2)

    def locks_key(self) -> bool:
        """Tell whether a key waits for the write of its last step: processing is serialized by key (4.1)."""
        return True

    def must_read(self, stored: bool) -> bool:
        """Tell whether a row that is not cached has to be read from the store before its key runs (6.2, 8.3)."""
        return stored

    def ends_step(self, timer: StoredTimer, watermark: int, wall: int) -> bool:
        """Tell whether a timer that was just set ends the step: it is due, and timers fire in order for a key (4.6, 6.2)."""
        return self.may_fire(timer.due, watermark if timer.clock is Clock.WATERMARK else wall)

    def written(self, delta: RowDelta) -> RowDelta:
        """Return what a step's write holds: all its changes to the row, wrapped in a single atomic operation (6.2).

        Several records may be coalesced into a single checkpoint; it then includes the unique id of each (6.1.1).
        """
        return delta

    def needs_write(self, changes_row: bool, exactly_once: bool, consumed_records: bool) -> bool:
        """Tell whether a step commits: a stateless filter without exactly-once has nothing to remember (6.1.3)."""
        return changes_row or (exactly_once and consumed_records)

    def order(self, strong: bool) -> tuple[Act, ...]:
        """Return what is done for a record, in order.

        Strong: user code is run, pending changes are committed, senders are ACKed, pending productions are sent (6.1.1); they are
        checkpointed before delivery (6.1.2). Weak: downstream deliveries are broadcast optimistically, prior to persisting state,
        and their ACKs waited for (6.1.3).
        """
        if strong:
            return Act.RUN, Act.COMMIT, Act.ACK, Act.SEND
        return Act.RUN, Act.SEND, Act.AWAIT, Act.COMMIT, Act.ACK

    def acks_refused(self) -> bool:
        """Tell whether the records of a refused write are ACKed: a refused write has persisted nothing (6.2)."""
        return False

    # Productions (6.1.1-6.1.3)

    def recipients(self, subscribers: Sequence[SubscriberT]) -> Sequence[SubscriberT]:
        """Return the consumers that a stream's records are delivered to: all that subscribe to it (4.3)."""
        return subscribers

    def id_prefix(self, computation: str, version: Version, cause: str, strong: bool) -> str:
        """Return the beginning of the unique ids that records are assigned at production time (6.1.1).

        Choice: strong ones are named by the row's version, which the same atomic write makes durable; weak ones by their
        cause, so that a re-run reproduces them (6.1.3).
        """
        return f"{computation}@{version}" if strong else f"{cause}>{computation}"

    def first_ordinal(self, emitted: int, strong: bool) -> int:
        """Return the ordinal of a cause's first production; those of one version are numbered through (6.1.1)."""
        return emitted if strong else 0

    def is_straggler(self, waited_us: int, delay_us: int) -> bool:
        """Tell whether a weak step has waited too long for its ACKs: after a 1-second delay in Figure 11 (6.1.3)."""
        return waited_us >= delay_us

    def checkpointed(self, straggling: tuple[Production, ...]) -> tuple[Production, ...]:
        """Return what a weak step checkpoints before it ACKs: its straggler pending productions (6.1.3)."""
        return straggling

    def deletes_checkpoint(self) -> bool:
        """Tell whether the checkpoint of a production that was ACKed is deleted: once it is successful (6.1.2)."""
        return True

    def settled_by(self, consumer: str, pending: Sequence[str]) -> tuple[str, ...]:
        """Return the consumers whose copies of a record an ACK settles: that of the consumer that sent it (4.3, 6.1.1).

        Args:
            consumer: that ACKed.
            pending: consumers with something pending.
        """
        del pending
        return (consumer,)

    def retries(self, injected: bool) -> bool:
        """Tell whether a delivery that is not ACKed is sent again: deliveries are retried until they are ACKed (6.1.1)."""
        del injected
        return True

    def retried(self, production: Production, attempts: int) -> Production:
        """Return what a retry sends: the record, with the unique id that it was assigned at production time (6.1.1)."""
        del attempts
        return production

    # Timers (4.6, 6.2)

    def due(self, timestamp: int, now: int) -> int:
        """Return when a timer is due that was set at ``now`` of its clock: at once, if its time has passed (4.6)."""
        return max(timestamp, now)

    def queues(self, timer: StoredTimer, recovered: bool) -> bool:
        """Tell whether a pending timer enters the heap: when it is set, and when the initial scan finds it (4.6, 7.1)."""
        del timer, recovered
        return True

    def may_fire(self, due: int, reading: int) -> bool:
        """Tell whether a timer fires: the low watermark, or wall time, has reached its timestamp (4.6)."""
        return due <= reading

    def in_order(self, due: list[StoredTimer]) -> list[StoredTimer]:
        """Sort what fires: in increasing timestamp order for a key (4.6, 6.2)."""
        return sorted(due, key=_timer_order)

    def most_firings(self, room: int) -> int:
        """Return how many due timers of a key may fire in one step: as many as it has room for (4.6, 6.1.1)."""
        return room

    def fires_rest(self) -> bool:
        """Tell whether due timers for which a step had no room fire in the next one: they are guaranteed to fire (4.6)."""
        return True

    def origin_of_firing(self, origin: int, horizon: int, strong: bool) -> int:
        """Return the origin of what a timer produces.

        Choice: a strong timer does not hold the horizon while it is pending, so what it produces is as new as its
        computation's horizon; a weak one holds it, so that a re-run makes the same record (6.1.1, 6.1.3).
        """
        return max(origin, horizon) if strong else origin

    # Recovery (6.1.2, 6.2, 7.1)

    def scans_first(self) -> bool:
        """Tell whether a new owner scans before it works: whenever an interval is assigned to a new owner (7.1)."""
        return True

    def continues_scan(self, after: str | None) -> bool:
        """Tell whether a scan goes on behind this key: the whole interval is scanned (7.1)."""
        return after is not None

    def recovered(self, image: RowImage) -> RowImage:
        """Return what a scan brings back of a row: pending timers, productions to replay, journaled ids (6.1.2, 7.1)."""
        return image

    def is_owner(self, incarnation: int, assigned: int) -> bool:
        """Tell whether an assignment is for this incarnation of a process.

        Soft state is consistent for the lifetime of the assignment (7.1): what a former self was assigned died with its memory.
        """
        return incarnation == assigned

    # The store (6.2, 7.1)

    def is_valid(self, interval: KeyInterval | None, low: str, high: str) -> bool:
        """Tell whether a sequencer is valid for these keys: the mediator checks that before it allows a write to commit (6.2).

        Choice: reads, scans and collections are checked as well, so that a replaced owner learns of it by any request.

        Args:
            interval: that the sequencer was minted for; ``None`` if it was invalidated.
            low: the first key that is touched.
            high: the last one.
        """
        if interval is None:
            return False
        end = interval.high
        return interval.low <= low and (end is None or high < end)

    def is_applied(self, write: tuple[int, int], row: tuple[int, int]) -> bool:
        """Tell whether a row has taken a write already: a write that arrives again changes nothing (6.1.1, 6.2).

        Args:
            write: its sequencer and number.
            row: those of the last write that the row took.
        """
        return write <= row

    def invalidates(self, change: Change) -> bool:
        """Tell whether a mint invalidates the extant sequencer of an interval that it changes.

        New workers invalidate any extant sequencers before starting work, so that no remnant writes can succeed thereafter (6.2);
        a sequencer is invalidated whenever its interval is moved, split, or merged (7.1).
        """
        del change
        return True

    def next_sequencer(self, unused: int, former: int | None) -> int:
        """Return the sequencer of an assignment: each interval is assigned a unique one (7.1).

        Args:
            unused: the smallest that was never assigned.
            former: that of the same interval's last assignment; ``None`` if no assignment had just these keys.
        """
        del former
        return unused

    def takes_report(self, latest: bool) -> bool:
        """Tell whether the store lets a journal entry rest on a watermark report.

        Sequencers are attached to all low watermark updates, so that only the latest owner of a key interval can update its
        low watermark (7.2).

        Args:
            latest: the reporter's sequencer, or an injector's epoch, is the latest.
        """
        return latest

    def may_claim(self, seen_epoch: int, latest: int) -> bool:
        """Tell whether a claim of a role succeeds. Choice: if nobody has claimed it since the claimant looked (7.1)."""
        return seen_epoch == latest

    def is_fenced(self, epoch: int, latest: int) -> bool:
        """Tell whether a role's holder has a successor, so that the store refuses its mints and journal entries.

        Choice: replicas of the master and the authority, and an injector's processes, are fenced by epochs as owners are by
        sequencers (6.2, 7.1, 7.2).
        """
        return epoch != latest

    # Low watermarks (4.5, 7.2)

    def holds_watermark(self, work: Work, timestamp: int, reported: int) -> bool:
        """Tell whether pending work holds the low watermark back.

        What is reported includes checkpointed or pending productions, pending timers and persisted state (7.2). Late work, behind
        what was reported before, holds nothing back: a low watermark is monotonic even in the face of late data (4.5).

        Args:
            work: what is pending.
            timestamp: event time, microseconds.
            reported: the low watermark as it was last reported, event time in microseconds.
        """
        del work
        return timestamp >= reported

    def holds_horizon(self, work: Work, origin: int, reported: int) -> bool:
        """Tell whether pending work holds the horizon: nothing that it makes may come from before the horizon (6.1.1).

        Choice: a pending timer of a computation with strong productions does not, see `origin_of_firing`.

        Args:
            work: what is pending.
            origin: when its record entered the system, microseconds.
            reported: the horizon as it was last reported, microseconds.
        """
        return work is not _TIMER and origin >= reported

    def low_watermark(self, reported: int, oldest_work: int, input_watermark: int) -> int:
        """Return an interval's low watermark: min(oldest work, low watermark of C: C outputs to A), but monotonic (4.5).

        The horizon is computed by the same rule, from origins.
        """
        return max(reported, min(oldest_work, input_watermark))

    def input_watermark(self, senders: Sequence[int]) -> int:
        """Return the low watermark of a computation's input: the minimum over the values of its senders (4.5, 7.2).

        The minimum is computed by the workers, rather than the central authority, which must be at least as conservative as they
        are (7.2).
        """
        return min(senders, default=MAX_TIME)

    def counts_as_sender(self, in_own_version: bool, is_passing: bool) -> bool:
        """Tell whether a computation holds the input of one that it outputs to.

        Choice: while the topology changes, every computation does that may still send: those of the consumer's own version, and
        those of any version that retire, or that join (3, 4.5).

        Args:
            in_own_version: it outputs to the consumer in the version that the consumer is deployed in.
            is_passing: it outputs to the consumer in some version, and retires or joins.
        """
        return in_own_version or is_passing

    def is_late(self, timestamp: int, watermark: int) -> bool:
        """Tell whether a record is late: it is behind the low watermark (4.5)."""
        return timestamp < watermark

    def may_report(self, scanned: bool) -> bool:
        """Tell whether an owner follows an interval's input, and reports its progress.

        Only once the initial scan has populated its in-memory structures: the report depends on their consistency (7.1, 7.2).

        Deviation: in the paper the scan is asynchronous, allowing the computation to continue processing input records while it
        progresses (6.2). Here an interval does no work until its scan has ended, so that no key runs before its timers and ids
        are known; what is delivered meanwhile is kept.
        """
        return scanned

    def is_newer(self, sequencer: int, known: int) -> bool:
        """Tell whether a report may replace what another owner reported of the same keys.

        Only the latest owner of a given key interval can update its low watermark value (7.2).
        """
        return sequencer > known

    def reported(self, known: int, told: int) -> int:
        """Return what an owner has reached that has told of less than before: the network reorders its reports (7.2)."""
        del told
        return known

    def value_of_missing(self, last_known: int) -> int:
        """Return the value of an interval that is missing: the last known value, until it reports a new one (7.2)."""
        return last_known

    def journals_first(self) -> bool:
        """Tell whether the authority journals a value before it broadcasts it.

        It journals all low watermark values to persistent state, preventing the reporting of erroneous values in cases of
        process failure (7.2).
        """
        return True

    def merged(self, known: Progress, told: Progress) -> Progress:
        """Return what is known of a computation's progress after more is told: low watermarks never move backwards (7.2)."""
        return known.at_least(told)

    def advanced(self, known: int, told: int) -> int:
        """Return an interval's input watermark, or horizon, after more is told: low watermarks never move backwards (7.2)."""
        return max(known, told)

    def outliers(self, percent: float, pending: int) -> int:
        """Return how many pending records a percentile watermark leaves behind: it strips away outliers (7.2).

        Choice: rounded down, so that 0.1 % of 999 records are none. In fractions, as 100 - 99.9 is not 0.1 in binary.

        Args:
            percent: whose progress the watermark corresponds to.
            pending: how many records are pending.
        """
        return int((100 - Fraction(str(percent))) * pending / 100)

    # Injectors (5.2, 8.4)

    def injected_id(self, address: str, offset: int, incarnation: int) -> str:
        """Return the unique id of an injected record (6.1.1). Choice: its place in the source, the same for every reader."""
        del incarnation
        return f"{address}:{offset}"

    def stamp(self, arrived_us: int, now: int) -> int:
        """Return the stamp that a record's origin is made of (6.1.1). Choice: the source's, the same for every reader."""
        del now
        return arrived_us

    def resumes_at(self, unfinished: int, next_offset: int) -> int:
        """Return the offset that a successor reads from: that of the oldest unfinished record (5.2, 6.1.1).

        Args:
            unfinished: the smallest offset of what is not delivered to all consumers.
            next_offset: of what has not been read.
        """
        del next_offset
        return unfinished

    def may_inject(self, timestamp: int, slowest: int, limit_us: int) -> bool:
        """Tell whether a record enters: newer records wait until the low watermarks have advanced (8.4).

        Args:
            timestamp: of the record, event time in microseconds.
            slowest: the smallest low watermark of all computations, event time in microseconds.
            limit_us: the skew limit, microseconds.
        """
        return timestamp <= slowest + limit_us

    # Ownership and topology (3, 7.1)

    def is_lost(self, silent_us: int, timeout_us: int) -> bool:
        """Tell whether silence counts as a machine failure, from which the master recovers (7.1).

        Choice: after a time-out. A process that was only slow lives on as a zombie (6.2).

        Args:
            silent_us: for how long a process, or the owner of an interval, has said nothing of itself, or of the interval.
            timeout_us: that it may be silent.
        """
        return silent_us > timeout_us

    def is_orphan(self, lost: bool, restarted: bool) -> bool:
        """Tell whether an interval is assigned to a new owner: machine failures move work between machines (6.2, 7.1).

        Args:
            lost: nothing is heard of its owner.
            restarted: its owner has lost its memory.
        """
        return lost or restarted

    def may_lead(self, silent_us: int, lease_us: int) -> bool:
        """Tell whether a standby claims a replicated role (7.1). Choice: if its holder has not renewed it for a lease."""
        return silent_us >= lease_us

    def weight(self, records: int, cpu_us: int, split_load: int, split_cpu_us: int) -> int:
        """Return what an interval weighs when load is balanced, in records: CPU load is reported by each process (7.1).

        Choice: the records that it ran, or what its CPU time is worth in records, whichever is more.

        Args:
            records: that it ran.
            cpu_us: CPU time that its user code took, microseconds.
            split_load: how many records are worth as much as ``split_cpu_us``.
            split_cpu_us: CPU time, microseconds.
        """
        return max(records, cpu_us * split_load // split_cpu_us)

    def is_overloaded(self, load: float, most: float) -> bool:
        """Tell whether an interval is to be split, or a worker gives an interval away.

        In response to increased CPU load or memory pressure, the master can move intervals around, split them, or merge
        them (7.1).

        Args:
            load: of an interval or a worker: its weight, or its bytes.
            most: that it may have, in the same unit.
        """
        return load > most

    def is_relief(self, target: int, source: int) -> bool:
        """Tell whether a move between workers is worth while (7.1).

        Choice: only if the target then has less than the source had. So loads get nearer to each other, and moves come to an end.

        Args:
            target: load of the new owner after the move.
            source: load of the old owner before it, in the same unit.
        """
        return target < source

    def is_idle(self, load: int, least: int) -> bool:
        """Tell whether two neighbouring intervals are to be merged (7.1).

        Args:
            load: of both together.
            least: that an interval needs to be worth its sequencer and its scans.
        """
        return load < least

    def adopts_version(self, injects: bool) -> bool:
        """Tell whether a process goes by the version of the topology that the table announces, once it knows of another (3).

        Args:
            injects: it is an injector's process, and no worker.
        """
        del injects
        return True

    def may_switch(self, all_know: bool) -> bool:
        """Tell whether a new version of the topology comes into force.

        Choice: once all processes know of its computations (3). An owner that did not count a new sender could let its
        watermark pass what that one sends (4.5).
        """
        return all_know

    def may_remove(self, drained: bool) -> bool:
        """Tell whether a retiring computation leaves the topology.

        Choice: once it has drained: nobody owes it a record, and it has nothing left to do (3). Its oldest work holds the
        watermarks of those that it outputs to (4.5).
        """
        return drained

    # The cache (8.3)

    def may_evict(self, busy: bool) -> bool:
        """Tell whether a row may leave the cache: not while a step of its key is under way (6.2).

        Its soft state has to be consistent with the row, and the step's changes come to it once they are durable.
        """
        return not busy

    def eviction_order(self, eviction: Eviction) -> tuple[Leaving, ...]:
        """Return which rows leave the cache first (8.3).

        The most recently modified row is the one least likely to be fetched soon, which is hostile to LRU; MillWheel knows how
        data is likely to be used (8.3). Choice: first the empty rows that wait for nothing, lest those of old keys fill the
        cache; then those whose next timer is the furthest away.
        """
        if eviction is Eviction.BOUNDARY:
            return Leaving.SPENT, Leaving.FURTHEST_BOUNDARY, Leaving.LEAST_RECENTLY_USED
        return (Leaving.LEAST_RECENTLY_USED,)


def _timer_order(timer: StoredTimer) -> tuple[int, bool, int, str]:
    return timer.order


RULES = Rules()
"""The sound protocol."""
