"""Many windows of one key in chunks (Dataflow 2.2; MillWheel 6.2), of which only those concerned are read and written.

Rules of this file: the chunks are in the order of windows, behind a table of what must be known of each: where it ends, and when
something is due in it. A row never changes. One that differs in a few windows has the other chunks of the row that it was made
from, and its table if that is the same; so a record costs the same however many windows there are.
"""

import re
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, ClassVar, NamedTuple

import msgspec

from headrace import MAX_TIME, MIN_TIME, Rope
from headrace.dataflow.contents import Contents
from headrace.dataflow.elements import GLOBAL, Window
from headrace.dataflow.panes import Pane
from headrace.dataflow.value_codecs import Carrier, ValueCodec, is_plain
from headrace.dataflow.window_states import NOTHING_DUE, Due, WindowState, in_order

CHUNKED = 2
"""The first byte of a row in chunks; no JSON begins with it."""

_FRONT = Struct("<BII")
_LAST_END, _LAST_START, _BASE, _UNIT, _COUNT, _FRESH = range(6)
_DUE = slice(6, 11)
_WIDTH = 11
_SIZES_AT = 4
"""Where the table has the sizes of chunks, in bytes, when it is written; in memory they are known."""


_Place = int | tuple[int, int]
"""A window's place in a chunk: its number, if it is regular, or its start and size."""


class Chunk(Rope):
    """Windows of a row, each on a line; JSON has no line breaks. The lines are split when one of them is first looked up.

    Args:
        lines: the lines by place, or all of them as bytes.
        size: their number of bytes.
    """

    __slots__ = ("_lines", "_size")

    def __init__(self, lines: dict[_Place, bytes] | bytes, size: int) -> None:
        self._lines, self._size = lines, size

    @property
    def lines(self) -> dict[_Place, bytes]:
        """The lines by place, not to be changed."""
        if isinstance(self._lines, bytes):
            lines = self._lines.splitlines(keepends=True)
            self._lines = {_place_of(line): line for line in lines}
        return self._lines

    def with_lines(self, before: Iterable[_Place], after: Mapping[_Place, bytes]) -> "Chunk":
        """Return the chunk with the lines at the places ``before`` replaced by ``after``."""
        lines, size = self.lines.copy(), self._size
        for place in before:
            if place not in after:
                size -= len(lines.pop(place))
        for place, line in after.items():
            size += len(line) - len(lines.get(place, b""))
            lines[place] = line
        return Chunk(lines, size)

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self._lines if isinstance(self._lines, bytes) else b"".join(self._lines.values())


_NO_WINDOWS = Chunk({}, 0)
_begins_with = re.compile(rb"\[(?:(-?\d+)|\[(-?\d+),(\d+))").match
"""Matches the place of a line: a number, or a start and a size."""


def _place_of(line: bytes) -> _Place:
    """Return the place that a line begins with."""
    begins = _begins_with(line)
    assert begins, f"a window's line begins with {line[:40]!r}"
    number, start, size = begins.groups()
    return (int(start), int(size)) if number is None else int(number)


