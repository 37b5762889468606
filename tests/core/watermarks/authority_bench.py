"""An authority on a bench: its tests play the store, the owners and the clock."""

from collections.abc import Sequence

from headrace.api.computation import Computation
from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.api.time import MAX_TIME
from headrace.history import History
from headrace.watermarks.authority import WatermarkAuthority
from headrace.wire.effects import Effect, Send, Start, Wake
from headrace.wire.keys import ALL_KEYS, KeyInterval
from headrace.wire.messages import (
    STORE,
    Claimed,
    InjectorReport,
    IntervalReport,
    Journaled,
    JournalWatermarks,
    Message,
    Peeked,
    Progress,
    Report,
    Table,
    Watermarks,
)
from tests.core.wakes import take_wakes

OPTIONS = EngineOptions(lease_us=4_000, store_timeout_us=500, broadcast_period_us=100)
FIRST = (1 << 32) + 1
LEFT, RIGHT = KeyInterval("", "m"), KeyInterval("m")


def pipeline(*, percentile: float = 100.0, processes: int = 1) -> Pipeline:
    """Words go from an injector through a splitter to a counter."""
    made = Pipeline("words")
    made.injector("lines", processes=processes)
    made.add(Computation(), name="splitter", inputs=["lines"], outputs=["words"])
    made.add(Computation(), name="counter", inputs=["words"], watermark_percentile=percentile)
    return made


class Bench:
    """An authority that has the role since 1,000, unless it is a standby; wakes it, and answers for the store.

    Attributes:
        wakes: when it will be woken, earliest first, microseconds on its clock.
    """

    def __init__(
        self,
        *topologies: Pipeline,
        options: EngineOptions = OPTIONS,
        journaled: tuple[tuple[str, Progress], ...] = (),
        heard: Sequence[Report | InjectorReport] = (),
    ) -> None:
        self.history = History()
        self.authority = WatermarkAuthority(
            "authority-0.0", 0, topologies or (pipeline(),), options, self.history
        )
        self.now = 1_000
        self.wakes: list[int] = []
        self.handle(Start(1))
        for report in heard:
            self.handle(report)
        self.handle(Peeked(FIRST, 0, 0))
        self.claimed = self.handle(Claimed(FIRST + 1, 1, journaled, 0, Table()))

    def handle(self, event: Start | Wake | Message) -> list[Effect]:
        effects = take_wakes(self.wakes, self.now, event, self.authority.handle(self.now, event))
        self.authority.check_invariants()
        return effects

    def wake(self, after: int = 100) -> list[Effect]:
        self.now += after
        effects = self.handle(Wake())
        assert self.wakes
        return effects

    def next_wake(self) -> list[Effect]:
        """Wake it when it asked for that."""
        return self.wake(self.wakes[0] - self.now)

    def journal(self) -> JournalWatermarks:
        """Wake it; it has nothing to do but to journal."""
        effects = self.wake()
        assert len(effects) == 1
        assert isinstance(effects[0], Send)
        assert effects[0].to == STORE
        assert isinstance(effects[0].message, JournalWatermarks)
        return effects[0].message

    def accept(self) -> list[Effect]:
        """Let the store accept its journal entries."""
        return self.handle(Journaled(self.journal().request))


def report(
    computation: str,
    sequencer: int,
    low_watermark: int,
    interval: KeyInterval = ALL_KEYS,
    pending: tuple[tuple[int, int], ...] = (),
) -> Report:
    """What worker-0 reports; the horizon is a tenth."""
    report = IntervalReport(computation, interval, sequencer, low_watermark, low_watermark // 10, pending)
    return Report("worker-0", (report,))


def injected(
    low_watermark: int,
    *,
    process: int = 0,
    epoch: int = 1,
    frontier: int = MAX_TIME,
    pending: tuple[tuple[int, int], ...] = (),
) -> InjectorReport:
    return InjectorReport("lines", process, epoch, low_watermark, low_watermark // 10, frontier, pending)


def progress(low_watermark: int, *percentiles: tuple[float, int]) -> Progress:
    return Progress(low_watermark, low_watermark // 10, percentiles)


def told(*values: tuple[str, Progress], to: Sequence[str] = ("lines/0", "worker-0")) -> list[Effect]:
    return [Send(listener, Watermarks(0, values)) for listener in to]
