"""Low watermarks and horizons reflect all pending work, never go back, and keep up (MillWheel 4.5, 7.2).

The oracle is the `WorkLedger`: what is durable or accepted and not done, whatever processes believe.
"""

from operator import attrgetter

from headrace import MIN_TIME, format_time
from headrace.history import (
    Event,
    InjectorReported,
    InputWatermarkAdvanced,
    IntervalMinted,
    Published,
    RoleClaimed,
    RunEnded,
)
from headrace.wire.messages import Progress
from headrace.wire.rows import Production
from headrace_properties.checkers.checker import Handlers, OpenVerdict, Sampling
from headrace_properties.checkers.ledger import WorkLedger
from headrace_properties.checkers.liveness_due import GRACE_US, Calm, left
from headrace_properties.checkers.topology_union import TopologyUnion
from headrace_properties.checkers.work import WorkItem
from headrace_properties.verdict import Awaited, AwaitedKind


class LowWatermarkOracle:
    """S10: no low watermark is broadcast, or acted upon, that has passed pending work which is not late."""

    name = "S10"
    title = "low watermarks reflect all pending work"
    section = "4.5, 7.2"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._topology = ledger.topology
        self._verdict = OpenVerdict("no low watermark was broadcast")
        sampling = Sampling(self._verdict)
        self.verdict = sampling.verdict
        self.handlers: Handlers = {
            **sampling.handlers,
            Published: self._on_published,
            InputWatermarkAdvanced: self._on_input,
        }

    def _on_published(self, event: Published) -> None:
        published, upstream = self._ledger.published, self._topology.upstream
        for name, progress in event.values:
            low_us = progress.low_watermark
            if low_us > published.get(name, MIN_TIME) and name in upstream:
                self._verdict.reached += 1
                oldest = self._ledger.work.oldest
                for sender in upstream[name]:
                    if oldest(sender) < low_us:
                        what = f"the low watermark of {name!r} was broadcast as {format_time(low_us)}"
                        self._accuse(event, name, low_us, sender, what)

    def _on_input(self, event: InputWatermarkAdvanced) -> None:
        """A worker may act on a newer value than the last broadcast: a recovery scan returns what is journaled.

        It promises only what this computation may still receive: records on their way to computations that do not feed it
        may be pending. (A host that moves whole batches knows this of each edge of the graph; a broadcast says it of all.)
        """
        name, low_us = event.computation, event.low_watermark
        topology, ledger = self._topology, self._ledger
        if (
            name in topology.percentile
            or name not in topology.senders
            or low_us <= ledger.published_input(name)
        ):
            return
        oldest = ledger.work.oldest
        for sender in topology.upstream[name][1:]:
            if oldest(sender) < low_us:
                what = f"{event.process} took {format_time(low_us)} for the input watermark of {name!r}"
                self._accuse(event, name, low_us, sender, what, receivers=topology.upstream[name])

    def _accuse(
        self,
        event: Event,
        name: str,
        low_us: int,
        sender: str,
        what: str,
        receivers: tuple[str, ...] | None = None,
    ) -> None:
        """``receivers``: count only productions to these; ``None``: to all."""
        for work in self._ledger.work.before(sender, low_us):
            if (
                receivers is not None
                and isinstance(work.what, Production)
                and work.what.consumer not in receivers
            ):
                continue
            if self._topology.changes and self._ledger.passed_before(name, work.time_us, work):
                continue  # A computation that joins a running topology behind it is late for it.
            self._verdict.violated(
                f"{what} at {format_time(event.at_us)}, while {work}, there since {format_time(work.source.at_us)}, was pending"
                " (MillWheel 4.5, 6.2)",
                work.source,
                event,
            )
            return


