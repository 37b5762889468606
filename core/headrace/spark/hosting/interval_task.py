"""One key interval in one micro-batch: the second driver of the engine's `Worker` (MillWheel 6.1, 7.1).

The first driver is the simulated cluster. This one plays the machines around a worker: the store's `Mediator`, over the rows in
Spark's state store; the master, whose assignment lasts for one micro-batch; and the network, which is Spark's shuffle and loses
nothing. A worker lives for one micro-batch, so what its interval knows of its senders is kept here between micro-batches. `Rules`
derives the input watermark and the interval's report from it.

Rules of this file:

* Deviation: no master mints the sequencer of an assignment (7.1). It is derived from the number of the micro-batch, since Spark
  commits a batch's state at most once, and a repeated batch runs on the state of the batch before it. State whose sequencer is
  not smaller than the batch's own comes from the batch's future, and is refused (6.2).
* Deviation: the micro-batch takes over a production with the write of what made it, and it counts if the batch is committed. So
  it needs no checkpoint and no ACK (6.1.1), but for a History, which has them: there it is ACKed at once.
* In a batch, records come first, under the watermark that the interval knew before. Then the watermark advances, and timers fire.
  So a sender's productions in a batch are never late for its consumer in the same batch.
* A sender whose rows hold the watermark back (by state with a hold, by wall timers with one, or through its own senders) tells
  all intervals of its consumers how far, in the batch in which that changes. Apart from that, Spark's watermark is exact: all
  work up to it has been done by the time the next operator runs.
* A computation that follows a percentile watermark (7.2) derives it itself, as the authority would for each of its senders. What
  feeds it, directly or not, tells it of its pending timestamps in the batch in which they change. The frontier of the sources is
  Spark's watermark.
* Records of an injector with a skew limit (8.4) may wait first: see `headrace.spark.hosting.waiting_room`.
* Rows that this batch does not need stay packed, as if their keys belonged to another interval.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from operator import itemgetter

from headrace.api.codecs import decode_state
from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.api.progress import CountsDropped
from headrace.api.ropes import Encoded
from headrace.api.specs import OUTSIDE
from headrace.api.time import MAX_TIME, MILLISECOND, MIN_TIME
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import History, Injected, Output
from headrace.rules import RULES
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting.chunks import NEVER, Buckets, Chunks, IntervalStore
from headrace.spark.hosting.history_export import exported, exported_injections
from headrace.spark.hosting.layout import BatchContext, JobPlan, batch_of, computation_of
from headrace.spark.hosting.parcels import Packed, Parcel, Post, Tally
from headrace.spark.hosting.waiting_room import WaitingRoom
from headrace.spark.runtime.event_time import END_MS
from headrace.store.mediator import MASTER_ROLE, Mediator, StoredRow
from headrace.watermarks.percentile import percentile_watermark
from headrace.wire import messages as m
from headrace.wire.effects import Deliveries, Event, Halt, Send, Start, Wake
from headrace.wire.keys import ALL_KEYS
from headrace.wire.rows import Production
from headrace.worker.worker import Worker

OPTIONS = EngineOptions(
    commit_batch=1 << 30, commits_in_flight=1, cache_bytes=1 << 62, masters=1, authority_replicas=1,
    user_code_retry_us=1,
)  # fmt: skip
"""One write for all waiting steps; no row leaves memory before the batch is over."""

_ELSEWHERE = "elsewhere"
_event_time, _arrival = itemgetter(4, 5, 1), itemgetter(5, 4, 1)
"""Sort keys of records: timestamp, origin and id, or the origin first."""
_PATIENCE = 1_000_000
"""Rounds of messages within one micro-batch after which it counts as hung."""


def run_interval(
    plan: JobPlan, group: str, batch: BatchContext, parcels: Sequence[Parcel], store: IntervalStore
) -> Post:
    """Process one key interval in one micro-batch.

    Args:
        plan: the layout of the pipeline.
        group: the interval.
        batch: the micro-batch.
        parcels: the parcels for it; none if only Spark's watermark has moved.
        store: holds its rows.

    Returns:
        What it sends.

    Raises:
        SparkHostError: the stored rows are not from before this batch.
        HeadraceError: user code failed for good.
    """
    return _IntervalTask(plan, group, batch, store).run(parcels)


def next_timer_ms(due: int, enters_at: int | None, low_watermark: int) -> int | None:
    """Return when an interval needs Spark's timer, event time in milliseconds; ``None``: never.

    Args:
        due: when its first timer is due, event time in microseconds; `NEVER`: it has none.
        enters_at: see `WaitingRoom`. When Spark's watermark has come so far, a record that waits may enter unless somebody else
            is slower.
        low_watermark: Spark's, event time in microseconds: its timers are behind that.
    """
    due = min(due, NEVER if enters_at is None else max(enters_at, 1))
    if due == NEVER:
        return None
    return max(min(-(-due // MILLISECOND), END_MS), low_watermark // MILLISECOND + 1)


class _IntervalTask:
    def __init__(self, plan: JobPlan, group: str, batch: BatchContext, store: IntervalStore) -> None:
        self._plan = plan
        self._group = group
        self._batch = batch
        self._store = store
        self._computation = computation_of(group)
        self._spec = plan.pipeline.computations[self._computation]
        self._followers = plan.followers.get(self._computation, ())
        bucket_us = OPTIONS.percentile_bucket_us if self._followers else None
        self._chunks = Chunks(store, plan.intervals, bucket_us)
        self._history = History() if plan.history else History.discarding()
        self._history.at_us = batch.now_us
        self._under_old_watermark = 0
        self._post = Post()
        self._check_state()
        self._room = WaitingRoom(self._chunks.header, store, plan.limits)
        self._before = copy(self._chunks.header)
        known = self._chunks.header.pending is not None
        self._pending_before = self._pending() if self._followers and known else ()
        self._entered: list[Injected] = []

    def run(self, parcels: Sequence[Parcel]) -> Post:
        header = self._chunks.header
        for parcel in parcels:
            header.holds.update(parcel.holds)
            header.horizons.update(parcel.horizons)
            header.upstream.update(parcel.pending)
            header.slowest = RULES.advanced(header.slowest, parcel.slowest or MIN_TIME)
        entering = self._entering(parcels)
        header.holds = {sender: low for sender, low in header.holds.items() if low < MAX_TIME}
        low, horizon = self._input_watermark(), self._input_horizon()
        reached = self._percentiles()
        deliveries = self._deliveries([*parcels, Parcel(entering)] if entering else parcels)
        keys = Counter([record[2] for record in deliveries])
        self._count(deliveries, keys)
        rows = self._rows(keys, self._timer_watermark(low, reached))
        if rows or deliveries:
            states = {key: row.state for key, row in rows.items()}
            after = self._work(rows, deliveries, self._progress(low, horizon, reached))
            self._count_dropped(states, after)
        header.low, header.horizon, header.reached = low, horizon, reached
        self._tell_holds()
        self._tell_pending()
        self._set_timer()
        if self._plan.progress:
            self._post_tally()
        self._chunks.write_header()
        self._post_history()
        return self._post

    def _entering(self, parcels: Sequence[Parcel]) -> list[Packed]:
        """Return the records of injectors with a skew limit that need not wait, or no longer (8.4)."""
        header, low = self._chunks.header, self._batch.low_watermark
        limited = [(injector, low, record) for parcel in parcels for injector, record in parcel.limited]
        if not limited and not header.waiting:
            return []
        entering = self._room.admit(limited)
        if self._plan.history:
            for number, entered in enumerate(entering, header.records + 1):
                self._entered.append(self._injected(number, *entered))
        # Its origin may be behind the horizon by now, but a record that waited is no remnant.
        return [(*record[:5], max(record[5], header.horizon)) for _, _, record in entering]

    def _injected(self, number: int, injector: str, low: int, record: Packed) -> Injected:
        stream, record_id, key, value, timestamp, origin = record
        production = Production(record_id, stream, self._computation, key, value, timestamp, origin)
        return Injected(self._batch.now_us, f"{injector}/0", number, max(low, 0), (production,))

    def _check_state(self) -> None:
        """Refuse state written by this batch or a later one: its records would count twice."""
        stored = self._chunks.header.sequencer
        own = self._plan.sequencer(self._group, self._batch.number)
        if stored < own or (stored == own and self._store.is_begun()):
            return
        problem = (
            f"key interval {self._group!r} has state of micro-batch {batch_of(stored)}, but micro-batch "
            f"{self._batch.number} needs the state before it"
        )
        remedy = (
            "The checkpoint's state and logs are from different times: restore the whole checkpoint from one backup, "
            "or start with a new one"
        )
        raise SparkHostError(problem, remedy)

    def _input_watermark(self) -> int:
        header = self._chunks.header
        low = RULES.input_watermark([self._batch.low_watermark, *header.holds.values(), self._room.earliest])
        return RULES.advanced(header.low, low)

    def _percentiles(self) -> dict[str, int]:
        """Return by sender how far its percentile watermark has come; nothing, if the low watermark is followed (7.2)."""
        header, pipeline, percent = self._chunks.header, self._plan.pipeline, self._spec.watermark_percentile
        if percent >= 100:
            return {}
        percentiles, frontier = {}, self._batch.low_watermark
        for sender in pipeline.senders(self._computation):
            feeders = {sender, *pipeline.upstream(sender)}
            holds = [
                *header.holds.items(),
                *[(f"{name}/", self._room.earliest) for name in self._plan.limits],
            ]
            held = [low for group, low in holds if computation_of(group) == sender]
            pending = [
                bucket
                for group, buckets in header.upstream.items()
                if computation_of(group) in feeders
                for bucket in buckets
            ]
            pending += self._room.pending()
            low, before = RULES.input_watermark([frontier, *held]), header.reached.get(sender, MIN_TIME)
            percentiles[sender] = percentile_watermark(percent, before, low, frontier, pending)
        return percentiles

    def _timer_watermark(self, low: int, reached: dict[str, int]) -> int:
        """Return what timers and lateness follow: the low watermark, or a percentile."""
        return max(low, RULES.input_watermark([*reached.values()])) if reached else low

    def _input_horizon(self) -> int:
        """Return the origin up to which ids can be forgotten: how far the sources were read, by their stamps or by event time."""
        plan, header = self._plan, self._chunks.header
        horizons = []
        for name in plan.pipeline.injectors:
            timed = name in plan.timed_by_source
            horizons.append(header.horizons.get(name, MIN_TIME) if timed else self._batch.low_watermark)
        return RULES.advanced(header.horizon, RULES.input_watermark(horizons))

    def _deliveries(self, parcels: Sequence[Parcel]) -> list[Packed]:
        """Return all records in the order in which the sources got them, or in event-time order (see `BatchContext`)."""
        if len(parcels) == 1 and not self._batch.in_order:
            return parcels[0].records
        records = [record for parcel in parcels for record in parcel.records]
        records.sort(key=_event_time if self._batch.in_order else _arrival)
        return records

    def _rows(self, keys: Iterable[str], low: int) -> dict[str, StoredRow]:
        """Return the rows that this batch needs: those of its records' keys, and those with a due timer."""
        needed = dict.fromkeys([*keys, *self._chunks.due(low, self._batch.now_us)])
        rows = {key: self._chunks.row(key) for key in needed}
        return {key: row for key, row in rows.items() if row is not None}

    # The worker and the machines around it

    def _work(
        self, rows: dict[str, StoredRow], deliveries: Iterable[Packed], progress: dict[str, m.Progress]
    ) -> dict[str, StoredRow]:
        """Let a worker process all of it; return the rows as they are then."""
        header, plan, now = self._chunks.header, self._plan, self._batch.now_us
        header.sequencer = plan.sequencer(self._group, self._batch.number)
        before = self._progress(header.low, header.horizon, header.reached)
        before[self._computation] = m.Progress(header.reported, header.horizon)
        mediator = Mediator.over(self._history, {self._computation: rows}, before, header.sequencer)
        machines = _Machines(self._group, plan.pipeline, mediator, self._history, now)
        machines.tell(Start(1))
        machines.tell(_assignment(mediator, self._computation, self._group, plan.pipeline))
        machines.settle()
        machines.tell(Deliveries(self._productions(deliveries), _ELSEWHERE, self._batch.in_order))
        machines.settle()
        while (reached := machines.next_in_order()) < MAX_TIME:
            machines.tell(m.Watermarks(0, tuple(self._progress(reached, header.horizon, {}).items())))
            machines.settle()
        self._under_old_watermark = len(self._history)
        machines.tell(m.Watermarks(0, tuple(progress.items())))
        machines.settle()
        machines.finish()
        self._send(machines.sent)
        after = mediator.rows(self._computation)
        self._chunks.write(after)
        return after

    def _progress(self, low: int, horizon: int, reached: dict[str, int]) -> dict[str, m.Progress]:
        """Return the progress of each sender, for the worker."""
        percent, progress = self._spec.watermark_percentile, m.Progress(low, horizon)
        return {
            sender: m.Progress(low, horizon, ((percent, reached[sender]),)) if sender in reached else progress
            for sender in self._plan.pipeline.senders(self._computation)
        }

    def _productions(self, deliveries: Iterable[Packed]) -> Iterable[Production]:
        name, earliest = self._computation, self._chunks.header.horizon
        for stream, record_id, key, value, timestamp, origin in deliveries:
            # If ids are kept by event time, a record may arrive arbitrarily late and is not a remnant.
            came = origin if self._plan.timed_by_source else max(origin, earliest)
            yield Production(record_id, stream, name, key, value, timestamp, came)

    def _send(self, productions: Sequence[Production]) -> None:
        plan, post = self._plan, self._post
        self._chunks.header.outputs += len({production.record_id for production in productions})
        for production in productions:
            parcel = post.to(plan.group(production.consumer, production.key))
            parcel.records.append(
                (
                    production.stream, production.record_id, production.key, production.value, production.timestamp,
                    production.origin,
                )
            )  # fmt: skip

    # Watermarks (7.2)

    def _tell_holds(self) -> None:
        """Tell the consumers where this interval holds the low watermark back, if that has changed or they are new."""
        header = self._chunks.header
        held = min([self._chunks.dues()[0], *header.holds.values(), self._room.earliest])
        header.reported = RULES.low_watermark(header.reported, held, header.low)
        consumers = self._plan.pipeline.receivers(self._computation)
        unaware = (
            consumers if held != header.held else [name for name in consumers if name not in header.told_to]
        )
        header.told_to = consumers
        if held == header.held == MAX_TIME:
            return
        header.held = held
        for consumer in unaware:
            for group in self._plan.groups[consumer]:
                self._post.to(group).holds.append((self._group, held))

    def _tell_pending(self) -> None:
        """Tell those who follow a percentile of the pending timestamps here, if these have changed or they are new (7.2)."""
        known, self._chunks.header.followers = self._chunks.header.followers, self._followers
        if not self._followers:
            return
        pending = self._pending()
        has_changed = pending != self._pending_before
        for follower in self._followers:
            if has_changed or (pending and follower not in known):
                for group in self._plan.groups[follower]:
                    self._post.to(group).pending.append((self._group, pending))

    def _pending(self) -> Buckets:
        return tuple(sorted((*self._chunks.pending(), *self._room.pending())))

    def _set_timer(self) -> None:
        """Set Spark's timer for the next timer that may be due."""
        header = self._chunks.header
        _, due, wall_due = self._chunks.dues()
        if wall_due != NEVER and not self._plan.clock:
            raise SparkHostError(
                f"computation {self._computation!r} set a wall timer, but the job has no clock",
                "Give clock_us=, an option of deploy and of attach: how often to check wall timers, in microseconds",
            )
        at_ms = next_timer_ms(due, self._room.enters_at, self._batch.low_watermark)
        if at_ms != header.timer_ms:
            self._store.set_timer(header.timer_ms, at_ms)
            header.timer_ms = at_ms

    # Progress and History

    def _count(self, deliveries: Sequence[Packed], keys: Counter[str]) -> None:
        header = self._chunks.header
        header.turns += 1
        header.records += len(deliveries)
        timestamps = [record[4] for record in deliveries]
        header.newest = max(header.newest, max(timestamps, default=MIN_TIME))
        if keys:
            header.hot_key = max(keys, key=keys.__getitem__)  # of several, the first that came
            header.hot_records, header.latest_records = keys[header.hot_key], len(deliveries)
        low = self._timer_watermark(header.low, header.reached)
        if not self._batch.in_order and min(timestamps, default=MAX_TIME) < low:
            header.late_records += len([1 for timestamp in timestamps if timestamp < low])

    def _count_dropped(self, before: Mapping[str, Encoded], after: Mapping[str, StoredRow]) -> None:
        """Count what the rows say was dropped: once, also if user code ran several times."""
        computation = self._spec.computation
        if not isinstance(computation, CountsDropped):
            return
        codec = self._spec.state_codec
        for key, row in after.items():
            was = before.get(key, b"")
            if row.state and row.state != was:
                earlier = computation.count_dropped(decode_state(codec, was)) if was else 0
                now = computation.count_dropped(decode_state(codec, row.state))
                self._chunks.header.dropped += now - earlier

    def _post_tally(self) -> None:
        header, before = self._chunks.header, self._before
        begun = self._store.is_begun()
        wall_due = self._chunks.dues()[2]
        tally = Tally(
            self._group,
            self._computation,
            header.turns,
            header.records,
            header.late_records,
            header.outputs,
            header.newest,
            self._batch.low_watermark,
            header.held,
            min(header.low, header.held),
            header.timers,
            header.rows,
            header.state_bytes,
            new_records=header.records - before.records,
            new_late_records=header.late_records - before.late_records,
            new_outputs=header.outputs - before.outputs,
            timers_here=header.timers - (before.timers if begun else 0),
            keys_here=header.rows - (before.rows if begun else 0),
            state_bytes_here=header.state_bytes - (before.state_bytes if begun else 0),
            intervals_here=0 if begun else 1,
            wall_due=None if wall_due == NEVER else wall_due,
            hot_key=header.hot_key,
            hot_records=header.hot_records,
            latest_records=header.latest_records,
            dropped=header.dropped,
            new_dropped=header.dropped - before.dropped,
            enters_at=self._room.enters_at,
        )
        self._post.tallies.append((self._plan.group(OUTSIDE, self._group), tally))

    def _post_history(self) -> None:
        if self._plan.history:
            parcel = self._post.to(self._plan.group(OUTSIDE, self._group))
            if self._entered:
                batch = self._batch
                parcel.events.append(
                    exported_injections(self._plan, self._group, batch.number, batch.now_us, self._entered)
                )
            parcel.events += exported(
                self._plan, self._group, self._batch, self._history.events, self._under_old_watermark,
                self._chunks.header.held, self._chunks.header.reached,
            )  # fmt: skip


