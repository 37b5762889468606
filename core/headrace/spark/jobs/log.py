"""The durable log of a stage (MillWheel 6.1.2): what it produced, in batches that are there as a whole or not at all.

Rules of this file:

* Tasks write parts; then the driver writes the **entry** that names them, under the number of the micro-batch, and only if there
  is none of that number yet. A part that no entry names does not count. So a batch counts once, however often it is run, and
  whichever of two drivers runs it, one of which may be a zombie.
* An entry says the low watermark of the stage as of its end: the least that the stage's intervals have reported, of each the
  last known value (7.2). It is read together with its records, which come first, so that what was made on time in one stage is
  on time in the next.
* An entry says what of the senders' logs went into it. That is the ACK: what all consumers have taken can be dropped.
* Choice: plain files, on a file system that all machines share. A log of Spark's own (its file sink) can not be shortened, is
  listed as a whole for each micro-batch, and would be a source of its own in each consumer's query, whose sources can not change.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote
from zlib import crc32

import msgspec

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.rules import RULES
from headrace.spark.errors import LogError
from headrace.spark.hosting.parcels import Parcel, Tally, decode_parcel, encode_parcel
from headrace.spark.runtime.files import write_file

_NUMBER = "{:012d}"
_KEPT = 8
"""The latest entries stay: Spark may run its last micro-batch again."""


class Part(msgspec.Struct, frozen=True):
    """A file with records of one task.

    Attributes:
        name: of the file.
        size_bytes: of the file.
        records: how many, by stream.
        events: how many of the History.
    """

    name: str
    size_bytes: int
    records: dict[str, int]
    events: int = 0


class Piece(msgspec.Struct):
    """What a task tells the driver of its part of a micro-batch.

    Attributes:
        part: its file, if it has any records.
        lows: low watermarks that intervals, or an injector, have reported.
        horizon: of an injector, origin in microseconds.
        taken: see `Entry`.
        tallies: of its intervals; they are not for the log.
    """

    part: Part | None = None
    lows: dict[str, int] = {}
    horizon: int | None = None
    taken: dict[str, int] = {}
    tallies: list[Tally] = []


class Entry(msgspec.Struct, frozen=True):
    """One micro-batch of a stage.

    Attributes:
        number: of the micro-batch.
        query: identity of the query, as in Spark's checkpoint.
        at_us: wall time at which it was written, microseconds.
        parts: its records.
        lows: the last known low watermark of each interval, event time in microseconds.
        low: of the stage: nothing that is on time comes before that after this entry.
        horizon: of an injector: no record still to come has an origin before that, microseconds.
        taken: by sender, up to which entry of its log has gone into this entry and those before it.
        news: number of the latest entry, up to this one, that has anything for consumers.
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

    @property
    def records(self) -> int:
        """How many it has."""
        return sum(sum(part.records.values()) for part in self.parts)