class HorizonOracle:
    """S10-horizon: no horizon is broadcast that has passed the origin of an unfinished record, late ones included.

    What lies behind a horizon is refused as a remnant: a horizon that is too far loses records.
    """

    name = "S10-horizon"
    title = "horizons reflect all unfinished records"
    section = "6.1.1"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._upstream = ledger.topology.upstream
        self._verdict = OpenVerdict("no horizon was broadcast")
        sampling = Sampling(self._verdict)
        self.verdict = sampling.verdict
        self.handlers: Handlers = {**sampling.handlers, Published: self._on_published}

    def _on_published(self, event: Published) -> None:
        published = self._ledger.published_horizon
        for name, progress in event.values:
            horizon = progress.horizon
            if horizon > published.get(name, MIN_TIME) and name in self._upstream:
                self._verdict.reached += 1
                oldest = self._ledger.work.oldest_origin
                for sender in self._upstream[name]:
                    if oldest(sender) < horizon:
                        self._accuse(
                            event, name, horizon, self._ledger.work.before_origin(sender, horizon)[0]
                        )

    def _accuse(self, event: Published, name: str, horizon: int, work: WorkItem) -> None:
        self._verdict.violated(
            f"the horizon of {name!r} was broadcast as {format_time(horizon)} at {format_time(event.at_us)}, while {work}, with"
            f" origin {format_time(work.origin)}, there since {format_time(work.source.at_us)}, was unfinished (MillWheel 6.1.1)",
            work.source,
            event,
        )


class Monotone:
    """S11: no watermark and no horizon goes back, for any observer, across restarts.

    An authority that has been replaced may still say what it had journaled before: everybody takes the greater value. So
    each is held to what it said itself, and to all that had been said when it claimed its role. What any owner has acted upon
    was journaled before; so whoever owns the same keys later begins with no less, as the scan brings it (7.2).

    Args:
        topology: what was deployed.
    """

    name = "S11"
    title = "watermarks never go back"
    section = "4.5"

    def __init__(self, topology: TopologyUnion) -> None:
        self._verdict = OpenVerdict("no watermark was reported")
        self.verdict = self._verdict.verdict
        self._mints: dict[str, list[IntervalMinted]] = {}
        self._acted: dict[int, InputWatermarkAdvanced] = {}
        self._inherited: dict[int, InputWatermarkAdvanced] = {}
        self._said: dict[str, tuple[Progress, Event]] = {}
        self._floors: dict[str, dict[str, tuple[Progress, Event]]] = {}
        self._inputs: dict[tuple[str, str, int], InputWatermarkAdvanced] = {}
        self._reports: dict[str, InjectorReported] = {}
        self.handlers: Handlers = {
            Published: self._on_published,
            RoleClaimed: self._on_claimed,
            InputWatermarkAdvanced: self._on_input,
            InjectorReported: self._on_report,
        }
        if not topology.changes:  # a sender that joins may be behind
            self.handlers = {**self.handlers, IntervalMinted: self._on_minted}

    def _on_minted(self, event: IntervalMinted) -> None:
        mints = self._mints.setdefault(event.computation, [])
        acted = [
            self._acted[mint.sequencer]
            for mint in mints
            if mint.sequencer in self._acted and mint.interval.overlaps(event.interval)
        ]
        mints.append(event)
        if acted:
            self._inherited[event.sequencer] = max(acted, key=attrgetter("low_watermark"))

    def _on_claimed(self, event: RoleClaimed) -> None:
        if event.role.startswith("authority"):
            self._floors[event.holder.partition("#")[0]] = dict(self._said)

    def _on_published(self, event: Published) -> None:
        floor = self._floors.get(event.process, self._said)
        for name, progress in event.values:
            self._verdict.reached += 1
            known = floor.get(name)
            if known is not None:
                self._compare(
                    f"{event.process} broadcast the progress of {name!r}", known[0], progress, known[1], event
                )
            floor[name] = (progress, event)
            said = self._said.get(name)
            self._said[name] = (progress if said is None else said[0].at_least(progress), event)

    def _compare(self, what: str, before: Progress, now: Progress, earlier: Event, event: Event) -> None:
        after = dict(now.percentiles)
        for kind, old, new in (
            ("low watermark", before.low_watermark, now.low_watermark),
            ("horizon", before.horizon, now.horizon),
            *[
                (f"{percent:g} % watermark", old, after.get(percent, old))
                for percent, old in before.percentiles
            ],
        ):
            if new < old:
                self._verdict.violated(
                    f"{what} at {format_time(event.at_us)} with a {kind} of {format_time(new)}, after {format_time(old)} at"
                    f" {format_time(earlier.at_us)} (MillWheel 4.5)",
                    earlier,
                    event,
                )

    def _on_input(self, event: InputWatermarkAdvanced) -> None:
        self._verdict.reached += 1
        observer = (event.process, event.computation, event.sequencer)
        before = self._inputs.get(observer) or self._inherited.get(event.sequencer)
        self._inputs[observer] = event
        self._acted[event.sequencer] = event
        if before is not None and event.low_watermark < before.low_watermark:
            now, old = Progress(event.low_watermark), Progress(before.low_watermark)
            self._compare(f"{event.process} took the input of {event.computation!r}", old, now, before, event)

    def _on_report(self, event: InjectorReported) -> None:
        self._verdict.reached += 1
        before = self._reports.get(event.process)
        self._reports[event.process] = event
        if before is not None and (
            event.low_watermark < before.low_watermark or event.horizon < before.horizon
        ):
            now, old = (
                Progress(event.low_watermark, event.horizon),
                Progress(before.low_watermark, before.horizon),
            )
            self._compare(f"injector {event.process} reported", old, now, before, event)


