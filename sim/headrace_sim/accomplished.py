"""Whether a run still makes progress: what is done for the first time, read from its History.

A record that is sent again, a write that is repeated or a watermark that is told again is no progress: a run that is stuck does
these for ever. Nothing is read before somebody asks, and each event once.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from headrace import MIN_TIME
from headrace.history import AckSent, Applied, CheckpointsDeleted, Event, History, Injected, Output, Published


class Accomplished:
    """What a run has done, as far as it has been asked for.

    Args:
        history: of the run; events may be taken out of it meanwhile.
    """

    __slots__ = ("_done", "_handlers", "_history", "_latest_us", "_published", "_read")

    def __init__(self, history: History) -> None:
        self._history = history
        self._read = 0
        self._done: set[Hashable] = set()
        self._published: dict[str, int] = {}
        self._latest_us = MIN_TIME
        self._handlers: dict[type[Event], Callable[[Any], Iterator[Hashable]]] = {
            Injected: self._of_injected,
            Applied: self._of_applied,
            AckSent: self._of_ack,
            CheckpointsDeleted: self._of_deleted,
            Output: self._of_output,
            Published: self._of_published,
        }

    def latest_us(self) -> int:
        """When something was last done for the first time, true time in microseconds; `MIN_TIME`: never."""
        events = self._history.events
        begin = self._read if self._read <= len(events) else 0
        for event in events[begin:]:
            handler = self._handlers.get(type(event))
            if handler is None:
                continue
            before = len(self._done)
            self._done.update(handler(event))
            if len(self._done) > before:
                self._latest_us = event.at_us
        self._read = len(events)
        return self._latest_us

    @staticmethod
    def _of_injected(event: Injected) -> Iterator[Hashable]:
        yield Injected, event.process, event.offset

    @staticmethod
    def _of_applied(event: Applied) -> Iterator[Hashable]:
        for record_id, _ in event.delta.seen:
            yield Applied, event.computation, record_id
        for timer in event.delta.fired:
            yield Applied, event.computation, event.delta.key, timer.tag, timer.set_by

    @staticmethod
    def _of_ack(event: AckSent) -> Iterator[Hashable]:
        for record_id in event.record_ids:
            yield AckSent, event.computation, record_id

    @staticmethod
    def _of_deleted(event: CheckpointsDeleted) -> Iterator[Hashable]:
        for checkpoint in event.checkpoints:
            yield CheckpointsDeleted, event.computation, checkpoint

    @staticmethod
    def _of_output(event: Output) -> Iterator[Hashable]:
        yield Output, event.production.record_id

    def _of_published(self, event: Published) -> Iterator[Hashable]:
        for name, progress in event.values:
            if progress.low_watermark > self._published.get(name, MIN_TIME):
                self._published[name] = progress.low_watermark
                yield Published, name, progress.low_watermark
