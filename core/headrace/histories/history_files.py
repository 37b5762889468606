"""Reading and writing a History's file: JSON lines, a header first, a seal last.

Rules of this file:

* The **seal** has the number of lines and the SHA-256 hash of all before it, to detect a file that was truncated or changed.
  A History of steps must have one. A History of records may, since any program can write it.
* A file that **grows** has no seal yet, and its last line may be incomplete.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, get_args

import msgspec

from headrace.api.errors import HeadraceError, HistoryFormatError
from headrace.api.json_text import JsonError, read_json, repeated_name
from headrace.api.ropes import plain_bytes
from headrace.histories.header import FORMAT, VERSION, Header, Tells
from headrace.histories.lines import Line
from headrace.history import Activation, Event, History

_ENCODER = msgspec.json.Encoder(enc_hook=plain_bytes)
_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_HEADER = msgspec.json.Decoder(Header)
_CONVERTED = (
    "its lines end in CR LF, so the seal does not match: git or an editor has converted them. Restore the file, and let git "
    "leave such files alone: *.jsonl -text in .gitattributes"
)
_SEAL = b'{"lines":'


class Seal(msgspec.Struct, frozen=True):
    """The last line."""

    lines: int
    sha256: str


class _Any(msgspec.Struct):
    """What tells a header from another line."""

    format: str = ""
    version: int = 0


_ANY = msgspec.json.Decoder(_Any)


class HistoryWriter:
    """Writes a History's file, as the run goes on.

    Args:
        file: opened for writing bytes; the caller closes it.
        header: the first line.
    """

    def __init__(self, file: BinaryIO, header: Header) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._lines = 0
        self._put(_ENCODER.encode(header) + b"\n")

    def write(self, lines: Iterable[Line]) -> None:
        """Write some more."""
        written = list(lines)
        self._lines += len(written)
        self._put(_ENCODER.encode_lines(written))

    def seal(self) -> None:
        """Write the last line: the file is complete."""
        self._file.write(_ENCODER.encode(Seal(self._lines, self._hash.hexdigest())) + b"\n")
        self._file.flush()

    def _put(self, data: bytes) -> None:
        self._hash.update(data)
        self._file.write(data)


class HistoryReader:
    """Reads a History's file line by line.

    Args:
        path: the file.
        growing: whether the file is still being written: it needs no seal, and `lines` may be called again.

    Attributes:
        path: the file.
        header: the first line; for a growing file, only after `open_header` returned true.
        number: number of the last line that was read, from 1.
        sealed: whether the seal was read.
        position: number of bytes read.

    Raises:
        HistoryFormatError: the file cannot be read, or does not begin with a header.
    """

    def __init__(self, path: Path, *, growing: bool = False) -> None:
        self.path = path
        self.number = self.position = 0
        self.sealed = False
        self._growing = growing
        self._hash = hashlib.sha256()
        self._lines = 0
        self._rest = b""
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise HistoryFormatError("history", str(path), error.strerror or str(error)) from error
        self._header: Header | None = None
        try:
            if not self.open_header() and not growing:
                raise self._broken("the first line, the header, is missing: the file is empty")
        except HistoryFormatError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def header(self) -> Header:
        """The first line."""
        assert self._header is not None, "the header was not read yet"
        return self._header

    @property
    def size_bytes(self) -> int:
        """The current size of the file."""
        return self.path.stat().st_size

    def open_header(self) -> bool:
        """Read the header; ``False``: a growing file has none yet.

        Raises:
            HistoryFormatError: the first line is not a header that this version can read.
        """
        if self._header is None:
            line = next(self._raw(), None)
            if line is None:
                return False
            self._header = self._read_header(line)
            self._hash.update(line)
        return True

    def lines(self) -> Iterator[tuple[int, Line]]:
        """Yield each line between header and seal, with its number; of a growing file, those written so far.

        Raises:
            HistoryFormatError: a line is malformed, the seal does not match, or is missing.
        """
        for line in self._raw():
            if self.sealed:
                raise self._broken("this line follows the last one, the seal: the file was changed")
            if line.startswith(_SEAL):
                self._check_seal(line)
                continue
            try:
                yield self.number, read_json(line, _DECODER.decode)
            except JsonError as error:
                if not line.endswith(b"\n"):
                    raise self._broken(f"{error}; the file was truncated here") from error
                raise self._broken(str(error)) from error
            if self.header.tells is Tells.RECORDS:  # which any program can write
                self._refuse_repeated(line)
            self._hash.update(line)
            self._lines += 1
        if not self.sealed and not self._growing and self.header.tells is Tells.STEPS:
            raise self._broken(
                "the last line, the seal with the number of lines and their hash, is missing: the file was truncated"
            )

    def _refuse_repeated(self, line: bytes) -> None:
        if (name := repeated_name(line)) is not None:
            raise self._broken(f"it has {name!r} twice. Write each field once")

    def _raw(self) -> Iterator[bytes]:
        """Yield complete lines."""
        while True:
            line = self._rest + self._file.readline()
            self._rest = b""
            if not line:
                return
            if not line.endswith(b"\n") and self._growing:
                self._rest = line
                return
            self.number += 1
            self.position += len(line)
            yield line

    def _read_header(self, line: bytes) -> Header:
        try:
            kind = read_json(line, _ANY.decode)
        except JsonError as error:
            raise self._broken(f"this is no header: {error}") from error
        if kind.format != FORMAT:
            raise self._broken(f'this is no header: it has no "format":"{FORMAT}"')
        if kind.version != VERSION:
            raise self._broken(
                f"the format has version {kind.version}, and this Headrace reads version {VERSION}: install one that reads it"
            )
        try:
            header = read_json(line, _HEADER.decode)
        except (JsonError, HeadraceError) as error:
            raise self._broken(f"malformed header: {error}") from error
        self._refuse_repeated(line)
        if not header.graphs:
            raise self._broken("malformed header: graphs is empty, so there is nothing to judge by")
        return header

    def _check_seal(self, line: bytes) -> None:
        try:
            seal = read_json(line, msgspec.json.Decoder(Seal).decode)
        except JsonError as error:
            raise self._broken(f"malformed seal: {error}") from error
        if seal != Seal(self._lines, self._hash.hexdigest()):
            changed = "the seal does not match the lines before it: the file was truncated or changed"
            raise self._broken(_CONVERTED if line.endswith(b"\r\n") else changed)
        self.sealed = True

    def _broken(self, reason: str) -> HistoryFormatError:
        return HistoryFormatError("history", str(self.path), f"line {max(self.number, 1)}: {reason}")


def save_history(path: Path, history: Iterable[Event], header: Header) -> None:
    """Write a History to a file, with its causes if they are known.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("wb") as file:
        writer = HistoryWriter(file, header)
        writer.write(_with_causes(history) if isinstance(history, History) else history)
        writer.seal()


