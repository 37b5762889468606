"""The driver's side of a job's clock (`headrace.spark.sources.job_clock`): when wall timers are due, and how far the slowest is.

Rules of this file: all intervals learn the slowest low watermark (MillWheel 8.4) when a record that waits may enter, and
when it has advanced by half of the skew limit. So in the long run a record within half of the limit never waits.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import uuid4

from headrace.api.pipeline import Pipeline
from headrace.spark.hosting.layout import limits_of
from headrace.spark.hosting.parcels import Tally
from headrace.spark.hosting.progress_board import Board
from headrace.spark.jobs.running_query import Progress
from headrace.spark.sources.driver_file import DriverFile
from headrace.spark.sources.job_clock import ASKED, WallTimerCheck


class DrivenClock:
    """The driver's side of a clock.

    Args:
        every_us: how often the clock checks for due wall timers, microseconds.
        pipeline: the pipeline, if any of its injectors has a skew limit.

    Attributes:
        clock: for the source.
        is_releasing: the latest tallies have let records enter that waited; a micro-batch with them will follow.
    """

    def __init__(self, every_us: int, pipeline: Pipeline | None = None) -> None:
        self._pipeline = pipeline
        self._limit_us = min(limits_of(pipeline).values()) if pipeline is not None else 0
        self.is_releasing = False
        self._board = Board()  # for this start only: tallies of an earlier one may be of another state
        self._file = DriverFile()
        self.clock = WallTimerCheck(every_us, self._file.path)

    def take(self, tallies: Iterable[Tally]) -> None:
        """Learn from a micro-batch's tallies when the next wall timer is due, and how far the slowest computation is."""
        self._board.take(tallies)
        self._file.write(due_us=self._board.wall_due())
        if self._pipeline is not None:
            slowest, enters_at = self._board.slowest(self._pipeline), self._board.enters_at()
            known = self._file.note.slowest
            self.is_releasing = enters_at is not None and known < enters_at <= slowest
            if self.is_releasing or slowest - known >= max(1, self._limit_us // 2):
                self._file.write(slowest=slowest)

    def ask(self) -> str:
        """Request a tick; return the value of `ASKED` in the offsets of its micro-batch and of those that follow."""
        asked = uuid4().hex
        self._file.write(asked=asked)
        return asked

    def settle(self, await_progress: Callable[[Callable[[Progress], bool]], Progress]) -> None:
        """Wait until no input has new data in a micro-batch planned after the call.

        Args:
            await_progress: waits for the report of a micro-batch for which a function returns true, and returns the report.
        """
        # The micro-batch of the first tick may have been planned in part before the call.
        await_progress(_asked(self.ask()))
        while _has_news(await_progress(_asked(self.ask()))) or self.is_releasing:
            pass


def _asked(tick: str) -> Callable[[Progress], bool]:
    return lambda progress: any(tick in str(source["endOffset"]) for source in progress["sources"])


def _has_news(progress: Progress) -> bool:
    """Return whether a micro-batch read from anything but the clock."""
    return any(source["startOffset"] != source["endOffset"] for source in inputs_of(progress))


def inputs_of(progress: Progress) -> list[Mapping[str, Any]]:
    """Return what a report says of each source but the clock."""
    return [source for source in progress["sources"] if ASKED not in str(source["endOffset"])]
