"""The durable log of a stage (MillWheel 6.1.2): its productions, in batches that are written atomically.

Rules of this file:

* Tasks write parts. Then the driver writes the **entry** that names them, under the number of the micro-batch, unless there is
  already one of that number. A part that no entry names does not count. So a batch counts once, however often it is run, and by
  whichever of two drivers, one of which may be a zombie.
* An entry has the low watermark of the stage as of its end: the minimum of what the stage's intervals last reported (7.2).
  Readers take the records of an entry before its watermark, so records made on time in one stage are on time in the next.
* If a percentile watermark follows a stage, directly or not (7.2), an entry also has the pending timestamps of the stage's
  intervals and of all that feeds it, and how far the sources were read, both as of the records that went into it. So no
  percentile passes a record that waits in a log. Until all of that is known, the low watermark stands for it; for an injector it
  always does.
* An entry records how far the senders' logs went into it. That is the ACK: entries that all consumers have taken can be dropped.
* Choice: plain files, on a file system that all machines share. Spark's own log (of its file sink) cannot be shortened, is listed
  in full for each micro-batch, and would be a separate source in each consumer's query, whose sources cannot change.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote
from zlib import crc32

import msgspec

from headrace.api.json_text import JsonError, read_json
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.rules import RULES
from headrace.spark.errors import LogError
from headrace.spark.hosting.chunks import Buckets, merged
from headrace.spark.hosting.parcels import Followed, Parcel, Tally, decode_parcel, encode_parcel
from headrace.spark.runtime.files import write_file

_NUMBER = "{:012d}"
_KEPT = 8
"""Number of latest entries that are never dropped: Spark may run its last micro-batch again."""


class Part(msgspec.Struct, frozen=True):
    """A file with the records of one task.

    Attributes:
        name: name of the file.
        size_bytes: its size.
        records: number of records, by stream.
        events: number of History events.
    """

    name: str
    size_bytes: int
    records: dict[str, int]
    events: int = 0


class Piece(msgspec.Struct):
    """What a task reports to the driver about its part of a micro-batch.

    Attributes:
        part: its file, if it has any records.
        lows: low watermarks that intervals, or an injector, reported, event time in microseconds.
        horizon: horizon of an injector, origin in microseconds.
        taken: see `Entry`.
        tallies: tallies of its intervals, which do not go to the log.
        pending: see `Work`.
        senders: see `Work`.
    """

    part: Part | None = None
    lows: dict[str, int] = {}
    horizon: int | None = None
    taken: dict[str, int] = {}
    tallies: list[Tally] = []
    pending: dict[str, Buckets] = {}
    senders: dict[str, Followed] = {}


class Work(msgspec.Struct, frozen=True):
    """What percentile watermarks need of a stage (7.2).

    Attributes:
        pending: the last known pending timestamps of each interval.
        senders: what the senders' logs said.
        told: all of it, for the consumers; ``None``: something is not known yet.
    """

    pending: dict[str, Buckets] = {}
    senders: dict[str, Followed] = {}
    told: Followed | None = None


class Entry(msgspec.Struct, frozen=True):
    """One micro-batch of a stage.

    Attributes:
        number: number of the micro-batch.
        query: id of the query, as in Spark's checkpoint.
        at_us: wall time at which it was written, microseconds.
        parts: its records.
        lows: the last known low watermark of each interval, event time in microseconds.
        low: low watermark of the stage: later entries have no on-time record with an earlier timestamp.
        horizon: horizon of an injector: no future record has an earlier origin, microseconds.
        taken: by sender, the last entry of its log that went into this entry or an earlier one.
        news: number of the latest entry, up to this one, that has anything for consumers.
        work: for percentile watermarks; unset: none follows the stage.
        division: how often the job's keys had been divided anew into intervals; unset: never.
    """

    number: int
    query: str
    at_us: int
    parts: tuple[Part, ...] = ()
    lows: dict[str, int] = {}
    low: int = MIN_TIME
    horizon: int | None = None
    taken: dict[str, int] = {}
    news: int = -1
    work: Work | msgspec.UnsetType = msgspec.UNSET
    division: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def followed(self) -> Followed | None:
        """What it says for percentile watermarks; ``None``: the low watermark stands for it."""
        return None if self.work is msgspec.UNSET else self.work.told

    @property
    def records(self) -> int:
        """Number of its records."""
        return sum(sum(part.records.values()) for part in self.parts)


NOTHING = Entry(-1, "", 0)
"""Stands for the entry before the first one."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode
_decode_beginnings = msgspec.json.Decoder(dict[str, int]).decode


