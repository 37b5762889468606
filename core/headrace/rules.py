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
from collections.abc import Iterable, Sequence
from typing import TypeVar

from headrace.api.records import Clock
from headrace.api.time import MAX_TIME
from headrace.wire.keys import KeyInterval
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
    """What may hold a low watermark, or a horizon, back."""

    INJECTED = "injected"
    """A record that an injector has read and not delivered to all consumers."""
    SENT = "sent"
    """A production that was sent before its step was durable, and is not ACKed."""
    CHECKPOINT = "checkpoint"
    """A checkpointed production that is not ACKed."""
    TIMER = "timer"
    """A pending timer."""
    STATE = "state"
    """State with a hold."""
    FIRING = "firing"
    """A timer that has fired, until its step is durable."""


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
        """Tell whether an assignment is for this incarnation: what a former self was assigned died with its memory (6.2, 7.1)."""
        return incarnation == assigned

    # The store (6.2, 7.1)

    def may_write(self, covers: bool) -> bool:
        """Tell whether a write commits: the mediator checks its sequencer for validity first (6.2).

        Args:
            covers: the sequencer is the latest of an interval that holds the keys.
        """
        return covers

    def is_applied(self, row: tuple[int, int], write: tuple[int, int]) -> bool:
        """Tell whether a row has taken a write already: updates to state obey exactly-once semantics (6.2).

        Args:
            row: the sequencer and number of the last write that it took.
            write: those of the write.
        """
        return write <= row

    def invalidates(self, minted: KeyInterval, extant: KeyInterval) -> bool:
        """Tell whether a mint invalidates an extant sequencer: whenever its interval is moved, split or merged (6.2, 7.1)."""
        return minted.overlaps(extant)

    def next_sequencer(self, last: int) -> int:
        """Return the sequencer of an assignment: each interval is assigned a unique one (7.1)."""
        return last + 1

    def takes_report(self, current: bool) -> bool:
        """Tell whether a journal entry may rest on a report: only the latest owner of an interval may update it (7.2).

        Args:
            current: its sequencer, or epoch, is the latest.
        """
        return current

    def may_journal(self, epoch: int, latest: int) -> bool:
        """Tell whether a role's holder may write its journal.

        Choice: roles are fenced by epochs as intervals are by sequencers (6.2).
        """
        return epoch == latest

    def may_claim(self, seen_epoch: int, latest: int) -> bool:
        """Tell whether a claim of a role succeeds: nobody has claimed it since its state was looked at (6.2, 7.1)."""
        return seen_epoch == latest

    # Low watermarks (4.5, 7.2)

    def holds_watermark(self, work: Work) -> bool:
        """Tell whether pending work holds the low watermark: watermarks must reflect all pending state in the system (6.2)."""
        return work is not Work.FIRING

    def holds_horizon(self, work: Work, strong: bool) -> bool:
        """Tell whether pending work holds the horizon: nothing that it makes may come before it.

        Choice: a strong computation's pending timers do not, see `origin_of_firing` (6.1.1).
        """
        if work is Work.TIMER:
            return not strong
        return work is not Work.STATE

    def holds_back(self, timestamp: int, reported: int) -> bool:
        """Tell whether work holds what was reported: late work, born behind it, never holds a watermark back (4.5)."""
        return timestamp >= reported

    def is_late(self, timestamp: int, watermark: int) -> bool:
        """Tell whether a record is late: it is behind the low watermark (4.5)."""
        return timestamp < watermark

    def combined(self, values: Iterable[int]) -> int:
        """Return the input watermark of what these senders have reached: the minimum over all of them (4.5)."""
        return min(values, default=MAX_TIME)

    def low_watermark(self, oldest_work: int, input_watermark: int) -> int:
        """Return an interval's low watermark: min(oldest work, low watermarks of what outputs to it) (4.5)."""
        return min(oldest_work, input_watermark)

    def advanced(self, known: int, told: int) -> int:
        """Return a watermark after more is heard of it: low watermarks are monotonically increasing (4.5, 6.2)."""
        return max(known, told)

    def may_report(self, scanned: bool) -> bool:
        """Tell whether an owner reports an interval: once it knows its pending work (7.2)."""
        return scanned

    def replaces_report(self, sequencer: int, known: int) -> bool:
        """Tell whether a report replaces what is known of its keys: only the latest owner may update its value (7.2)."""
        return sequencer >= known

    def value_of_missing(self, last_known: int) -> int:
        """Return the value of an interval, or injector process, that nobody has reported: the last known one (7.2)."""
        return last_known

    def may_broadcast(self, journaled: bool) -> bool:
        """Tell whether a value is broadcast: the authority journals it first (7.2)."""
        return journaled

    # Injectors (5.2, 8.4)

    def injected_id(self, address: str, offset: int, incarnation: int) -> str:
        """Return the unique id of an injected record: its place in the source, whoever reads it (6.1.1)."""
        del incarnation
        return f"{address}:{offset}"

    def stamp(self, arrived_us: int, now: int) -> int:
        """Return the stamp of a record: the source's, so that it is the same whenever the record is read again (6.1.1)."""
        del now
        return arrived_us

    def resumes_at(self, unfinished: int, next_offset: int) -> int:
        """Return the offset to read from after a crash: that of the oldest record that is not delivered (5.2, 6.1.1)."""
        del next_offset
        return unfinished

    def may_inject(self, timestamp: int, slowest: int, limit_us: int) -> bool:
        """Tell whether a record enters: newer ones wait until the low watermarks have advanced (8.4)."""
        return timestamp <= slowest + limit_us

    # Ownership and topology (3, 7.1)

    def is_lost(self, silent_us: int, timeout_us: int) -> bool:
        """Tell whether a worker is replaced: it has missed its heartbeats, dead or not (7.1)."""
        return silent_us >= timeout_us

    def is_orphan(self, owner_lives: bool) -> bool:
        """Tell whether an interval is given to another worker: its owner is gone, or has lost its memory (7.1)."""
        return not owner_lives

    def may_lead(self, silent_us: int, lease_us: int) -> bool:
        """Tell whether a standby claims a replicated role: its holder has been silent for a lease (7.1)."""
        return silent_us >= lease_us

    def may_switch(self, all_know: bool) -> bool:
        """Tell whether a new version of the topology comes into force: all live processes know of it (3)."""
        return all_know

    def may_remove(self, drained: bool) -> bool:
        """Tell whether a retiring computation leaves: nobody owes it anything, and it owes nobody (3)."""
        return drained

    def version_in_force(self, adopted: int, announced: int) -> int:
        """Return the version of the topology by which a process works: the one that it was last told of (3)."""
        del adopted
        return announced


def _timer_order(timer: StoredTimer) -> tuple[int, bool, int, str]:
    return timer.order


RULES = Rules()
"""The sound protocol."""
