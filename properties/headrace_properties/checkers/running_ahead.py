"""How far ahead of the slowest computation work may run: the skew limit and percentile watermarks (MillWheel 7.2, 8.4)."""

from fractions import Fraction

from headrace import MIN_TIME, SECOND, format_time
from headrace.history import (
    AckSent,
    Applied,
    Event,
    Injected,
    Output,
    ProcessStarted,
    Published,
    SourceHeld,
    VersionAdopted,
)
from headrace.wire.effects import SourceRecord
from headrace_properties.checkers.checker import Handlers, OpenVerdict, Sampling
from headrace_properties.checkers.ledger import WorkLedger
from headrace_properties.checkers.liveness_due import SETTLE_US, Calm
from headrace_properties.checkers.work import WorkItem

_DELAYED_US = 4 * SECOND
"""Choice: the longest that a fault may delay a message, microseconds. Drawn plans never delay one longer."""


class SkewLimit:
    """S18: a record is not injected as long as it is ahead of the slowest low watermark by more than the skew limit.

    Late records never wait. As long as nothing is known of a computation, it is the slowest.
    """

    name = "S18"
    title = "no record passes the skew limit"
    section = "8.4"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._topology = ledger.topology
        self._adopted: dict[str, int] = {}
        self._verdict = OpenVerdict("no record was injected under a skew limit")
        self.verdict = self._verdict.verdict
        self.handlers: Handlers = {
            Injected: self._on_injected,
            VersionAdopted: self._on_adopted,
            ProcessStarted: self._on_started,
        }

    def _on_adopted(self, event: VersionAdopted) -> None:
        self._adopted[event.process] = event.version

    def _on_started(self, event: ProcessStarted) -> None:
        self._adopted.pop(event.process, None)

    def _on_injected(self, event: Injected) -> None:
        limit_us = self._topology.injectors[event.process.partition("/")[0]].skew_limit_us
        if limit_us is None:
            return
        timestamp = min(production.timestamp for production in event.productions)
        if timestamp < event.source_watermark:
            return
        self._verdict.reached += 1
        published = self._ledger.published
        names = self._topology.versions[self._adopted.get(event.process, 0)].computations
        slowest = min(names, key=lambda name: published.get(name, MIN_TIME))
        low_us = published.get(slowest, MIN_TIME)
        if timestamp > low_us + limit_us:
            self._verdict.violated(
                f"{event.process} injected the record at offset {event.offset}, with timestamp {format_time(timestamp)}, at"
                f" {format_time(event.at_us)}; the low watermark of {slowest!r} was {format_time(low_us)}, and the limit is"
                f" {format_time(limit_us)} (MillWheel 8.4)",
                event,
            )


class PercentileOracle:
    """S19: a percentile watermark passes no more pending work than its share of outliers, and is not behind the low watermark.

    It is exercised when it is ahead of the low watermark: otherwise it says no more than that.
    Counted by origins, as what an outlier leads to is an outlier, too. The authority knows of work by reports: what is newer than
    `SETTLE_US` is not held against it, nor anything that it says while faults strike, which may lose them, or while a report
    that a fault kept back may still come, which names work long done. Reports may name a record twice, as its sender has it until
    the ACK and its consumer from the delivery on. Once a source has given a late record, nothing is judged: the percentile may
    have passed it before anybody knew of it.
    """

    name = "S19"
    title = "percentile watermarks pass outliers only"
    section = "7.2"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._calm = Calm()
        self._upstream = ledger.topology.upstream
        self._verdict = OpenVerdict("no percentile watermark ahead of the low watermark was broadcast")
        sampling = Sampling(self._verdict)
        self.verdict = sampling.verdict
        self._said: dict[tuple[str, float], int] = {}
        self._feeders = frozenset(
            sender
            for name in ledger.topology.percentile
            for feeder in ledger.topology.senders[name]
            for sender in self._upstream[feeder]
        )
        self._most: dict[str, tuple[int, int, int]] = {}
        self._late = False
        self.handlers: Handlers = {
            **sampling.handlers,
            **self._calm.handlers,
            SourceHeld: self._on_held,
            Published: self._on_published,
            **dict.fromkeys((Injected, Applied, AckSent, Output), self._count),
        }

    def _count(self, event: Event) -> None:
        """Remember the maximum of pending work by sender, in this period and the previous one."""
        period = event.at_us // SETTLE_US
        for sender in self._feeders:
            pending = self._ledger.work.holding(sender)
            last, most, before = self._most.get(sender, (period, 0, 0))
            if period != last:
                most, before = 0, max(pending, most if period == last + 1 else 0)
            self._most[sender] = (period, max(pending, most), before)

    def _on_held(self, event: SourceHeld) -> None:
        source = self._ledger.sources.get(event.process)
        what = event.what
        if source is not None and isinstance(what, SourceRecord) and what.timestamp < source.low_us:
            self._late = True

    def _on_published(self, event: Published) -> None:
        self._count(event)
        for name, progress in event.values:
            for percent, low_us in progress.percentiles:
                if low_us < progress.low_watermark:
                    self._verdict.violated(
                        f"the {percent:g} % watermark of {name!r} was broadcast as {format_time(low_us)} at"
                        f" {format_time(event.at_us)}, behind its low watermark, {format_time(progress.low_watermark)}"
                        " (MillWheel 7.2)",
                        event,
                    )
                if low_us > self._said.get((name, percent), MIN_TIME):
                    self._said[name, percent] = low_us
                    self._judge(event, name, percent, low_us, is_ahead=low_us > progress.low_watermark)

    def _judge(self, event: Published, name: str, percent: float, low_us: int, *, is_ahead: bool) -> None:
        work, known_us = self._ledger.work, event.at_us - SETTLE_US
        passed: list[WorkItem] = []
        pending = 0
        for sender in self._upstream[name]:
            if work.oldest(sender) < low_us:
                passed += [item for item in work.before(sender, low_us) if item.source.at_us <= known_us]
            known_twice = sender != name  # its consumers are among those that count
            pending += max(self._most[sender][1:]) * (1 + known_twice)
        delayed_us = _DELAYED_US if self._calm.delayed else 0
        if self._late or not self._calm.lasts(SETTLE_US + delayed_us, event.at_us):
            return
        self._verdict.reached += is_ahead
        share = int((100 - Fraction(str(percent))) * pending / 100)
        if len({item.origin for item in passed}) > share:
            oldest = min(passed, key=lambda sample: sample.time_us)
            self._verdict.violated(
                f"the {percent:g} % watermark of {name!r} was broadcast as {format_time(low_us)} at {format_time(event.at_us)},"
                f" while {oldest} was pending, of {len(passed)} that it passed; {share} of {pending} may be outliers"
                " (MillWheel 7.2)",
                oldest.source,
                event,
            )