_Changed = tuple[int, Chunk, Iterable[tuple[int, int]]]
"""The number of a chunk, the new one, and new entries of its table, by column."""


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
        chunks: Sequence[Chunk],
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
        begin, parts = at + (_WIDTH + 1) * width, []
        for size in sizes:
            parts.append(Chunk(data[begin : begin + size], size))
            begin += size
        return cls(data[_FRONT.size : at], columns or _NO_COLUMNS, parts, len(data))

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
        return self._size

    def __bytes__(self) -> bytes:
        sizes = array("q", map(len, self.chunks))
        table = [*self.columns[:_SIZES_AT], sizes, *self.columns[_SIZES_AT:]]
        front = _FRONT.pack(CHUNKED, len(self.front), len(self.chunks))
        return b"".join([front, self.front, *map(_little_endian, table), *map(bytes, self.chunks)])

    def __eq__(self, other: object) -> bool:
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
        self._single: dict[Window, tuple[int, _Place]] = {}  # the windows that were read alone: chunk, place
        self._added = set[Window]()  # the windows that are new, or not due when they were
        self.changed = False

    def __len__(self) -> int:
        """Count the windows that have not been read."""
        counts = self._columns[_COUNT]
        alone = sum(number not in self._taken for number, _ in self._single.values())
        return sum(counts) - sum(counts[number] for number in self._taken) - alone

    def is_at_most(self, number: int) -> bool:
        """Return whether no more windows than this have not been read; count them only if there are few chunks."""
        return self._chunks - len(self._taken) - len(self._single) <= number and len(self) <= number

    def check_invariants(self, due_of: Callable[[WindowState], Due]) -> None:
        """Assert of each chunk what the row's table says of it. Something may be due later there than the table says."""
        for number in range(self._chunks):
            due = Due(*(column[number] for column in self._columns[_DUE]))
            fresh = self._columns[_FRESH][number]
            windows = self._take([number])
            actual = _first([due_of(window_state) for window_state in windows])
            assert due | actual == due, f"chunk {number} is due at {actual}, and its table says {due}"
            assert fresh or not any(window_state.fresh for window_state in windows), (
                f"chunk {number} is fresh"
            )

    def due(self) -> Due:
        """Return when something is first due in what has not been read."""
        return Due(*(min(column, default=MAX_TIME) for column in self._columns[_DUE]))

    def near(self, windows: Sequence[Window]) -> list[WindowState]:
        """Read these windows, as far as the row has them."""
        if len(windows) == 1:
            return self._read_single(self._place(windows[0]), windows)
        groups: dict[int, list[Window]] = {}
        group: list[Window] = []
        ends, after, before = self._columns[_LAST_END], MAX_TIME, MIN_TIME
        for window in windows:
            if not after < window.end < before:  # is it not in the chunk of the one before?
                number = self._place(window)
                group = groups.setdefault(number, [])
                after = ends[number - 1] if number else MIN_TIME
                before = ends[number] if number < len(ends) else MAX_TIME
            group.append(window)
        states = []
        for number, wanted in groups.items():
            few = 2 * len(wanted) <= self._most
            states += self._read_single(number, wanted) if few else self._take([number])
        return states

    def touching(self, window: Window) -> list[WindowState]:
        """Read the windows that overlap or touch this one, if no two of the row's windows do."""
        first, starts = bisect_left(self._columns[_LAST_END], window.start), self._columns[_BASE]
        after = next((i for i in range(first, len(starts)) if starts[i] > window.end), len(starts))
        states = []
        for number in range(first, after):
            wanted = self._grid(number).touching(self._row.chunks[number].lines, window)
            states += self._read_single(number, wanted)
        return states

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
        return self._take(numbers)

    def put_back(
        self, front: bytes, windows: Sequence[WindowState], due_of: Callable[[WindowState], Due]
    ) -> ChunkedRow:
        """Return the row with this front, and with these windows, read or new, in their places."""
        if not self._taken and len(windows) == len(self._single):
            return self._row.with_chunks(front, self._rewritten(windows, due_of))
        groups: dict[tuple[int, bool], list[WindowState]] = {}
        for number in self._taken:
            groups[number, True] = []
        for window_state in in_order(windows):
            groups.setdefault(self._target(window_state.window), []).append(window_state)
        columns, chunks, copied = [array("q") for _ in self._columns], list[Chunk](), 0
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
        groups: dict[int, dict[_Place, WindowState]] = {}
        for window_state in windows:
            number, place = self._single[window_state.window]
            groups.setdefault(number, {})[place] = window_state
        for number, group in groups.items():
            if self._added and any(each.window in self._added for each in group.values()):
                chunk, entries = self._edited(number, [*group.values()], due_of)
                yield number, chunk, enumerate(entries)
            else:
                lines = self._lines.encode(group, self._columns[_BASE][number])
                fresh = any(each.fresh for each in group.values())
                yield number, self._row.chunks[number].with_lines((), lines), [(_FRESH, 1)] if fresh else []

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

    def _read_single(self, number: int, windows: Sequence[Window]) -> list[WindowState]:
        """Read these windows of a chunk, as far as it has them and they have not been read."""
        if number == self._chunks or number in self._taken:
            return []
        unread, grid, lines = {}, self._grid(number), self._row.chunks[number].lines
        for window, place in zip(windows, grid.places(windows), strict=True):
            if place in lines and window not in self._single:
                self._single[window] = number, place
                unread[window] = lines[place]
        return self._lines.decode(unread, grid.base)

    def _take(self, numbers: Iterable[int]) -> list[WindowState]:
        states: list[WindowState] = []
        for number in numbers:
            if number in self._taken or number >= self._chunks:
                continue
            if not self._taken:
                self._columns = [column[:] for column in self._columns]
            grid, lines = self._grid(number), self._row.chunks[number].lines
            self._taken[number] = Due(*(column[number] for column in self._columns[_DUE]))
            for column in self._columns[_DUE]:
                column[number] = MAX_TIME
            read = {place for chunk, place in self._single.values() if chunk == number}
            others = {grid.window(place): line for place, line in lines.items() if place not in read}
            states += self._lines.decode(others, grid.base)
        return states

    def _copy(self, columns: "Sequence[array[int]]", chunks: list[Chunk], first: int, after: int) -> None:
        if first < after:
            chunks += self._row.chunks[first:after]
            for column, known in zip(columns, self._columns, strict=True):
                column.extend(known[first:after])

    def _edited(
        self, number: int, windows: Sequence[WindowState], due_of: Callable[[WindowState], Due]
    ) -> tuple[Chunk, tuple[int, ...]]:
        """Return a chunk in which only these windows are changed or added, with its entries in the table."""
        last_end, last_start, base, unit, count, fresh, *times = (column[number] for column in self._columns)
        order = (last_end, last_start)
        for window_state in windows:
            count += window_state.window not in self._single
            if window_state.window in self._added:
                times = [*map(min, times, msgspec.structs.astuple(due_of(window_state)))]
            order = max(order, window_state.window.order)
        fresh = fresh or any(window_state.fresh for window_state in windows)
        before = [self._single[each.window][1] for each in windows if each.window in self._single]
        lines = self._lines.encode(_Grid(base, unit).place_all(windows), base)
        chunk = self._row.chunks[number].with_lines(before, lines)
        return chunk, (*order, base, unit, count, fresh, *times)

    def _written(
        self,
        group: list[WindowState],
        number: int | None,
        due_of: Callable[[WindowState], Due],
        *,
        at_end: bool,
    ) -> Iterator[tuple[Chunk, tuple[int, ...]]]:
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
            order, fresh = part[-1].window.order, any(each.fresh for each in part)
            entries = (*order, *grid, len(part), fresh, *msgspec.structs.astuple(due))
            lines = self._lines.encode(grid.place_all(part), grid.base)
            yield _NO_WINDOWS.with_lines((), lines), entries


