"""A file injector (MillWheel 5.2, Figure 10): its low watermark is the creation time of the oldest unfinished file.

Rules of this file: on every file event the watermark becomes the smallest creation time of the unfinished files; without any
it stays (the figure's ``kint64max``); it never goes back, so the records of a file that turns up too late are late. What the
source gets is stamped with the creation time of the newest file so far.
"""

from collections.abc import Mapping

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.wire.effects import SourceEvent, SourceRecord, SourceWatermark


class FileInjectorSource:
    """Turns what happens to log files into the events that an `Injector` takes (Figure 10). Sans-IO: the host reads the files.

    A replay must report the same file events in the same order: then they get the same offsets.

    >>> source = FileInjectorSource()
    >>> source.receive("monday.log", created_us=100), source.receive("tuesday.log", created_us=200)
    ([SourceWatermark(offset=0, low_watermark=100, arrived_us=100)], [])
    >>> source.finish("monday.log")
    [SourceWatermark(offset=1, low_watermark=200, arrived_us=200)]

    Args:
        low_watermark: where to go on: what it had published, event time in microseconds.
        unfinished: where to go on: the unfinished files, and their creation times.

    Attributes:
        low_watermark: what it has published so far.
        unfinished: the files that are being read, and their creation times.
    """

    def __init__(self, low_watermark: int = MIN_TIME, unfinished: Mapping[str, int] | None = None) -> None:
        self.unfinished = dict(unfinished or {})
        self.low_watermark = low_watermark
        self._newest_us = MIN_TIME
        self._offset = 0

    def receive(self, file: str, created_us: int) -> list[SourceEvent]:
        """Take in a new file.

        Args:
            file: its name.
            created_us: its creation time, event time in microseconds.
        """
        assert file not in self.unfinished, f"{file} is there already"
        self.unfinished[file] = created_us
        self._newest_us = max(self._newest_us, created_us)
        return self._on_file_event()

    def record(self, file: str, stream: str, key: str, value: bytes, timestamp: int) -> list[SourceEvent]:
        """Inject a record that was read from a file; the arguments are those of `SourceRecord`."""
        assert file in self.unfinished, f"a record comes from {file}, which is not being read"
        return [SourceRecord(self._next_offset(), stream, key, value, timestamp, self._newest_us)]

    def finish(self, file: str) -> list[SourceEvent]:
        """Note that a file has been read to its end."""
        assert self.unfinished.pop(file, None) is not None, f"{file} ends, but is not being read"
        return self._on_file_event()

    def end(self) -> list[SourceEvent]:
        """Note that no more files will come."""
        assert not self.unfinished, f"not read to their ends: {sorted(self.unfinished)}"
        return self._update_injector_watermark(MAX_TIME)

    def _on_file_event(self) -> list[SourceEvent]:
        """Update the watermark: Figure 10's ``OnFileEvent``."""
        watermark = min(self.unfinished.values(), default=None)
        return [] if watermark is None else self._update_injector_watermark(watermark)

    def _update_injector_watermark(self, watermark: int) -> list[SourceEvent]:
        if watermark <= self.low_watermark:
            return []
        self.low_watermark = watermark
        return [SourceWatermark(self._next_offset(), watermark, self._newest_us)]

    def _next_offset(self) -> int:
        self._offset += 1
        return self._offset - 1
