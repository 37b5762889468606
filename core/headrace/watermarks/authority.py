"""The watermark authority (MillWheel 4.5, 7.2): combines what owners and injectors report, journals it, tells everybody.

Rules of this file:

* It only combines: the minimum over a computation's intervals, or over an injector's expected processes. The minimum over
  a computation's inputs is its owners' business, who know what they hold.
* It broadcasts nothing but what the store has accepted, together with the reports that it rests on. The store accepts them
  all or none: a report by somebody who had been replaced is forgotten, and the rest is journaled at the next turn.
* Values only rise, also across restarts: a new holder begins with the journal, and takes it for every interval's last
  known value.
* Standbys listen to reports as well, to be up to date when they take over; what they have heard must pass the store first.
* It looks for progress, and journals it, at whole broadcast periods, and only if a report has brought any since it last looked.

Choice: broadcasts may be lost, so that all values are sent again after eight periods without a change, and to whoever reports
for the first time.
Choice: percentiles need the pending work of all that is upstream in one place, and so an authority of one shard.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.api.errors import OptionsError
from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.deadlines import QUIET_PERIODS, Deadline
from headrace.dispatch import Transition
from headrace.history import History, Published
from headrace.rules import RULES, Rules
from headrace.store.election import Standing
from headrace.store.mediator import authority_role
from headrace.store.replica import Replica, Transitions, transitions_of
from headrace.watermarks.interval_map import (
    IntervalMap,
    Unconfirmed,
    interval_of_process,
    process_of_interval,
)
from headrace.watermarks.percentile import percentile_watermark
from headrace.wire import messages as m
from headrace.wire.effects import Send, Wake


@dataclass(slots=True, eq=False)
class _Known:
    """What is known of one computation or injector.

    Attributes:
        name: of the computation or injector.
        processes: how many an injector has; 0: it is a computation.
        wanted: percentiles that its consumers want.
        upstream: it and all that feed it, if a percentile is wanted.
        map: progress by interval, or by process.
        frontiers: of the injector's processes (5.2).
        published: accepted by the store.
    """

    name: str
    processes: int
    wanted: Sequence[float]
    upstream: Sequence[str]
    map: IntervalMap
    frontiers: dict[int, int]
    published: m.Progress = field(default_factory=m.Progress)


@dataclass(frozen=True, slots=True)
class _Journaling:
    """A journal entry under way, with the values that it rests on."""

    request: m.JournalWatermarks
    unconfirmed: Sequence[tuple[_Known, Unconfirmed]]


class WatermarkAuthority(Replica):
    """One replica of one shard of the authority.

    Args:
        shard: which computations and injectors it has (`EngineOptions.shard_of`).
        topologies: the deployed pipeline versions; it serves the names of all. The others are those of a `Replica`.

    Raises:
        OptionsError: a percentile is wanted of an authority of several shards.

    Attributes:
        map_class: of what it knows of each name's intervals, or processes.
        shard: the number of its shard.
        injectors: the names that are injectors'.
    """

    map_class: ClassVar[type[IntervalMap]] = IntervalMap

    def __init__(
        self,
        address: str,
        shard: int,
        topologies: Sequence[Pipeline],
        options: EngineOptions,
        history: History,
        rules: Rules = RULES,
    ) -> None:
        self._role = authority_role(shard)
        super().__init__(self._role, address, options, history, rules)
        self.shard = shard
        self._look_due = Deadline(options.broadcast_period_us)
        self._again_due = Deadline(QUIET_PERIODS * options.broadcast_period_us)
        self._waiters += [self._look_due, self._again_due]
        self._known = {
            known.name: known
            for known in _names(topologies, options, self.map_class, rules)
            if options.shard_of(known.name) == shard
        }
        self.injectors = frozenset(known.name for known in self._known.values() if known.processes)
        self._measures_percentiles = any(known.wanted for known in self._known.values())
        self._listeners = dict.fromkeys(
            address
            for pipeline in topologies
            for injector in pipeline.injectors.values()
            for address in injector.addresses()
        )
        self._forget()

    def _forget(self) -> None:
        """Drop all that only the active replica may know."""
        self._journaling: _Journaling | None = None
        self._store.forget(self)
        self._has_news = False
        for known in self._known.values():
            known.published = m.Progress()

    @property
    def names(self) -> tuple[str, ...]:
        """The computations and injectors whose watermarks it publishes."""
        return tuple(self._known)

    def counts_work(self, name: str) -> bool:
        """Return whether it counts anything pending of a computation or an injector."""
        return any(self._known[name].map.pending())

    # Reports

    def _on_report(self, now: int, report: m.Report) -> None:
        for interval in report.intervals:
            known = self._known.get(interval.computation)
            if known is not None and not known.processes:
                known.map.update(
                    interval.interval,
                    interval.sequencer,
                    interval.low_watermark,
                    interval.horizon,
                    interval.pending,
                )
                self._note_news(now, known)
        if report.sender not in self._listeners:
            self._listeners[report.sender] = None
            self._tell([report.sender])

    def _on_injector_report(self, now: int, report: m.InjectorReport) -> None:
        known = self._known.get(report.injector)
        if known is not None and report.process < known.processes:
            place = interval_of_process(report.process, known.processes)
            counts = known.map.update(
                place, report.epoch, report.low_watermark, report.horizon, report.pending
            )
            if counts:
                known.frontiers[report.process] = report.frontier
            self._note_news(now, known)

    def _note_news(self, now: int, known: _Known) -> None:
        """Look for progress at the next whole period, if a report may have brought some."""
        if self._has_news or not self.is_active:
            return
        if self._measures_percentiles or self.progress(known.name) is not known.published:
            self._look_soon(now)
            self._ask_to_wake()

    def _look_soon(self, now: int) -> None:
        self._has_news = True
        self._look_due.begin_on_time(now)

    # Being the active one

    def _take_over(self, now: int, claimed: m.Claimed) -> None:
        """Broadcast again what the former holder may not have broadcast, and go on from there."""
        journaled = dict(claimed.contents)
        for known in self._known.values():
            known.published = journaled.get(known.name, m.Progress())
            known.map.start_from(known.published.low_watermark, known.published.horizon)
        if claimed.contents:
            self._record(Published, claimed.contents)
        self._look_due.begin(now)
        self._again_due.begin(now)
        self._tell(sorted(self._listeners))
        self._publish(now)

    def _on_wake(self, now: int, _event: Wake) -> None:
        self._wakes.came(now)
        self._election.tick(now)
        self._store.sweep(now)
        if self.is_active:
            if self._has_news and self._journaling is None and self._look_due.is_due(now):
                self._publish(now)
            if self._again_due.is_due(now):
                self._again_due.begin(now)
                self._tell(sorted(self._listeners))
        self._ask_to_wake()

    def _next_turn(self) -> int:
        return self._look_due.due_us if self._has_news and self._journaling is None else MAX_TIME

    def _publish(self, now: int) -> None:
        """Journal what has risen."""
        self._has_news = False
        risen = [
            (known, progress)
            for known in self._known.values()
            if (progress := self.progress(known.name)) != known.published
        ]
        if not risen:
            return
        values = tuple((known.name, progress) for known, progress in risen)
        if not self._rules.journals_first():
            self._broadcast(now, values)
            return
        unconfirmed = [(known, known.map.unconfirmed()) for known, _ in risen]
        request = m.JournalWatermarks(
            self._store.number(),
            self._role,
            self._election.epoch,
            values,
            tuple(dict.fromkeys(_reporters(unconfirmed))),
        )
        self._journaling = _Journaling(request, unconfirmed)
        self._store.ask(now, request, self._on_journaled, self)

    # Combining

    def progress(self, name: str) -> m.Progress:
        """Return what is known of a name now, whether or not the store has accepted it."""
        known = self._known[name]
        published, low_watermark, horizon = known.published, known.map.low_watermark, known.map.horizon
        if low_watermark == published.low_watermark and horizon == published.horizon and not known.wanted:
            return published
        percentiles = published.percentiles
        if known.wanted:
            percentiles = self._percentiles(known, max(low_watermark, published.low_watermark))
        return self._rules.merged(published, m.Progress(low_watermark, horizon, percentiles))

    @property
    def is_journaling(self) -> bool:
        """Whether the store has yet to answer what it was asked to journal: it may have done so."""
        return self._journaling is not None

    def published(self, name: str) -> m.Progress:
        """Return what the store has accepted of a name, as far as this replica knows; nothing on a standby."""
        return self._known[name].published

    def map_of(self, name: str) -> IntervalMap:
        """Return what is known of a computation's intervals, or of the processes of an injector."""
        return self._known[name].map

    def _percentiles(self, known: _Known, low_watermark: int) -> tuple[tuple[float, int], ...]:
        """Return the percentiles that are wanted of a name; none before its low watermark is known.

        Then all that is upstream of it in the topology in force has been published: what has not is of another one. Of
        what has, each interval must have been heard of, lest its pending work be overlooked.
        """
        if low_watermark == MIN_TIME:
            return ()
        upstream = [self._known[name] for name in known.upstream]
        upstream = [entry for entry in upstream if entry is known or entry.published.low_watermark > MIN_TIME]
        frontier, pending = MIN_TIME, list[tuple[int, int]]()
        if all(entry.map.is_complete for entry in upstream):
            frontier = min(
                (frontier_us for entry in upstream for frontier_us in entry.frontiers.values()),
                default=MIN_TIME,
            )
            pending = [bucket for entry in upstream for bucket in entry.map.pending()]
        before = dict(known.published.percentiles)
        return tuple(
            (
                percent,
                percentile_watermark(
                    percent, before.get(percent, MIN_TIME), low_watermark, frontier, pending, self._rules
                ),
            )
            for percent in known.wanted
        )

    # The store's answers

    def _on_journaled(self, now: int, reply: m.Reply) -> None:
        journaling = self._journaling
        assert journaling is not None
        if isinstance(reply, m.Refused):
            self._election.refused(now)
            return
        assert isinstance(reply, m.Journaled)
        self._journaling = None
        self._election.renewed(self._store.asked_us)
        if reply.stale:
            self._disown(reply.stale)
            self._look_soon(now)
        else:
            for known, unconfirmed in journaling.unconfirmed:
                known.map.confirm(unconfirmed)
            self._broadcast(now, journaling.request.values)

    def _disown(self, stale: Sequence[m.Reporter]) -> None:
        """Drop reports of which nothing was journaled: they came from owners that had been replaced (7.2)."""
        for reporter in stale:
            match reporter:
                case m.IntervalReporter():
                    self._known[reporter.computation].map.disown(reporter.sequencer)
                case m.ProcessReporter():
                    known = self._known[reporter.injector]
                    place = interval_of_process(reporter.process, known.processes)
                    known.map.disown(reporter.epoch, place)

    def _broadcast(self, now: int, risen: tuple[tuple[str, m.Progress], ...]) -> None:
        for name, progress in risen:
            self._known[name].published = progress
        self._record(Published, risen)
        self._again_due.begin(now)
        self._tell(sorted(self._listeners))

    def _tell(self, listeners: Sequence[str]) -> None:
        """Broadcast all values that the store has accepted (7.2); a standby knows of none."""
        nothing = m.Progress()
        values = [
            (known.name, known.published) for known in self._known.values() if known.published != nothing
        ]
        if values:
            message = m.Watermarks(self.shard, tuple(values))
            self._effects += [Send(listener, message) for listener in listeners]

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        super().check_invariants()
        due_us = [self._election.next_due(), self._store.next_due()]
        due_us += [self._look_due.due_us] if self._has_news and self._journaling is None else []
        first_us = max(min(due_us), self._now + 1)
        assert self._wakes.next_us <= first_us or self._election.standing is Standing.NEW, (
            f"{self.address} would wake too late"
        )
        assert self._journaling is None or self._journaling.request.epoch == self._election.epoch
        for known in self._known.values():
            known.map.check_invariants()
            assert self.is_active or known.published == m.Progress()
            if self.is_active:
                low = min(entry.confirmed_low_watermark for entry in known.map.entries())
                assert low <= known.published.low_watermark, (
                    f"{known.name}: {low} was confirmed and not journaled"
                )
        for deadline in (self._look_due, self._again_due) if self.is_active else ():
            deadline.check_invariants(self._now)