def _first(dues: Iterable[Due]) -> Due:
    first = NOTHING_DUE
    for due in dues:
        first |= due
    return first


class _Grid(NamedTuple):
    """What times in a chunk are relative to: the first start, and the usual size of a window, microseconds."""

    base: int
    unit: int

    def places(self, windows: Iterable[Window]) -> list[_Place]:
        """Return the places of windows."""
        base, unit = self
        places: list[_Place] = []
        for window in windows:
            start = window.start - base
            size = window.end - base - start
            places.append((start, size) if size != unit or start % size else start // size)
        return places

    def place_all(self, windows: Sequence[WindowState]) -> dict[_Place, WindowState]:
        """Return windows by their places."""
        places = self.places([window_state.window for window_state in windows])
        return dict(zip(places, windows, strict=True))

    def window(self, place: _Place) -> Window:
        """Return the window in a place."""
        start, size = (place * self.unit, self.unit) if isinstance(place, int) else place
        return Window(self.base + start, self.base + start + size)

    def touching(self, places: Iterable[_Place], window: Window) -> list[Window]:
        """Return the windows at these places that overlap or touch this one."""
        first, after, unit, windows = window.start - self.base, window.end - self.base, self.unit, []
        for place in places:
            start, size = place if isinstance(place, tuple) else (place * unit, unit)
            if start <= after and first <= start + size:
                windows.append(self.window(place))
        return windows


class _Line(Carrier, msgspec.Struct, array_like=True):
    """A window in a chunk: its place, and what differs from the defaults, which are left out at the end."""

    _carried: ClassVar[tuple[str, ...]] = ("accumulator", "trigger", "emitted")

    place: _Place
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
_encode_lines = msgspec.json.Encoder(order="deterministic").encode_lines
_NO_REST = tuple(_DEFAULTS[4:])


class LineCodec:
    """Encodes the windows of a chunk, each on a line.

    Args:
        values: the codec of users' values.
        keeps_latest: whether the event times of elements count in every window, not in the global one only.
    """

    def __init__(self, values: ValueCodec, *, keeps_latest: bool) -> None:
        self._encode, self._decode = values.encode, values.of(list[_Line]).decode
        self._keeps_latest = keeps_latest

    def encode(self, windows: Mapping[_Place, WindowState], base: int) -> dict[_Place, bytes]:
        """Encode windows by place; ``base``: what times are relative to, event time, microseconds."""
        lines = [self._line(each, place, base) for place, each in windows.items()]
        values = [value for each in windows.values() for value in (each.trigger, *each.contents.accumulator)]
        if is_plain(values) and not any(each.emitted for each in windows.values()):
            data = _encode_lines(lines)
            if b"null" not in data:
                return dict(zip(windows, data.splitlines(keepends=True), strict=True))
        for line in lines:
            line[0] = line[0] if isinstance(line[0], int) else [*line[0]]
        return {place: self._encode(line) + b"\n" for place, line in zip(windows, lines, strict=True)}

    def _line(self, window_state: WindowState, place: _Place, base: int) -> list[Any]:
        """Return the values of a line."""
        window, contents = window_state.window, window_state.contents
        flags = (
            window_state.passed
            | window_state.was_on_time << 1
            | window_state.finished << 2
            | window_state.holds << 3
        )
        is_known = window_state.latest > MIN_TIME and (self._keeps_latest or window == GLOBAL)
        latest = window_state.latest - base if is_known else None
        line: list[Any] = [place, flags, window_state.fresh, contents.count, contents.accumulator]
        rest = (window_state.trigger, window_state.panes, latest, contents.values, window_state.emitted)
        if rest != _NO_REST:
            line += rest
        while len(line) > 1 and line[-1] == _DEFAULTS[len(line) - 2]:
            line.pop()
        return line

    def decode(self, lines: Mapping[Window, bytes], base: int) -> list[WindowState]:
        """Decode the lines of windows."""
        decoded = self._decode(b"[%b]" % b",".join(lines.values()))
        return [self._window_state(window, line, base) for window, line in zip(lines, decoded, strict=True)]

    def _window_state(self, window: Window, read: _Line, base: int) -> WindowState:
        latest = MIN_TIME if read.latest is None else base + read.latest
        passed, was_on_time, finished, holds = _FLAGS[read.flags]
        return WindowState(
            window, read.trigger, Contents(read.count, read.accumulator, read.values), latest,
            read.fresh, read.panes, passed, was_on_time, finished, read.emitted, holds,
        )  # fmt: skip


def _little_endian(column: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
