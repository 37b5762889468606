"""Progress of a job on Spark by computation, for `Deployment.progress` (MillWheel 4.5).

Rules of this file: what an interval counts is part of its state, and so counts each record once, whatever died; what it tells
twice says the same. So the board needs what each interval has told last, and nothing else.
"""

from collections.abc import Iterable
from pathlib import Path
from threading import Lock

import msgspec

from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress, lag_of
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.spark.hosting.parcels import Tally, decode_tally
from headrace.spark.runtime.files import replace_file


class Board:
    """What all intervals of a job have told last. Several queries may write to it at once.

    Args:
        path: a file that keeps it for when the job goes on; ``None``: none does.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = Lock()
        self._told: dict[str, Tally] = {}
        if path is not None and path.exists():
            self._take(_decode_board(path.read_bytes()))

    def take(self, tallies: Iterable[Tally]) -> None:
        """Put up what a micro-batch has told."""
        with self._lock:
            if self._take(tallies) and self._path is not None:
                replace_file(self._path, _encode_board(list(self._told.values())))

    def take_encoded(self, tallies: Iterable[str]) -> None:
        """Likewise, as it stands in rows of the outputs."""
        self.take([decode_tally(one) for one in tallies])

    def _take(self, tallies: Iterable[Tally]) -> bool:
        new = False
        for tally in tallies:
            before = self._told.get(tally.group)
            if before is None or tally.turn >= before.turn:
                self._told[tally.group], new = tally, True
        return new

    def wall_due(self) -> int | None:
        """When the next wall timer is due, wall time in microseconds; ``None``: none is pending."""
        with self._lock:
            return min(
                [one.wall_due for one in self._told.values() if one.wall_due is not None], default=None
            )

    def progress(
        self, pipeline: Pipeline, low_watermark: int | None = None
    ) -> tuple[ComputationProgress, ...]:
        """Add it up.

        Args:
            pipeline: whose computations, in their order.
            low_watermark: Spark's, event time in microseconds, where all computations follow it; ``None``: each has its own.
        """
        with self._lock:
            told = list(self._told.values())
        newest = max([one.newest for one in told], default=MIN_TIME)
        if low_watermark is not None:
            low_watermark = max([low_watermark, *[one.input_watermark for one in told]])
        by_name: dict[str, list[Tally]] = {name: [] for name in pipeline.computations}
        for tally in told:
            by_name.get(tally.computation, []).append(tally)
        return tuple(_sum(name, tallies, newest, low_watermark) for name, tallies in by_name.items())


def _sum(name: str, tallies: list[Tally], newest: int, low_watermark: int | None) -> ComputationProgress:
    reached = max([one.input_watermark for one in tallies], default=MIN_TIME)
    low = min([one.held for one in tallies], default=MAX_TIME)
    low = min(low, reached if low_watermark is None else low_watermark)
    return ComputationProgress(
        name,
        records=sum(one.records for one in tallies),
        late_records=sum(one.late_records for one in tallies),
        outputs=sum(one.outputs for one in tallies),
        low_watermark=low,
        lag_us=lag_of(low, newest),
        timers=sum(one.timers for one in tallies),
        keys=sum(one.keys for one in tallies),
        state_bytes=sum(one.state_bytes for one in tallies),
    )


_encode_board = msgspec.json.Encoder().encode
_decode_board = msgspec.json.Decoder(list[Tally]).decode