class Log:
    """The log of one stage. It can be pickled: it holds only paths.

    Args:
        directory: directory of the deployment.
        stage: name of the injector or computation.
    """

    def __init__(self, directory: str | Path, stage: str) -> None:
        self.stage = stage
        self.path = Path(directory) / "logs" / file_name(stage)

    def prepare(self) -> None:
        """Create its directories if they do not exist."""
        (self.path / "entries").mkdir(parents=True, exist_ok=True)
        (self.path / "parts").mkdir(exist_ok=True)

    # Reading

    def entry(self, number: int) -> Entry | None:
        """Read an entry, if it exists."""
        if number < 0:
            return NOTHING
        try:
            return read_json(self._entry_path(number).read_bytes(), _decode)
        except FileNotFoundError:
            return None
        except JsonError as error:
            raise LogError(self.stage, f"entry {number} cannot be read ({error})", _RESTORE) from error

    def last(self, after: int = -1) -> int:
        """Return the number of the latest entry; -1 if there is none.

        Args:
            after: number of an entry known to exist now or earlier.
        """
        if after < 0 or not self._entry_path(after).exists():
            return max(self._numbers(), default=-1)
        while self._entry_path(after + 1).exists():
            after += 1
        return after

    def first(self) -> int:
        """Return the number of the earliest entry that was not dropped; 0 if there is none."""
        return min(self._numbers(), default=0)

    def entries(self, after: int, upto: int) -> Iterator[Entry]:
        """Yield the entries after one number and up to another, in order.

        Raises:
            LogError: an entry no longer exists.
        """
        for number in range(after + 1, upto + 1):
            found = self.entry(number)
            if found is None:
                raise LogError(
                    self.stage, f"entry {number} is missing, and a consumer has not read it yet", _RESTORE
                )
            yield found

    def parcels(self, name: str) -> Iterator[Parcel]:
        """Yield the parcels of a part.

        Raises:
            LogError: the part is damaged or missing.
        """
        try:
            data = memoryview((self.path / "parts" / name).read_bytes())
        except FileNotFoundError as error:
            raise LogError(self.stage, f"its file {name} is missing", _RESTORE) from error
        at = 0
        while at < len(data):
            size, check = (
                int.from_bytes(data[at : at + 4], "big"),
                int.from_bytes(data[at + 4 : at + 8], "big"),
            )
            body = data[at + 8 : at + 8 + size]
            if len(body) != size or crc32(body) != check:
                raise LogError(self.stage, f"its file {name} is damaged at byte {at}", _RESTORE)
            yield decode_parcel(body)
            at += 8 + size

    # Writing

    def append(self, entry: Entry) -> Entry:
        """Write an entry, unless there is one with its number, and return the entry that counts.

        Raises:
            LogError: the entry that counts belongs to another query.
        """
        path = self._entry_path(entry.number)
        draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        write_file(draft, _encode(entry))
        try:
            os.link(draft, path)  # fails if there is one already: the first one counts
            _sync(path.parent)
        except FileExistsError:
            self._remove(part.name for part in entry.parts)
        finally:
            draft.unlink()
        standing = self.entry(entry.number)
        assert standing is not None, "entries of the last batches are never dropped"
        if standing.query != entry.query:
            problem = (
                f"entry {entry.number} belongs to another query ({standing.query}; this one is {entry.query})"
            )
            raise LogError(self.stage, problem, _FORGOTTEN)
        return standing

    def following(self, number: int, query: str) -> Entry:
        """Return the entry that precedes a new one.

        Raises:
            LogError: it is missing, or belongs to another query.
        """
        before = self.entry(number - 1)
        if before is None or (number > 0 and before.query != query):
            raise LogError(
                self.stage, f"there is no entry {number - 1} of this query before entry {number}", _FORGOTTEN
            )
        return before

    def shorten(self, taken: int, before_us: int) -> None:
        """Drop entries written before a time, as far as all consumers have taken them for good.

        Args:
            taken: the last entry that all consumers have taken for good.
            before_us: wall time, microseconds.
        """
        upto = self.first() - 1
        for entry in self.entries(upto, taken):
            if entry.at_us >= before_us:
                break
            upto = entry.number
        self.drop(upto)

    def drop(self, upto: int) -> None:
        """Drop entries up to this one, except the latest few."""
        upto = min(upto, max(self._numbers(), default=-1) - _KEPT)
        for number in sorted(number for number in self._numbers() if number <= upto):
            self._entry_path(number).unlink(missing_ok=True)
        limit = _NUMBER.format(upto + 1)
        self._remove(path.name for path in (self.path / "parts").iterdir() if path.name < limit)

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self.path / "parts" / name).unlink(missing_ok=True)

    def _entry_path(self, number: int) -> Path:
        return self.path / "entries" / _NUMBER.format(number)

    def _numbers(self) -> list[int]:
        return [int(path.name) for path in (self.path / "entries").iterdir() if path.name.isdigit()]