def _reporters(unconfirmed: Sequence[tuple[_Known, Unconfirmed]]) -> Iterator[m.Reporter]:
    """Iterate over those who reported these values."""
    for known, values in unconfirmed:
        for interval, fence in values.reporters:
            if known.processes:
                yield m.ProcessReporter(known.name, process_of_interval(interval), fence)
            else:
                yield m.IntervalReporter(known.name, fence)


def _names(
    topologies: Sequence[Pipeline], options: EngineOptions, map_class: type[IntervalMap], rules: Rules
) -> Iterator[_Known]:
    """Iterate over what the authority serves, sorted by name."""
    processes: dict[str, int] = {}
    wanted: dict[str, set[float]] = {}
    upstream: dict[str, set[str]] = {}
    for pipeline in topologies:
        for injector in pipeline.injectors.values():
            processes[injector.name] = max(injector.processes, processes.get(injector.name, 0))
        for spec in pipeline.computations.values():
            processes.setdefault(spec.name, 0)
            for sender in pipeline.senders(spec.name) if spec.watermark_percentile < 100 else ():
                wanted.setdefault(sender, set()).add(spec.watermark_percentile)
                upstream.setdefault(sender, {sender}).update(pipeline.upstream(sender))
    if wanted and options.authority_shards > 1:
        raise OptionsError(
            "authority_shards", options.authority_shards, "1, as a computation wants a percentile watermark"
        )
    for name in sorted(processes):
        wants, feeders = sorted(wanted.get(name, ())), sorted(upstream.get(name, ()))
        frontiers = dict.fromkeys(range(processes[name]), MIN_TIME)
        yield _Known(name, processes[name], wants, feeders, map_class(rules), frontiers)


# The states and their inputs


def _transitions() -> Transitions:
    own = WatermarkAuthority
    table: dict[tuple[Standing, type], Transition[Standing]] = {}
    for state in (Standing.STANDBY, Standing.ACTIVE):
        table[state, Wake] = Transition(own._on_wake, (state,))
        table[state, m.Report] = Transition(own._on_report, (state,))
        table[state, m.InjectorReport] = Transition(own._on_injector_report, (state,))
    return transitions_of(own, (m.Journaled,), table)


WatermarkAuthority.transitions = _transitions()
