"""Many windows of one key in chunks (Dataflow 2.2; MillWheel 6.2), of which only those concerned are read and written.

Rules of this file: the chunks are in the order of windows, behind a table of what must be known of each: where it ends, and when
something is due in it. A row never changes. One that differs in a few windows has the other chunks of the row that it was made
from, and its table if that is the same; so a record costs the same however many windows there are.
"""

import re
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, ClassVar, NamedTuple

import msgspec

from headrace import MAX_TIME, MIN_TIME, Rope
from headrace.dataflow.codecs import Carrier, ValueCodec, encode_plain
from headrace.dataflow.contents import Contents
from headrace.dataflow.elements import GLOBAL, Window
from headrace.dataflow.panes import Pane
from headrace.dataflow.window_states import NOTHING_DUE, Due, WindowState

CHUNKED = 2
"""The first byte of a row in chunks; no JSON begins with it."""

_FRONT = Struct("<BII")
_LAST_END, _LAST_START, _BASE, _UNIT, _COUNT, _FRESH = range(6)
_DUE = slice(6, 11)
_WIDTH = 11
_SIZES_AT = 4
"""Where the table has the sizes of chunks, in bytes, when it is written; in memory they are known."""


_Changed = tuple[int, bytes, Iterable[tuple[int, int]]]
"""The number of a chunk, its new bytes, and new entries of its table, by column."""


class ChunkedRow(Rope):
    """A row with its windows in chunks.

    Args:
        front: all but the windows, encoded.
        columns: the table, with a number for each chunk in each column: its last window's end and start, first start and usual
            size, microseconds; its windows, whether any of them has new elements, and the five times of their `Due`.
        chunks: the encoded windows.
    """

    __slots__ = ("_size", "chunks", "columns", "front")

    def __init__(
        self,
        front: bytes,
        columns: "Sequence[array[int]]",
        chunks: Sequence[bytes],
        size: int | None = None,
    ) -> None:
        self.front, self.columns, self.chunks = front, columns, chunks
        self._size = self._measured() if size is None else size

    @classmethod
    def of(cls, data: bytes) -> "ChunkedRow":
        """Read a row that was written as bytes."""
        _, front, chunks = _FRONT.unpack_from(data)
        at, width = _FRONT.size + front, 8 * chunks
        columns = []
        for begin in range(at, at + (_WIDTH + 1) * width, width or 1):
            column = array("q", data[begin : begin + width])
            columns.append(_little_endian(column))
        sizes = columns.pop(_SIZES_AT) if chunks else ()
        begin, found = at + (_WIDTH + 1) * width, []
        for size in sizes:
            found.append(data[begin : begin + size])
            begin += size
        return cls(data[_FRONT.size : at], columns or _NO_COLUMNS, found, len(data))

    def with_chunks(self, front: bytes, changed: Iterable[_Changed]) -> "ChunkedRow":
        """Return the row with another front, and some other chunks."""
        columns, chunks, size = self.columns, [*self.chunks], self._size + len(front) - len(self.front)
        for number, chunk, entries in changed:
            for place, entry in entries:
                if columns[place][number] != entry:
                    columns = [*columns]
                    columns[place] = columns[place][:]
                    columns[place][number] = entry
            size += len(chunk) - len(chunks[number])
            chunks[number] = chunk
        return ChunkedRow(front, columns, chunks, size)

    def __len__(self) -> int:
        """Return the number of bytes."""
        return self._size

    def __bytes__(self) -> bytes:
        """Join the parts."""
        sizes = array("q", map(len, self.chunks))
        table = [*self.columns[:_SIZES_AT], sizes, *self.columns[_SIZES_AT:]]
        front = _FRONT.pack(CHUNKED, len(self.front), len(self.chunks))
        return b"".join([front, self.front, *map(_little_endian, table), *self.chunks])

    def __eq__(self, other: object) -> bool:
        """Return whether the bytes are the same."""
        if type(other) is not ChunkedRow:
            return super().__eq__(other)
        mine, theirs = (self.front, self.chunks), (other.front, other.chunks)
        return mine == theirs and (self.columns is other.columns or self.columns == other.columns)

    __hash__ = Rope.__hash__

    def _measured(self) -> int:
        table = 8 * (_WIDTH + 1) * len(self.chunks)
        return _FRONT.size + len(self.front) + table + sum(map(len, self.chunks))


