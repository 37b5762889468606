"""The authority combines what the owners have computed, and nothing else (MillWheel 7.2)."""

from dataclasses import dataclass

from headrace import MIN_TIME, KeyInterval, format_time
from headrace.history import Event, InjectorReported, IntervalMinted, Published, Reported
from headrace_properties.checkers.checker import Handlers, OpenVerdict
from headrace_properties.checkers.ledger import WorkLedger
from headrace_properties.verdict import Unknown, Verdict


@dataclass(slots=True, eq=False)
class _ReportedKeys:
    """Some keys, and the greatest values that their present and former owners have reported."""

    mint: IntervalMinted
    interval: KeyInterval
    low_us: int
    horizon: int
    is_live: bool = True

    def without(self, interval: KeyInterval) -> list["_ReportedKeys"]:
        """Return what is known of its keys outside an interval that another process owns now; they keep their last value."""
        self.is_live = False
        low, high = self.interval.low, self.interval.high
        parts = [KeyInterval(low, interval.low)] if low < interval.low else []
        if interval.high is not None and (high is None or interval.high < high):
            parts.append(KeyInterval(interval.high, high))
        return [_ReportedKeys(self.mint, part, self.low_us, self.horizon) for part in parts]


class WithinReports:
    """S12: what is broadcast of a computation is at most what the owners of each of its intervals have computed.

    An interval whose owner has said nothing has the last value of the owners before it; one of which nobody has said
    anything is at minus infinity. What a zombie reports after it was replaced is not counted. An injector's processes are
    its intervals, and report no more than their sources said.
    """

    name = "S12"
    title = "the authority says no more than the owners"
    section = "7.2"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._injectors = ledger.topology.injectors
        self._computations = ledger.topology.computations
        self._verdict = OpenVerdict("nothing was broadcast")
        self._ahead = OpenVerdict()
        self._known: dict[str, list[_ReportedKeys]] = {}
        self._by_sequencer: dict[int, _ReportedKeys] = {}
        self._processes: dict[str, tuple[int, int]] = {}
        self._said: dict[str, tuple[int, int]] = {}
        self._reports = 0
        self.handlers: Handlers = {
            IntervalMinted: self._on_minted,
            Reported: self._on_reported,
            InjectorReported: self._on_injector,
            Published: self._on_published,
        }

    def _on_minted(self, event: IntervalMinted) -> None:
        known, before = [], []
        for keys in self._known.get(event.computation, ()):
            if keys.interval.overlaps(event.interval):
                before.append(keys)
                known += keys.without(event.interval)
            else:
                known.append(keys)
        low_us = min((keys.low_us for keys in before), default=MIN_TIME)
        horizon = min((keys.horizon for keys in before), default=MIN_TIME)
        new = self._by_sequencer[event.sequencer] = _ReportedKeys(event, event.interval, low_us, horizon)
        self._known[event.computation] = [*known, new]

    def _on_reported(self, event: Reported) -> None:
        self._reports += 1
        known = self._by_sequencer.get(event.sequencer)
        if known is not None and known.is_live:
            known.low_us = max(known.low_us, event.low_watermark)
            known.horizon = max(known.horizon, event.horizon)

    def _on_injector(self, event: InjectorReported) -> None:
        source = self._ledger.sources.get(event.process)
        if source is not None and event.low_watermark > source.low_us:
            self._ahead.violated(
                f"{event.process} reported the low watermark {format_time(event.low_watermark)} at {format_time(event.at_us)},"
                f" and its source had not said more than {format_time(source.low_us)} (MillWheel 4.5, 5.2)",
                event,
            )
        low_us, horizon = self._processes.get(event.process, (MIN_TIME, MIN_TIME))
        self._processes[event.process] = (max(low_us, event.low_watermark), max(horizon, event.horizon))

    def _on_published(self, event: Published) -> None:
        said = self._said
        for name, progress in event.values:
            low_us, horizon = said.get(name, (MIN_TIME, MIN_TIME))
            if progress.low_watermark <= low_us and progress.horizon <= horizon:
                continue
            said[name] = (max(low_us, progress.low_watermark), max(horizon, progress.horizon))
            self._verdict.reached += 1
            if name in self._injectors:
                self._check_injector(event, name, progress.low_watermark, progress.horizon)
            elif name in self._computations:
                self._check(event, name, progress.low_watermark, progress.horizon)

    def _check(self, event: Published, name: str, low_us: int, horizon: int) -> None:
        known = self._known.get(name, ())
        if not known:
            self._broken(event, name, "it has no owner")
        for keys in known:
            if low_us > keys.low_us:
                self._broken(event, name, _exceeds("low watermark", low_us, keys, keys.low_us), keys.mint)
            elif horizon > keys.horizon:
                self._broken(event, name, _exceeds("horizon", horizon, keys, keys.horizon), keys.mint)

    def _check_injector(self, event: Published, name: str, low_us: int, horizon: int) -> None:
        for address in self._injectors[name].addresses():
            reported_us, reported_horizon = self._processes.get(address, (MIN_TIME, MIN_TIME))
            if low_us > reported_us or horizon > reported_horizon:
                self._broken(event, name, f"{address} had not reported so much")

    def _broken(self, event: Published, name: str, what: str, *witness: Event) -> None:
        text = f"{event.process} broadcast the progress of {name!r} at {format_time(event.at_us)}, and {what}"
        self._verdict.violated(f"{text} (MillWheel 7.2)", *witness, event)

    def verdict(self) -> Verdict:
        """Return the verdict so far; a host whose owners report nothing has no authority to judge."""
        if self._ahead.violation is not None:
            return self._ahead.violation
        if not self._reports:
            return Unknown("no owner reported its progress")
        return self._verdict.verdict()


def _exceeds(kind: str, value: int, known: _ReportedKeys, reported: int) -> str:
    return f"its {kind}, {format_time(value)}, exceeds what was known of {known.interval}, {format_time(reported)}"