class PartWriter:
    """Writes one task's part of a log entry.

    Args:
        log: the log.
        number: number of the micro-batch.
        partition: number of the task's partition.
    """

    def __init__(self, log: Log, number: int, partition: int) -> None:
        self._log = log
        self._name = f"{_NUMBER.format(number)}-{partition:05d}-{os.urandom(6).hex()}"
        self._frames: list[bytes] = []
        self._records: dict[str, int] = {}
        self._events = 0
        self._piece = Piece()

    def take(self, parcel: Parcel) -> None:
        """Add a parcel."""
        for sender, low in parcel.holds:
            self.report(sender, low)
        for _, horizon in parcel.horizons:
            self._piece.horizon = max(horizon, self._piece.horizon or MIN_TIME)
        self._piece.taken.update(parcel.taken)
        self._piece.pending.update(parcel.pending)
        self._piece.senders.update(parcel.followed)
        if parcel.records or parcel.events:
            for record in parcel.records:
                self._records[record[0]] = self._records.get(record[0], 0) + 1
            self._events += len(parcel.events)
            body = encode_parcel(Parcel(parcel.records, events=parcel.events))
            self._frames += [len(body).to_bytes(4, "big"), crc32(body).to_bytes(4, "big"), body]

    def report(self, unit: str, low: int) -> None:
        """Add the low watermark that an interval, or an injector, reports."""
        self._piece.lows[unit] = max(low, self._piece.lows.get(unit, MIN_TIME))

    def tell(self, tally: Tally) -> None:
        """Add an interval's tally."""
        self._piece.tallies.append(tally)

    def finish(self) -> Piece:
        """Write the part, if it has any content, and return the report for the driver."""
        if self._frames:
            data = b"".join(self._frames)
            write_file(self._log.path / "parts" / self._name, data)
            self._piece.part = Part(self._name, len(data), self._records, self._events)
        return self._piece