_NO_COLUMNS = tuple(array("q") for _ in range(_WIDTH))
EMPTY = ChunkedRow(b"", _NO_COLUMNS, [])
"""A row without windows."""


class Unread:
    """The windows of a row that have not been read.

    Args:
        row: the row.
        lines: the codec of a chunk's windows.
        most: number of windows in a chunk, at most.
    """

    __slots__ = ("_added", "_chunks", "_columns", "_lines", "_most", "_row", "_single", "_taken", "changed")

    def __init__(self, row: ChunkedRow, lines: "LineCodec", most: int) -> None:
        self._row, self._columns, self._lines, self._most = row, row.columns, lines, most
        self._chunks = len(row.chunks)
        self._taken: dict[int, Due] = {}
        self._single: dict[Window, tuple[int, bytes]] = {}
        self._added: set[Window] = set()  # new, or not due when they were
        self.changed = False

    def __len__(self) -> int:
        """Count the windows that have not been read."""
        counts = self._columns[_COUNT]
        alone = sum(number not in self._taken for number, _ in self._single.values())
        return sum(counts) - sum(counts[number] for number in self._taken) - alone

    def is_at_most(self, number: int) -> bool:
        """Return whether no more windows than this have not been read; count them only if there are few chunks."""
        return self._chunks - len(self._taken) - len(self._single) <= number and len(self) <= number

    def due(self) -> Due:
        """Return when something is first due in what has not been read."""
        return Due(*(min(column, default=MAX_TIME) for column in self._columns[_DUE]))

    def near(self, windows: Sequence[Window]) -> list[WindowState]:
        """Read these windows, as far as the row has them."""
        if len(windows) == 1:
            return self._read_single(self._place(windows[0]), windows)
        places: dict[int, list[Window]] = {}
        for window in windows:
            places.setdefault(self._place(window), []).append(window)
        found = []
        for number, wanted in places.items():
            few = 2 * len(wanted) <= self._most
            found += self._read_single(number, wanted) if few else self._take([number])
        return found

    def touching(self, window: Window) -> list[WindowState]:
        """Read the windows that overlap or touch this one, if no two of the row's windows do."""
        first, starts = bisect_left(self._columns[_LAST_END], window.start), self._columns[_BASE]
        after = next((i for i in range(first, len(starts)) if starts[i] > window.end), len(starts))
        found = []
        for number in range(first, after):
            wanted = self._grid(number).touching(self._row.chunks[number], window)
            found += self._read_single(number, wanted)
        return found

    def due_by(self, now: int, watermark: int) -> list[WindowState]:
        """Read the chunks in which something is due at these readings of clock and watermark."""
        event, wall, _, end, idle = self._columns[_DUE]
        by_event = (i for i in range(len(event)) if event[i] <= watermark or end[i] <= watermark)
        by_clock = (i for i in range(len(wall)) if wall[i] <= now or idle[i] <= now)
        return self._take([*by_event, *by_clock])

    def fresh(self) -> list[WindowState]:
        """Read the chunks with windows that have new elements."""
        return self._take([number for number, some in enumerate(self._columns[_FRESH]) if some])

    def all(self) -> list[WindowState]:
        """Read everything."""
        return self._take(range(self._chunks))

    def note(self, window: Window, before: Sequence[tuple[Window, Due]], after: Due) -> list[WindowState]:
        """Note that a window has come from these parts, none if it is new; read what must be read to write it.

        Args:
            window: the window.
            before: its parts, and when something was due for each.
            after: when something is due for it.
        """
        if before == [(window, after)]:
            return []
        self._added.add(window)
        if len(before) == 1 and self._stays(window, *before[0], after):
            self._single[window] = self._single.pop(before[0][0])
        elif before:
            self.changed = True
            return self._take([number for number, _ in self._single.values()])
        return []

    def _stays(self, window: Window, part: Window, before: Due, after: Due) -> bool:
        """Return whether a window that comes from one can stay in its chunk, without a look at the others there.

        If it has changed before, what was due for it then is still in the chunk's table, and may be due for no other window.
        """
        if part not in self._single or part in self._added:
            return False
        number, _ = self._single[part]
        if number in self._taken or window.start < self._columns[_BASE][number]:
            return False
        due = Due(*(column[number] for column in self._columns[_DUE]))
        return not due.loses(before, after)

    def rest_for(self, windows: Iterable[WindowState]) -> list[WindowState]:
        """Read the rest of the chunks that cannot be written with only these windows changed."""
        numbers = [number for number, _ in self._single.values()] if self.changed else []
        for window_state in windows:
            window = window_state.window
            if window not in self._single:
                place = self._place(window)
                if place < self._chunks and not self._has_room(place, window):
                    numbers.append(place)
        gone = self._single.keys() - {window_state.window for window_state in windows}
        return self._take([*numbers, *(self._single[window][0] for window in gone)])

    def put_back(
        self, front: bytes, windows: Sequence[WindowState], due_of: Callable[[WindowState], Due]
    ) -> ChunkedRow:
        """Return the row with this front, and with these windows, read or new, in their places."""
        if not self._taken and all(each.window in self._single for each in windows):
            return self._row.with_chunks(front, self._rewritten(windows, due_of))
        groups: dict[tuple[int, bool], list[WindowState]] = {}
        for number in self._taken:
            groups[number, True] = []
        for window_state in sorted(windows, key=_order):
            groups.setdefault(self._target(window_state.window), []).append(window_state)
        columns, chunks, copied = [array("q") for _ in self._columns], list[bytes](), 0
        for (number, replaces), group in sorted(groups.items()):
            self._copy(columns, chunks, copied, number)
            copied = number + replaces
            if replaces and number not in self._taken:
                rows = iter([self._edited(number, group, due_of)])
            else:
                at_end = copied == self._chunks
                rows = self._written(group, number if replaces else None, due_of, at_end=at_end)
            for chunk, row in rows:
                chunks.append(chunk)
                for column, entry in zip(columns, row, strict=True):
                    column.append(entry)
        self._copy(columns, chunks, copied, self._chunks)
        return ChunkedRow(front, columns, chunks)

    def _rewritten(
        self, windows: Sequence[WindowState], due_of: Callable[[WindowState], Due]
    ) -> Iterator[_Changed]:
        """Yield the chunks of windows that have been read one by one and stay where they are."""
        if len(windows) == 1 and windows[0].window not in self._added:
            (window_state,) = windows
            number, before = self._single[window_state.window]
            line = self._lines.encode(window_state, self._grid(number))
            fresh = [(_FRESH, 1)] if window_state.fresh else []
            yield number, self._row.chunks[number].replace(before, line), fresh
            return
        groups: dict[int, list[WindowState]] = {}
        for window_state in windows:
            groups.setdefault(self._single[window_state.window][0], []).append(window_state)
        for number, group in groups.items():
            chunk, entries = self._edited(number, group, due_of)
            yield number, chunk, enumerate(entries)

    def _place(self, window: Window) -> int:
        """Return the chunk in whose range a window is; their number if it is after all of them."""
        ends, starts = self._columns[_LAST_END], self._columns[_LAST_START]
        place = bisect_left(ends, window.end)
        while place < len(ends) and ends[place] == window.end and starts[place] < window.start:
            place += 1
        return place

    def _target(self, window: Window) -> tuple[int, bool]:
        """Return the chunk into which to write a window, and whether the new one replaces it or comes before it."""
        if window in self._single:
            return self._single[window][0], True
        place = self._place(window)
        if place in self._taken or self._has_room(place, window):
            return place, True
        if place - 1 in self._taken or (place == self._chunks and self._has_room(place - 1, window)):
            return place - 1, True
        return place, False

    def _has_room(self, number: int, window: Window) -> bool:
        """Return whether a new window can be added to a chunk as it is."""
        if not 0 <= number < self._chunks or number in self._taken:
            return False
        return self._columns[_COUNT][number] < self._most and self._columns[_BASE][number] <= window.start

    def _grid(self, number: int) -> "_Grid":
        return _Grid(self._columns[_BASE][number], self._columns[_UNIT][number])

    def _read_single(self, number: int, windows: Iterable[Window]) -> list[WindowState]:
        """Read these windows of a chunk, as far as it has them and they have not been read."""
        if number == self._chunks or number in self._taken:
            return []
        lines, grid, chunk = [], self._grid(number), self._row.chunks[number]
        read = {line for place, line in self._single.values() if place == number} if self._single else ()
        for window in windows:
            line = _find(chunk, grid.begins(window))
            if line and line not in read:
                self._single[window] = number, line
                lines.append(line)
        return self._lines.decode(lines, grid)

    def _take(self, numbers: Iterable[int]) -> list[WindowState]:
        found: list[WindowState] = []
        for number in numbers:
            if number in self._taken or number >= self._chunks:
                continue
            if not self._taken:
                self._columns = [column[:] for column in self._columns]
            grid, chunk = self._grid(number), self._row.chunks[number]
            self._taken[number] = Due(*(column[number] for column in self._columns[_DUE]))
            for column in self._columns[_DUE]:
                column[number] = MAX_TIME
            read = {line for place, line in self._single.values() if place == number}
            lines = [line for line in chunk.splitlines(keepends=True) if line not in read]
            found += self._lines.decode(lines, grid)
        return found

    def _copy(self, columns: "Sequence[array[int]]", chunks: list[bytes], first: int, after: int) -> None:
        if first < after:
            chunks += self._row.chunks[first:after]
            for column, known in zip(columns, self._columns, strict=True):
                column.extend(known[first:after])

    def _edited(
        self, number: int, windows: Sequence[WindowState], due_of: Callable[[WindowState], Due]
    ) -> tuple[bytes, tuple[int, ...]]:
        """Return a chunk in which only these windows are changed or added, with its entries in the table."""
        last_end, last_start, base, unit, count, fresh, *times = (column[number] for column in self._columns)
        chunk, order, grid = self._row.chunks[number], (last_end, last_start), _Grid(base, unit)
        for window_state in windows:
            _, before = self._single.get(window_state.window, (number, b""))
            line = self._lines.encode(window_state, grid)
            chunk = chunk.replace(before, line) if before else chunk + line
            count += not before
            if window_state.window in self._added:
                times = [*map(min, times, msgspec.structs.astuple(due_of(window_state)))]
            order = max(order, window_state.window.order)
        fresh = fresh or any(window_state.fresh for window_state in windows)
        return chunk, (*order, base, unit, count, fresh, *times)

    def _written(
        self,
        group: list[WindowState],
        number: int | None,
        due_of: Callable[[WindowState], Due],
        *,
        at_end: bool,
    ) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """Yield chunks with these windows: evenly filled, but at the end, where windows are added, full ones."""
        chunks = -(-len(group) // self._most)
        size = self._most if at_end else -(-len(group) // max(chunks, 1))
        for first in range(0, len(group), max(size, 1)):
            part = group[first : first + size]
            grid = _Grid(min(each.window.start for each in part), part[0].window.end - part[0].window.start)
            if number is None or chunks > 1 or self.changed:
                due = _first(map(due_of, part))
            else:
                added = (due_of(each) for each in part if each.window in self._added)
                due = _first([self._taken[number], *added])
            chunk = b"".join(self._lines.encode(each, grid) for each in part)
            order, fresh = part[-1].window.order, any(each.fresh for each in part)
            yield chunk, (*order, *grid, len(part), fresh, *msgspec.structs.astuple(due))


def _order(window_state: WindowState) -> tuple[int, int]:
    return window_state.window.order


def _first(dues: Iterable[Due]) -> Due:
    found = NOTHING_DUE
    for due in dues:
        found |= due
    return found


class _Grid(NamedTuple):
    """What times in a chunk are relative to: the first start, and the usual size of a window, microseconds."""

    base: int
    unit: int

    def place(self, window: Window) -> int | list[int]:
        """Return a window's number, if it is regular, or its start and size."""
        start, size = window.start - self.base, window.end - window.start
        return [start, size] if size != self.unit or start % size else start // size

    def window(self, place: int | list[int]) -> Window:
        """Return the window in a place."""
        start, size = (place * self.unit, self.unit) if isinstance(place, int) else place
        return Window(self.base + start, self.base + start + size)

    def touching(self, chunk: bytes, window: Window) -> list[Window]:
        """Return the windows of a chunk that overlap or touch this one, by the beginnings of its lines."""
        first, after, unit, found = window.start - self.base, window.end - self.base, self.unit, []
        for regular, irregular, given in _find_places(chunk):
            start, size = (int(regular) * unit, unit) if regular else (int(irregular), int(given))
            if start <= after and first <= start + size:
                found.append(Window(self.base + start, self.base + start + size))
        return found

    def begins(self, window: Window) -> bytes:
        """Return how a window's line begins."""
        place = self.place(window)
        return b"[%d" % place if isinstance(place, int) else b"[[%d,%d]" % (*place,)


_find_places = re.compile(rb"^\[(?:(-?\d+)|\[(-?\d+),(\d+))", re.MULTILINE).findall
"""Finds the place of each line: a number, or a start and a size. JSON has no line breaks."""


def _find(chunk: bytes, begins: bytes) -> bytes:
    """Return the line that begins so; nothing if there is none. JSON has no line breaks."""
    for ends in (b",", b"]"):
        at = 0 if chunk.startswith(begins + ends) else chunk.find(b"\n" + begins + ends) + 1
        if at or chunk.startswith(begins + ends):
            return chunk[at : chunk.index(b"\n", at) + 1]
    return b""


class _Line(Carrier, msgspec.Struct, array_like=True):
    """A window in a chunk: its place, and what differs from the defaults, which are left out at the end."""

    _carried: ClassVar[tuple[str, ...]] = ("accumulator", "trigger", "emitted")

    place: int | list[int]
    flags: int = 0
    fresh: int = 0
    count: int = 0
    accumulator: list[Any] = []
    trigger: Any = None
    panes: int = 0
    latest: int | None = None
    values: dict[str, int] = {}
    emitted: list[Pane] = []


_FLAGS = [[bool(flags >> number & 1) for number in range(4)] for flags in range(16)]
_DEFAULTS = [0, 0, 0, [], None, 0, None, {}, []]


class LineCodec:
    """Encodes the windows of a chunk, each on a line.

    Args:
        values: the codec of users' values.
        keeps_latest: whether the event times of elements count in every window, not in the global one only.
    """

    def __init__(self, values: ValueCodec, *, keeps_latest: bool) -> None:
        self._encode, self._decode = values.encode, values.of(list[_Line]).decode
        self._keeps_latest = keeps_latest

    def encode(self, window_state: WindowState, grid: _Grid) -> bytes:
        """Encode a window."""
        window, contents = window_state.window, window_state.contents
        flags = (
            window_state.passed
            | window_state.was_on_time << 1
            | window_state.finished << 2
            | window_state.holds << 3
        )
        is_known = window_state.latest > MIN_TIME and (self._keeps_latest or window == GLOBAL)
        latest = window_state.latest - grid.base if is_known else None
        line = [
            grid.place(window), flags, window_state.fresh, contents.count, contents.accumulator, window_state.trigger,
            window_state.panes, latest, contents.values, window_state.emitted,
        ]  # fmt: skip
        while len(line) > 1 and line[-1] == _DEFAULTS[len(line) - 2]:
            line.pop()
        is_plain = not contents.values and window_state.is_plain()
        return (encode_plain(line) if is_plain else self._encode(line)) + b"\n"

    def decode(self, lines: Sequence[bytes], grid: _Grid) -> list[WindowState]:
        """Decode windows."""
        found = self._decode(b"[%b]" % b",".join(lines))
        return [self._window_state(line, grid) for line in found]

    def _window_state(self, read: _Line, grid: _Grid) -> WindowState:
        latest = MIN_TIME if read.latest is None else grid.base + read.latest
        passed, was_on_time, finished, holds = _FLAGS[read.flags]
        return WindowState(
            grid.window(read.place), read.trigger, Contents(read.count, read.accumulator, read.values), latest,
            read.fresh, read.panes, passed, was_on_time, finished, read.emitted, holds,
        )  # fmt: skip


def _little_endian(column: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