NOTHING = Entry(-1, "", 0)
"""What stands before the first entry."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


class Log:
    """The log of one stage. Pickles: it is only a place.

    Args:
        directory: of the deployment.
        stage: name of the injector or computation.
    """

    def __init__(self, directory: str | Path, stage: str) -> None:
        self.stage = stage
        self.path = Path(directory) / "logs" / file_name(stage)

    def prepare(self) -> None:
        """Make its directories, if they are not there."""
        (self.path / "entries").mkdir(parents=True, exist_ok=True)
        (self.path / "parts").mkdir(exist_ok=True)

    # Reading

    def entry(self, number: int) -> Entry | None:
        """An entry, if it is there."""
        if number < 0:
            return NOTHING
        try:
            return _decode(self._entry_path(number).read_bytes())
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise LogError(self.stage, f"entry {number} can not be read ({error})", _RESTORE) from error

    def last(self, after: int = -1) -> int:
        """The number of the latest entry; -1 if there is none.

        Args:
            after: one that is known to be there, or to have been.
        """
        if after < 0 or not self._entry_path(after).exists():
            return max(self._numbers(), default=-1)
        while self._entry_path(after + 1).exists():
            after += 1
        return after

    def first(self) -> int:
        """The number of the earliest entry that was not dropped; that of the next one, if there is none."""
        return min(self._numbers(), default=0)

    def entries(self, after: int, upto: int) -> Iterator[Entry]:
        """Entries in order.

        Raises:
            LogError: one is not there any more.
        """
        for number in range(after + 1, upto + 1):
            found = self.entry(number)
            if found is None:
                raise LogError(
                    self.stage, f"entry {number} is gone, which a consumer has still to read", _RESTORE
                )
            yield found

    def parcels(self, name: str) -> Iterator[Parcel]:
        """What a part has.

        Raises:
            LogError: it is damaged, or not there.
        """
        try:
            data = memoryview((self.path / "parts" / name).read_bytes())
        except FileNotFoundError as error:
            raise LogError(self.stage, f"its file {name} is gone", _RESTORE) from error
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
        """Write an entry, if there is none of its number, and return the one that stands.

        Raises:
            LogError: it does not follow the last one, or another query has written there.
        """
        path = self._entry_path(entry.number)
        draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        write_file(draft, _encode(entry))
        try:
            os.link(draft, path)  # fails if it is there: the first one stands
            _sync(path.parent)
        except FileExistsError:
            self._remove(part.name for part in entry.parts)
        finally:
            draft.unlink()
        standing = self.entry(entry.number)
        assert standing is not None, "entries of the last batches are never dropped"
        if standing.query != entry.query:
            problem = (
                f"entry {entry.number} is of another query ({standing.query}, and this is {entry.query})"
            )
            raise LogError(self.stage, problem, _FORGOTTEN)
        return standing

    def following(self, number: int, query: str) -> Entry:
        """The entry before one that is to be written.

        Raises:
            LogError: see `append`.
        """
        before = self.entry(number - 1)
        if before is None or (number > 0 and before.query != query):
            raise LogError(
                self.stage, f"there is no entry {number - 1} of this query before entry {number}", _FORGOTTEN
            )
        return before

    def shorten(self, taken: int, before_us: int) -> None:
        """Drop what is older.

        Args:
            taken: up to this entry, all consumers have taken it for good.
            before_us: wall time, microseconds.
        """
        upto = self.first() - 1
        for entry in self.entries(upto, taken):
            if entry.at_us >= before_us:
                break
            upto = entry.number
        self.drop(upto)

    def drop(self, upto: int) -> None:
        """Forget entries up to this one, but for the latest few."""
        upto = min(upto, max(self._numbers(), default=-1) - _KEPT)
        for number in sorted(self._numbers()):
            if number > upto:
                break
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
    """Writes what one task has for a log.

    Args:
        log: which.
        number: of the micro-batch.
        partition: of the task.
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
        if parcel.records or parcel.events:
            for record in parcel.records:
                self._records[record[0]] = self._records.get(record[0], 0) + 1
            self._events += len(parcel.events)
            body = encode_parcel(Parcel(parcel.records, events=parcel.events))
            self._frames += [len(body).to_bytes(4, "big"), crc32(body).to_bytes(4, "big"), body]

    def report(self, unit: str, low: int) -> None:
        """Let an interval, or an injector, report its low watermark."""
        self._piece.lows[unit] = max(low, self._piece.lows.get(unit, MIN_TIME))

    def tell(self, tally: Tally) -> None:
        """Let an interval tell its progress."""
        self._piece.tallies.append(tally)

    def finish(self) -> Piece:
        """Write the part, if there is anything in it."""
        if self._frames:
            data = b"".join(self._frames)
            write_file(self._log.path / "parts" / self._name, data)
            self._piece.part = Part(self._name, len(data), self._records, self._events)
        return self._piece


def entry_of(
    before: Entry, number: int, query: str, at_us: int, pieces: Iterable[Piece], units: Sequence[str]
) -> Entry:
    """Put an entry together.

    Args:
        before: the one before it.
        number: of the micro-batch.
        query: identity of the query.
        at_us: wall time, microseconds.
        pieces: of its tasks.
        units: all that must have reported, before anything is known of the stage's low watermark.
    """
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
    has_news = bool(parts) or low > before.low or horizon != before.horizon
    return Entry(
        number, query, at_us, tuple(parts), lows, low, horizon, taken, number if has_news else before.news
    )


def _raise_to(known: dict[str, int], told: Mapping[str, int]) -> None:
    for name, value in told.items():
        known[name] = max(value, known.get(name, MIN_TIME))


def taken_for_good(sender: str, consumer: Log, begin: int) -> int:
    """Up to which entry of a sender's log a consumer will never read again.

    Args:
        sender: name of the sender.
        consumer: the consumer's own log. Spark may run its last micro-batch once more, with the same input.
        begin: after which entry it began to read.
    """
    entry = consumer.entry(max(consumer.last() - 1, -1))
    return begin if entry is None else entry.taken.get(sender, begin)


def file_name(stage: str) -> str:
    """How a stage is called in a directory.

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


_RESTORE = "Restore the directory of the deployment as a whole; if it can not be, begin in an empty one"
_FORGOTTEN = (
    "Checkpoints and logs belong together: restore the directory as a whole, or begin in an empty one"
)
