"""The minimum that an engine records of a run: what went in and out of each stage. Any engine can write it in twenty lines.

Rules of this file:

* A line says what *counts*. Write ``in`` when the effect of the record is committed, not when the record is read.
* Lines of one process are in the order in which they happened. Lines of several processes may be merged in any order in which
  a record is sent before it is processed.
* Ids are unique in their stream, and the same at the sender and at the receiver: topic, partition and offset will do.
* Tell all that was sent on a stream, or nothing of it.
* Times are microseconds since the epoch.
"""

from typing import Any

import msgspec

from headrace.history import Activation, Event


class RecordLine(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, gc=False
):
    """What the lines have in common.

    Attributes:
        process: which process says it.
        stage: the stage, or the source, that the process belongs to.
        at: wall time in microseconds; ``None``: as the line before.
    """

    process: str
    stage: str
    at: int | None = None


class Out(RecordLine, tag="out", frozen=True, gc=False):
    """The process sent a record.

    Attributes:
        id: unique in the stream.
        key: the key of the record.
        timestamp: event time, microseconds.
        stream: default: the only one that the stage writes.
        partition: the partition, if the stream has some.
        cause: id of the record that led to it; ``None``: a timer did, or the process does not say.
        value: the value, as JSON.
    """

    id: str
    key: str
    timestamp: int
    stream: str = ""
    partition: str = ""
    cause: str | None = None
    value: Any = None


class In(RecordLine, tag="in", frozen=True, gc=False):
    """The effect of a record on the stage is committed.

    Attributes:
        id: as the sender gave it.
        key: the key by which the stage files it.
        timestamp: event time, microseconds.
        stream: default: the only one that the stage reads.
        partition: the partition that it came from, if there are some.
        late: the stage treated it as late.
    """

    id: str
    key: str
    timestamp: int
    stream: str = ""
    partition: str = ""
    late: bool = False


class State(RecordLine, tag="state", frozen=True, gc=False):
    """What the process takes for the state of a key, right after a record.

    Attributes:
        key: the key.
        as_of: id of the last record of this key that the state contains.
        value: the state, as JSON.
    """

    key: str
    as_of: str
    value: Any


class Watermark(RecordLine, tag="watermark", frozen=True, gc=False):
    """The process promises to send no record with an earlier timestamp, unless it is caused by a late one.

    Attributes:
        timestamp: event time, microseconds.
    """

    timestamp: int


class Owns(RecordLine, tag="owns", frozen=True, gc=False):
    """The process owns a partition of the stage's input from now on, and whoever owned it before does not.

    Attributes:
        partition: the partition.
    """

    partition: str


class End(msgspec.Struct, tag="end", frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The run came to rest: everything that was sent has been processed. Without this line, nothing can be said to be lost.

    Attributes:
        at: wall time in microseconds; ``None``: as the line before.
    """

    at: int | None = None


Line = Event | Activation | Out | In | State | Watermark | Owns | End
"""A line between the first and the last."""