def _assignment(mediator: Mediator, computation: str, owner: str, pipeline: Pipeline) -> m.Table:
    """Assign the interval to its owner, and all its consumers to another process, as a master would."""
    mediator.handle(m.Claim(1, MASTER_ROLE, 0, _ELSEWHERE))
    consumers = [name for name in pipeline.computations if name != computation]
    changes = [m.MintChange(computation, ALL_KEYS, owner, 1)]
    changes += [m.MintChange(name, ALL_KEYS, _ELSEWHERE, 1) for name in consumers]
    minted = mediator.handle(m.Mint(2, 1, 1, tuple(changes), topology=0))
    assert isinstance(minted, m.Minted)
    return minted.table


class _Machines:
    """A worker, its store, and a network that takes over whatever the worker sends.

    Attributes:
        sent: its productions, in order.
    """

    def __init__(
        self, process: str, pipeline: Pipeline, mediator: Mediator, history: History, now: int
    ) -> None:
        self.sent: list[Production] = []
        taken = None if history.keeps else self.sent
        self._worker = Worker(process, (pipeline,), OPTIONS, history, taken=taken)
        self._mediator = mediator
        self._history = history
        self._now = now
        self._requests: list[m.Request] = []
        self._to_ack: dict[str, list[str]] = {}

    def tell(self, event: Event) -> None:
        """Pass an event to the worker; its requests wait until `settle`."""
        for effect in self._worker.handle(self._now, event):
            if isinstance(effect, Halt):
                raise effect.error
            if isinstance(effect, Send):
                self._carry(effect)

    def _carry(self, effect: Send) -> None:
        message = effect.message
        if isinstance(message, m.Deliver):
            production = message.production
            self.sent.append(production)
            if production.consumer == OUTSIDE:  # it counts when the batch is committed
                self._history.record(Output(self._history.at_us, OUTSIDE_ADDRESS, production))
            self._to_ack.setdefault(production.consumer, []).append(production.record_id)
        elif effect.to == m.STORE:
            self._requests.append(message)  # type: ignore[arg-type]  # only requests go to the store

    def settle(self) -> None:
        """Answer the worker's requests until there are no more."""
        for _ in range(_PATIENCE):
            if not self._requests and not self._to_ack:
                return
            acks, self._to_ack = self._to_ack, {}
            for consumer, record_ids in acks.items():
                self.tell(m.Ack(consumer, tuple(record_ids)))
            requests, self._requests = self._requests, []
            for request in requests:
                self.tell(self._mediator.handle(request))
        raise AssertionError("a key interval keeps sending requests")

    def next_in_order(self) -> int:
        """Return the event time to which the watermark has come with records in order, microseconds; `MAX_TIME`: none is left."""
        return min([interval.soft.next_in_order() for interval in self._worker.intervals])

    def finish(self) -> None:
        """Fire due wall timers, retry failed user code, and forget old ids."""
        for _ in range(_PATIENCE):
            self.tell(Wake())
            self.settle()
            if not self._worker.unfinished:
                break
            self._now += OPTIONS.sweep_period_us
        for interval in self._worker.intervals:
            interval.collect_ids(self._now)
        self.tell(Wake())  # requests made outside an event leave with the next one
        self.settle()