class WatermarkArrives:
    """L4: once faults have stopped, every low watermark reaches that of the sources upstream.

    Where the host does not tell what the sources hold, it reaches what the injectors reported.
    """

    name = "L4"
    title = "low watermarks reach the sources'"
    section = "4.5"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._verdict = OpenVerdict()
        self.verdict = self._verdict.verdict
        self._calm = Calm()
        self._reports: dict[str, list[InjectorReported]] = {}
        self.handlers: Handlers = {
            **self._calm.handlers,
            InjectorReported: self._on_report,
            RunEnded: self._on_end,
        }

    def _on_report(self, event: InjectorReported) -> None:
        self._reports.setdefault(event.process, []).append(event)

    def _on_end(self, event: RunEnded) -> None:
        if not self._calm.is_due(event, self._ledger, self._verdict):
            return
        self._verdict.unreached = "no source and no injector had a low watermark"
        until_us = event.at_us - (0 if event.why == "quiescent" else GRACE_US)
        topology = self._ledger.topology
        for name in topology.computations:
            if not self._ledger.is_present(name):
                continue
            addresses = topology.sources[name]
            aim_us = min((self._aim(address, until_us) for address in addresses), default=MIN_TIME)
            if aim_us > MIN_TIME:
                self._verdict.reached += 1
                self._check(event, name, aim_us)

    def _aim(self, address: str, until_us: int) -> int:
        source = self._ledger.sources.get(address)
        if source is not None:
            return source.low_at(until_us)
        reports = self._reports.get(address, [])
        return max((report.low_watermark for report in reports if report.at_us <= until_us), default=MIN_TIME)

    def _check(self, event: RunEnded, name: str, aim_us: int) -> None:
        reached_us = self._ledger.published.get(name, MIN_TIME)
        if reached_us >= aim_us:
            return
        ledger = self._ledger
        pending = [
            work for sender in ledger.topology.upstream[name] for work in ledger.work.before(sender, aim_us)
        ]
        oldest = min(pending, key=attrgetter("time_us"), default=None)
        blame = f"{oldest or 'nothing'} is pending"
        self._verdict.violated(
            f"the low watermark of {name!r} stands at {format_time(reached_us)} at the end, {format_time(event.at_us)}, and its"
            f" {_whose(ledger)} {format_time(aim_us)}; {blame}{left(event, ledger)} (MillWheel 4.5)",
            *([oldest.source] if oldest else []),
            event,
            awaited=oldest.awaited(oldest.source.at_us) if oldest else self._stuck(name, event.at_us),
        )

    def _stuck(self, name: str, at_us: int) -> Awaited:
        """Find the watermark that lags behind those that it follows, with nothing pending. ``at_us``: the end, true time."""
        ledger, aim_us = self._ledger, MIN_TIME
        for producer in reversed(ledger.topology.upstream[name]):
            if producer in ledger.topology.computations:
                aim_us = ledger.published_input(producer)
            else:
                aim_us = min(self._aim(address, at_us) for address in ledger.topology.sources[producer])
            if ledger.published.get(producer, MIN_TIME) < aim_us:
                return Awaited(AwaitedKind.WATERMARK, producer, ledger.risen_at_us(producer), time_us=aim_us)
        return Awaited(AwaitedKind.WATERMARK, name, ledger.risen_at_us(name), time_us=aim_us)


def _whose(ledger: WorkLedger) -> str:
    return "sources had reached" if ledger.sources else "injectors had reported"