def load_history(path: Path) -> tuple[Header, History]:
    """Read a History of steps.

    Raises:
        HistoryFormatError: the file is not a History of steps, or is incomplete or changed.
    """
    with HistoryReader(path) as reader:
        if reader.header.tells is not Tells.STEPS:
            raise HistoryFormatError("history", str(path), f"it tells of {reader.header.tells}, not of steps")
        events: list[Event] = []
        activations: list[Activation] = []
        for number, line in reader.lines():
            problem = ""
            if isinstance(line, Event):
                events.append(line)
            elif isinstance(line, Activation):
                problem = _misplaced(line, len(activations), len(events))
                activations.append(line)
            else:
                problem = f"{type(line).__name__!r} is no event of a History of steps"
            if problem:
                raise HistoryFormatError("history", str(path), f"line {number}: {problem}")
        return reader.header, History(events, activations)


def _with_causes(history: History) -> Iterator[Line]:
    """Yield the events, and each activation before its first one."""
    events = iter(history.events)
    yielded = 0
    for activation in history.activations:
        yield from islice(events, activation.first_event - yielded)
        yielded = activation.first_event
        yield activation
    yield from events


def _misplaced(activation: Activation, activations: int, events: int) -> str:
    """Say what is wrong with an activation that follows so many activations and events; ``""``: nothing."""
    if events and not activations:
        return "the first activation follows an event: either every event belongs to one, or none does"
    if activation.first_event != events:
        return f"the activation's first_event is {activation.first_event}, but {events} events come before it"
    if activation.cause is not None and not 0 <= activation.cause < activations:
        return f"the activation's cause is {activation.cause}, but it is number {activations}: a cause comes first"
    return ""


def history_schema() -> dict[str, Any]:
    """Return the format as JSON Schema: ``Header`` is the first line, ``Seal`` the last, and each between one of the others."""
    kinds = [*get_args(Line), Seal]
    _, components = msgspec.json.schema_components([Header, *kinds], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{FORMAT}, version {VERSION}: each line of the file",
        "anyOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in (Header, *kinds)],
        "$defs": components,
    }