def entry_of(
    before: Entry,
    number: int,
    query: str,
    at_us: int,
    pieces: Sequence[Piece],
    units: Sequence[str],
    fed: "Fed | None" = None,
    division: int = 0,
) -> Entry:
    """Assemble an entry.

    Args:
        before: the entry before it.
        number: number of the micro-batch.
        query: id of the query.
        at_us: wall time, microseconds.
        pieces: reports of the micro-batch's tasks.
        units: intervals, or injector, that must all have reported before the stage's low watermark is known.
        fed: what feeds the stage; ``None``: no percentile watermark follows it.
        division: how often the job's keys had been divided anew into these units. New ones begin with the stage's low watermark.
    """
    if division != (before.division or 0):
        work = (
            msgspec.UNSET
            if before.work is msgspec.UNSET
            else msgspec.structs.replace(before.work, pending={})
        )
        before = msgspec.structs.replace(before, lows=dict.fromkeys(units, before.low), work=work)
    parts, lows, horizon, taken = [], dict(before.lows), before.horizon, dict(before.taken)
    for piece in pieces:
        if piece.part is not None:
            parts.append(piece.part)
        _raise_to(lows, piece.lows)
        _raise_to(taken, piece.taken)
        if piece.horizon is not None:
            horizon = max(piece.horizon, MIN_TIME if horizon is None else horizon)
    parts.sort(key=lambda part: part.name)
    low = RULES.advanced(before.low, min((lows.get(unit, MIN_TIME) for unit in units), default=MAX_TIME))
    work = msgspec.UNSET if fed is None else _work_of(before, number, pieces, units, fed)
    has_news = bool(parts) or low > before.low or horizon != before.horizon
    has_news |= work is not msgspec.UNSET and work.told != before.followed
    return Entry(
        number,
        query,
        at_us,
        tuple(parts),
        lows,
        low,
        horizon,
        taken,
        number if has_news else before.news,
        work,
        division or msgspec.UNSET,
    )


class Fed(msgspec.Struct, frozen=True):
    """A stage that a percentile watermark follows.

    Attributes:
        name: its name.
        senders: the names of its senders.
    """

    name: str
    senders: tuple[str, ...]


def _work_of(before: Entry, number: int, pieces: Sequence[Piece], units: Sequence[str], fed: Fed) -> Work:
    known = Work() if before.work is msgspec.UNSET else before.work
    pending, senders = dict(known.pending), dict(known.senders)
    for piece in pieces:
        pending |= piece.pending
        senders |= piece.senders
    # Only of those that are there now: what was removed would hold the rest for ever.
    pending = {unit: pending[unit] for unit in units if unit in pending}
    senders = {sender: senders[sender] for sender in fed.senders if sender in senders}
    if len(pending) < len(units) or len(senders) < len(fed.senders):
        return Work(pending, senders)
    own, last = merged(pending.values()), None if known.told is None else known.told.pending.get(fed.name)
    told = {fed.name: last if last is not None and last[1] == own else (number, own)}
    for followed in senders.values():
        for name, buckets in followed.pending.items():
            told[name] = min(buckets, told.get(name, buckets))  # of two ways, that of the one further behind
    return Work(pending, senders, Followed(min(followed.frontier for followed in senders.values()), told))


def _raise_to(known: dict[str, int], told: Mapping[str, int]) -> None:
    for name, value in told.items():
        known[name] = max(value, known.get(name, MIN_TIME))


def taken_for_good(sender: str, consumer: Log, begin: int) -> int:
    """Return the last entry of a sender's log that a consumer will never read again.

    Args:
        sender: name of the sender.
        consumer: the consumer's own log. Spark may run its last micro-batch once more, with the same input.
        begin: number of the entry after which the consumer began to read.
    """
    entry = consumer.entry(max(consumer.last() - 1, -1))
    return begin if entry is None else entry.taken.get(sender, begin)


def beginnings_of(directory: Path, stage: str) -> dict[str, int]:
    """Return, by sender, the number of the entry after which a computation began to read that sender's log."""
    path = beginnings_path(directory, stage)
    try:
        return read_json(path.read_bytes(), _decode_beginnings)
    except FileNotFoundError:
        return {}
    except JsonError as error:
        raise LogError(stage, f"{path.name} cannot be read ({error})", _RESTORE) from error


def beginnings_path(directory: Path, stage: str) -> Path:
    """Return the file that keeps them in a job's directory."""
    return directory / "stages" / f"{file_name(stage)}.json"


def file_name(stage: str) -> str:
    """Return the file name for a stage.

    >>> file_name("daily sums"), file_name("..")
    ('daily%20sums', '%2E%2E')
    """
    return quote(stage, safe="").replace(".", "%2E")


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_RESTORE = "Restore the whole directory of the deployment; if that is not possible, start in an empty one"
_FORGOTTEN = "Checkpoints and logs belong together: restore the whole directory, or start in an empty one"
