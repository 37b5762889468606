"""Progress of a job on Spark by computation, for `Deployment.progress` (MillWheel 4.5).

Rules of this file: an interval's counts are part of its state, so each record counts once, whatever crashes; a tally that is sent
twice is the same both times. So the board needs only the latest tally of each interval.
"""

from collections.abc import Callable, Iterable
from threading import Lock

import msgspec

from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress, lag_of
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.spark.hosting.parcels import Tally
from headrace.spark.runtime.hadoop import Place, write

_HOT_SHARE = 1 / 8
"""Choice: a key with this part of the latest records is hot: more than eight cores cannot share its computation's work."""

_HOT_FROM = 1_000
"""Choice: with fewer of the latest records no key is named, because it would cost no time worth mentioning."""


class Board:
    """The latest tally of each interval of a job. Several queries may write to it at once.

    Args:
        path: a file that keeps the tallies for the next start of the job; ``None``: they are not kept.
    """

    def __init__(self, path: Place | None = None) -> None:
        self._path = path
        self._lock = Lock()
        self._latest: dict[str, Tally] = {}
        if path is not None and path.exists():
            self._take(_decode_board(path.read_bytes()))

    def take(self, tallies: Iterable[Tally]) -> None:
        """Take the tallies of a micro-batch."""
        with self._lock:
            if self._take(tallies) and self._path is not None:
                write(self._path, _encode_board(list(self._latest.values())))

    def _take(self, tallies: Iterable[Tally]) -> bool:
        new = False
        for tally in tallies:
            before = self._latest.get(tally.group)
            if before is None or tally.turn >= before.turn:
                self._latest[tally.group], new = tally, True
        return new

    def wall_due(self) -> int | None:
        """Return when the next wall timer is due, wall time in microseconds; ``None``: none is pending."""
        return self._soonest(lambda tally: tally.wall_due)

    def enters_at(self) -> int | None:
        """Return the slowest low watermark at which the next record that waits may enter (8.4); ``None``: none waits."""
        return self._soonest(lambda tally: tally.enters_at)

    def _soonest(self, at: Callable[[Tally], int | None]) -> int | None:
        with self._lock:
            known = map(at, self._latest.values())
            return min([time_us for time_us in known if time_us is not None], default=None)

    def slowest(self, pipeline: Pipeline) -> int:
        """Return the smallest low watermark of all computations, event time in microseconds (8.4)."""
        lows = [computation.low_watermark for computation in self.progress(pipeline, MIN_TIME)]
        return min(lows, default=MAX_TIME)

    def progress(
        self, pipeline: Pipeline, low_watermark: int | None = None
    ) -> tuple[ComputationProgress, ...]:
        """Add up the tallies of each computation.

        Args:
            pipeline: the pipeline, whose order of computations the result has.
            low_watermark: Spark's watermark, event time in microseconds, if all computations follow it; ``None``: each
                computation has its own.
        """
        with self._lock:
            latest = list(self._latest.values())
        newest = max([tally.newest for tally in latest], default=MIN_TIME)
        if low_watermark is not None:
            low_watermark = max([low_watermark, *[tally.input_watermark for tally in latest]])
        by_name: dict[str, list[Tally]] = {name: [] for name in pipeline.computations}
        for tally in latest:
            by_name.get(tally.computation, []).append(tally)
        return tuple(_sum(name, tallies, newest, low_watermark) for name, tallies in by_name.items())


def _sum(name: str, tallies: list[Tally], newest: int, low_watermark: int | None) -> ComputationProgress:
    reached = max([tally.input_watermark for tally in tallies], default=MIN_TIME)
    low = min([tally.held for tally in tallies], default=MAX_TIME)
    low = min(low, reached if low_watermark is None else low_watermark)
    latest = sum(tally.latest_records for tally in tallies)
    hot = max(tallies, key=lambda tally: tally.hot_records, default=None)
    is_hot = hot is not None and latest >= _HOT_FROM and hot.hot_records >= _HOT_SHARE * latest
    return ComputationProgress(
        name,
        records=sum(tally.records for tally in tallies),
        late_records=sum(tally.late_records for tally in tallies),
        outputs=sum(tally.outputs for tally in tallies),
        low_watermark=low,
        lag_us=lag_of(low, newest),
        timers=sum(tally.timers for tally in tallies),
        keys=sum(tally.keys for tally in tallies),
        state_bytes=sum(tally.state_bytes for tally in tallies),
        hot_key=hot.hot_key if hot is not None and is_hot else None,
        hot_share=hot.hot_records / latest if hot is not None and is_hot else 0.0,
        dropped=sum(tally.dropped for tally in tallies),
    )


_encode_board = msgspec.json.Encoder().encode
_decode_board = msgspec.json.Decoder(list[Tally]).decode
