"""The short way of an injected record: from a row of the source straight into its consumer's parcel (MillWheel 4.2, 5.2).

Rules of this file: only what is as it should be goes this way, and arrives exactly as by the long one
(`headrace.injector.injection.productions_of`), which takes all else and says what is wrong with it. Choice: two ways to one
place, since what a record costs on its way into the engine is a fourth of what it costs at all.
"""

from collections.abc import Callable
from typing import Any
from zlib import crc32

from headrace.api.records import Record
from headrace.api.specs import OUTSIDE, KeyExtractor, same_key
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.spark.hosting.layout import Plan
from headrace.spark.hosting.parcels import Packed, Post


class Lane:
    """The way of one injector's records on one stream to the one consumer that it has, into one post.

    Args:
        post: where they go.
        stream: theirs.
        decode: of the stream's codec.
        extractor: the consumer's, unless it keeps the record's own key.
        groups: of the consumer.
        kept_ids_us: for how long, in event time, a record that is repeated is known as such; ``None``: the source says how far it
            was read.
    """

    __slots__ = ("_boxes", "_decode", "_extractor", "_groups", "_kept_ids_us", "_post", "_stream")

    def __init__(
        self, post: Post, stream: str, decode: Callable[[bytes], Any], extractor: KeyExtractor | None, groups: tuple[str, ...],
        kept_ids_us: int | None,
    ) -> None:  # fmt: skip
        self._post = post
        self._stream = stream
        self._decode = decode
        self._extractor = extractor
        self._groups = groups
        self._kept_ids_us = kept_ids_us
        self._boxes: dict[int, list[Packed]] = {}

    def send(self, name: str, key: Any, data: Any, timestamp: Any, arrived: int | None) -> bool:
        """Send a record; ``False``, and it is not sent: there is something about it that the long way is for."""
        if not (type(key) is str and type(data) is bytes and type(timestamp) is int):
            return False
        if not MIN_TIME < timestamp < MAX_TIME:
            return False
        try:
            value = self._decode(data)
            if self._extractor is not None:
                key = self._extractor(Record(key, value, timestamp, self._stream, False, name))  # noqa: FBT003  ``late``
                if type(key) is not str:
                    return False
            place = crc32(key.encode()) % len(self._groups)
        except Exception:  # noqa: BLE001  a codec and an extractor may raise anything: the long way says what
            return False
        origin = MIN_TIME if arrived is None else arrived
        if self._kept_ids_us is not None:
            origin = timestamp + self._kept_ids_us
        box = self._boxes.get(place)
        if box is None:
            box = self._boxes[place] = self._post.to(self._groups[place]).records
        box.append((self._stream, name, key, data, timestamp, origin))
        return True


def lane_of(plan: Plan, post: Post, injector: str, stream: str, kept_ids_us: int | None) -> Lane | None:
    """Make the lane of a stream.

    Args:
        plan: the pipeline, laid out.
        post: where its records go.
        injector: whose.
        stream: theirs.
        kept_ids_us: see `Lane`.

    Returns:
        ``None``: it has none. The stream is not the injector's, goes to several consumers or outside; or each record is to be
        told in the History, or written to a log.
    """
    pipeline = plan.pipeline
    if plan.history or plan.staged or stream not in pipeline.injectors[injector].all_outputs:
        return None
    (consumer, extractor), *others = pipeline.consumers(stream)
    if others or consumer == OUTSIDE:
        return None
    timed = injector in plan.timed_by_source
    return Lane(
        post,
        stream,
        pipeline.codec(stream).decode,
        None if extractor is same_key else extractor,
        plan.groups[consumer],
        None if timed else kept_ids_us,
    )
