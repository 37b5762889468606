"""A key's row (Dataflow 2.2; MillWheel 6.2): few windows as they are, many in chunks, of which only those concerned are read.

Rules of this file: a row with up to `MOST` windows is JSON. One with more begins with `_CHUNKED`, and has its windows in chunks,
in the order of windows, behind a table of what must be known of each chunk: where it ends, and when something is due in it. So a
record costs the same however many windows there are, but for a copy of the row. Both forms are read, whichever is written.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, ClassVar, NamedTuple

import msgspec

from headrace import MAX_TIME, MIN_TIME
from headrace.dataflow.codecs import Carrier, ValueCodec, is_plain
from headrace.dataflow.contents import Contents
from headrace.dataflow.elements import GLOBAL, Window
from headrace.dataflow.panes import Pane

MOST = 32
"""Windows in a chunk, at most."""

_CHUNKED = 2
_FRONT = Struct("<BII")
_Bytes = bytes | memoryview | array  # type: ignore[type-arg]
_LAST_END, _LAST_START, _BASE, _UNIT, _BYTES, _COUNT, _FRESH = range(7)
_DUE = slice(7, 12)
_WIDTH = 12


class WindowState(Carrier, msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """A key's state for one window.

    Attributes:
        window: the window.
        trigger: state of its trigger.
        contents: contents of its next pane.
        latest: greatest event time of its elements, microseconds. If a pane's time comes from its elements, what that of those
            since the last pane comes to; `MIN_TIME`: none of them was on time.
        fresh: number of elements since the last pane.
        panes: number of panes emitted so far; a merge adds up those of its parts.
        passed: whether the watermark has reached its end.
        was_on_time: whether a pane was emitted after that, here or in a merged part.
        finished: whether its trigger is finished; then nothing else is kept.
        emitted: panes to retract with the next firing.
        holds: whether an on-time element waits in it, so that the output watermark must not pass its end.
    """

    _carried: ClassVar[tuple[str, ...]] = ("trigger", "contents", "emitted")

    window: Window
    trigger: Any = None
    contents: Contents = msgspec.field(default_factory=Contents)
    latest: int = MIN_TIME
    fresh: int = 0
    panes: int = 0
    passed: bool = False
    was_on_time: bool = False
    finished: bool = False
    emitted: list[Pane] = msgspec.field(default_factory=list)
    holds: bool = False

    def is_plain(self) -> bool:
        """Look at its values without a copy."""
        return not self.emitted and is_plain(self.contents.accumulator) and is_plain(self.trigger)


class Due(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """When something is next due for a window, or for the first of several; `MAX_TIME`: never.

    Attributes:
        event: watermark at which something is due, event time, microseconds.
        wall: clock reading at which something is due, wall time, microseconds; without the boundaries of a micro-batch engine.
        hold: event time, microseconds, that the output watermark must not pass until ``wall``.
        end: first window end that the watermark has not passed, event time, microseconds; sets no alarm.
        idle: when a trigger with nothing to emit restarts, wall time, microseconds; sets no alarm.
    """

    event: int = MAX_TIME
    wall: int = MAX_TIME
    hold: int = MAX_TIME
    end: int = MAX_TIME
    idle: int = MAX_TIME

    def __or__(self, other: "Due") -> "Due":
        """Return the earlier of each time."""
        return Due(
            min(self.event, other.event),
            min(self.wall, other.wall),
            min(self.hold, other.hold),
            min(self.end, other.end),
            min(self.idle, other.idle),
        )

    def loses(self, before: "Due", after: "Due") -> bool:
        """Return whether this minimum may be outdated because one of its windows changed from ``before`` to ``after``."""
        return (
            self.event == before.event < after.event
            or self.wall == before.wall < after.wall
            or self.hold == before.hold < after.hold
            or self.end == before.end < after.end
            or self.idle == before.idle < after.idle
        )


NOTHING_DUE = Due()


class KeyState(Carrier, msgspec.Struct, array_like=True, omit_defaults=True, dict=True):
    """The durable state of one key.

    Attributes:
        windows: state of each window that has not been collected, as far as the row has been read.
        next_batch: next boundary at which a micro-batch engine evaluates, wall time, microseconds; ``None``: nothing is new.
        percentiles: reported percentile watermarks by name, event time, microseconds.
        dropped: number of dropped elements: later than the allowed lateness, or after their trigger was finished.
        due: earliest due times of all windows, so that an element need not visit every window.
    """

    _carried: ClassVar[tuple[str, ...]] = ("windows",)

    windows: list[WindowState] = msgspec.field(default_factory=list)
    next_batch: int | None = None
    percentiles: dict[str, int] = msgspec.field(default_factory=dict)
    dropped: int = 0
    due: Due = NOTHING_DUE

    def is_plain(self) -> bool:
        """Look at each window's values without a copy."""
        return all(map(WindowState.is_plain, self.windows))

    @property
    def unread(self) -> "Unread | None":
        """Its other windows, if not all have been read; not a part of the row itself."""
        return self.__dict__.get("unread")

    @unread.setter
    def unread(self, unread: "Unread | None") -> None:
        self.__dict__["unread"] = unread

    def __repr__(self) -> str:
        """Show the windows that have been read, and the number of the others."""
        others = f", and {len(self.unread):,} windows that have not been read" if self.unread else ""
        fields = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({', '.join(fields)}{others})"

    def read(self, found: list[WindowState]) -> "KeyState":
        """Add windows that have been read; return the state itself."""
        self.windows += found
        return self


class HeldKeyState(KeyState, array_like=True, omit_defaults=True, dict=True):
    """The state of a key whose panes have the event times of elements.

    Attributes:
        leaving: panes that are to be sent, which the output watermark must not overtake.
    """

    _carried: ClassVar[tuple[str, ...]] = ("windows", "leaving")

    leaving: list[Pane] = msgspec.field(default_factory=list)

    def is_plain(self) -> bool:
        """Look at each window's values and each pane's without a copy."""
        return super().is_plain() and all(map(Pane.is_plain, self.leaving))


class Unread:
    """The windows of a row that have not been read.

    Args:
        table: columns, with a number for each chunk: its last window's end and start, first start and usual size, microseconds;
            its bytes, its windows, whether any of them has new elements, and the five times of their `Due`.
        data: the chunks.
        lines: the codec of a chunk's windows.
        most: number of windows in a chunk, at most.
    """

    __slots__ = (
        "_added",
        "_chunks",
        "_columns",
        "_data",
        "_lines",
        "_mark",
        "_most",
        "_single",
        "_table",
        "_taken",
        "changed",
    )

    def __init__(self, table: "array[int]", data: memoryview, lines: "LineCodec", most: int) -> None:
        view, chunks = memoryview(table), len(table) // _WIDTH
        self._columns = [view[chunks * number : chunks * (number + 1)] for number in range(_WIDTH)]
        self._table, self._data, self._lines, self._most = table, data, lines, most
        self._chunks, self._mark = chunks, (0, 0)
        self._taken: dict[int, Due] = {}
        self._single: dict[Window, tuple[int, bytes]] = {}
        self._added: dict[Window, Due] = {}
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
        if len(windows) > 1:
            return self._take({self._place(window) for window in windows})
        found = []
        for window in windows:
            number = self._place(window)
            if number < self._chunks and number not in self._taken and window not in self._single:
                grid, chunk = self._grid(number), self._chunk(number)
                line = _find(chunk, grid.begins(window))
                if line:
                    self._single[window] = number, line
                    found.append(self._lines.decode(line, grid))
        return found

    def touching(self, window: Window) -> list[WindowState]:
        """Read the chunks with windows that overlap or touch this one, if no two of the row's windows do."""
        first, starts = bisect_left(self._columns[_LAST_END], window.start), self._columns[_BASE]
        after = next((i for i in range(first, len(starts)) if starts[i] > window.end), len(starts))
        return self._take(range(first, after))

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

    def note(self, window: Window, before: Sequence[Due], after: Due) -> list[WindowState]:
        """Note when something is due for a window; read its chunk if that changed. ``before``: when it was for its parts."""
        if not before:
            self._added[window] = after
        elif len(before) > 1 or before[0] != after:
            self.changed = True
            return self._take([number for number, _ in self._single.values()])
        return []

    def rest_for(self, windows: Iterable[WindowState]) -> list[WindowState]:
        """Read the rest of the chunks that cannot be written with only these windows changed."""
        numbers = [number for number, _ in self._single.values()] if self.changed else []
        for window_state in windows:
            window = window_state.window
            place = self._place(window)
            if not (window in self._single or place == self._chunks or self._has_room(place, window)):
                numbers.append(place)
        gone = self._single.keys() - {window_state.window for window_state in windows}
        return self._take([*numbers, *(self._single[window][0] for window in gone)])

    def put_back(
        self, windows: Sequence[WindowState], due_of: Callable[[WindowState], Due]
    ) -> tuple[int, list[_Bytes]]:
        """Return the number of chunks, and the table and the chunks with these windows, read or new, in their places."""
        if len(windows) == 1 and windows[0].window in self._single and not self._taken:
            return self._chunks, self._with_one(windows[0])
        groups: dict[tuple[int, bool], list[WindowState]] = {}
        for number in self._taken:
            groups[number, True] = []
        for window_state in sorted(windows, key=_order):
            groups.setdefault(self._target(window_state.window), []).append(window_state)
        columns, parts, copied = [array("q") for _ in self._columns], list[_Bytes](), 0
        for (number, replaces), group in sorted(groups.items()):
            self._copy(columns, parts, copied, number)
            copied = number + replaces
            if replaces and number not in self._taken:
                rows = iter([self._edited(number, group)])
            else:
                at_end = copied == self._chunks
                rows = self._written(group, number if replaces else None, due_of, at_end=at_end)
            for chunk, row in rows:
                parts.append(chunk)
                for column, entry in zip(columns, row, strict=True):
                    column.append(entry)
        self._copy(columns, parts, copied, self._chunks)
        return len(columns[0]), [*map(_little_endian, columns), *parts]

    def _with_one(self, window_state: WindowState) -> list[_Bytes]:
        """Return the table and the chunks with one window changed."""
        number, _ = self._single[window_state.window]
        chunk, row = self._edited(number, [window_state])
        table = self._table[:]
        table[number :: self._chunks] = array("q", row)
        before, after = self._data[: self._begin(number)], self._data[self._begin(number + 1) :]
        return [_little_endian(table), before, chunk, after]

    def _place(self, window: Window) -> int:
        """Return the chunk in whose range a window is; their number if it is after all of them."""
        ends, starts = self._columns[_LAST_END], self._columns[_LAST_START]
        place = bisect_left(ends, window.end)
        while place < len(ends) and ends[place] == window.end and starts[place] < window.start:
            place += 1
        return place

    def _target(self, window: Window) -> tuple[int, bool]:
        """Return the chunk into which to write a window, and whether the new one replaces it or comes before it."""
        place = self._place(window)
        if place in self._taken or window in self._single or self._has_room(place, window):
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

    def _begin(self, number: int) -> int:
        """Return where a chunk begins, quickly if it is the last one asked for or soon after that."""
        known, begin = self._mark if number >= self._mark[0] else (0, 0)
        begin += sum(self._columns[_BYTES][known:number])
        self._mark = number, begin
        return begin

    def _chunk(self, number: int) -> bytes:
        begin = self._begin(number)
        return bytes(self._data[begin : begin + self._columns[_BYTES][number]])

    def _take(self, numbers: Iterable[int]) -> list[WindowState]:
        found: list[WindowState] = []
        for number in numbers:
            if number in self._taken or number >= self._chunks:
                continue
            grid, chunk = self._grid(number), self._chunk(number)
            self._taken[number] = Due(*(column[number] for column in self._columns[_DUE]))
            for column in self._columns[_DUE]:
                column[number] = MAX_TIME
            states = (self._lines.decode(line, grid) for line in chunk.splitlines())
            found += [window_state for window_state in states if window_state.window not in self._single]
        return found

    def _copy(self, columns: "Sequence[array[int]]", parts: list[_Bytes], first: int, after: int) -> None:
        if first < after:
            parts.append(self._data[self._begin(first) : self._begin(after)])
            for column, known in zip(columns, self._columns, strict=True):
                column.frombytes(known[first:after].cast("B"))

    def _edited(self, number: int, windows: Sequence[WindowState]) -> tuple[bytes, tuple[int, ...]]:
        """Return a chunk in which only these windows are changed or added, with its row in the table."""
        last_end, last_start, base, unit, _, count, fresh, *times = self._table[number :: self._chunks]
        chunk, order, grid = self._chunk(number), (last_end, last_start), _Grid(base, unit)
        for window_state in windows:
            _, before = self._single.get(window_state.window, (number, b""))
            line = self._lines.encode(window_state, grid)
            chunk = chunk.replace(before, line) if before else chunk + line
            count += not before
            if window_state.window in self._added:
                times = [*map(min, times, msgspec.structs.astuple(self._added[window_state.window]))]
            order = max(order, window_state.window.order)
        fresh = fresh or any(window_state.fresh for window_state in windows)
        return chunk, (*order, base, unit, len(chunk), count, fresh, *times)

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
                added = (self._added[each.window] for each in part if each.window in self._added)
                due = _first([self._taken[number], *added])
            chunk = b"".join(self._lines.encode(each, grid) for each in part)
            order, fresh = part[-1].window.order, any(each.fresh for each in part)
            yield chunk, (*order, *grid, len(chunk), len(part), fresh, *msgspec.structs.astuple(due))


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

    def begins(self, window: Window) -> bytes:
        """Return how a window's line begins."""
        place = self.place(window)
        return b"[%d" % place if isinstance(place, int) else b"[[%d,%d]" % (*place,)


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
        self._encode, self._decode = values.encode, values.of(_Line).decode
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
        return self._encode(line) + b"\n"

    def decode(self, line: bytes, grid: _Grid) -> WindowState:
        """Decode a window."""
        read: _Line = self._decode(line)
        latest = MIN_TIME if read.latest is None else grid.base + read.latest
        passed, was_on_time, finished, holds = _FLAGS[read.flags]
        return WindowState(
            grid.window(read.place), read.trigger, Contents(read.count, read.accumulator, read.values), latest,
            read.fresh, read.panes, passed, was_on_time, finished, read.emitted, holds,
        )  # fmt: skip


class RowCodec:
    """The codec of a grouping's rows.

    Args:
        values: the codec of users' values in them.
        due_of: tells when something is due for a window.
        held: whether its rows are of the class `HeldKeyState`.
        most: number of windows from which on a row has chunks, and in a chunk.
    """

    def __init__(
        self,
        values: ValueCodec,
        due_of: Callable[[WindowState], Due],
        *,
        held: bool = False,
        most: int = MOST,
    ) -> None:
        self._values, self._due_of, self._held, self._most = values, due_of, held, most
        self._type = HeldKeyState if held else KeyState
        self._whole, self._lines = values.of(self._type), LineCodec(values, keeps_latest=held)

    def __reduce__(self) -> tuple[Callable[..., "RowCodec"], tuple[object, ...]]:
        """Pickle as a constructor call."""
        return _row_codec, (self._values, self._due_of, self._held, self._most)

    def __repr__(self) -> str:
        """Format as the codec of a row with few windows."""
        return repr(self._whole)

    def encode(self, state: KeyState) -> bytes:
        """Encode a row.

        Raises:
            TypeError: a value in it is an instance of a class that was not declared.
        """
        unread, windows = state.unread, state.windows
        if unread is None:
            if len(windows) <= self._most:
                return self._whole.encode(state)
            unread = Unread(array("q"), memoryview(b""), self._lines, self._most)
        elif unread.is_at_most(self._most - len(windows)):
            return self._whole.encode(state.read(unread.all()))
        windows = state.read(unread.rest_for(windows)).windows
        chunks, parts = unread.put_back(windows, self._due_of)
        front = self._whole.encode(msgspec.structs.replace(state, windows=[]))
        return b"".join([_FRONT.pack(_CHUNKED, len(front), chunks), front, *parts])

    def decode(self, data: bytes) -> KeyState:
        """Decode a row; many windows are not read yet."""
        if data[0] != _CHUNKED:
            return self._whole.decode(data)  # type: ignore[no-any-return]
        _, front, chunks = _FRONT.unpack_from(data)
        view, at = memoryview(data), _FRONT.size + front
        state: KeyState = self._whole.decode(data[_FRONT.size : at])
        table, data_begins = array("q"), at + 8 * _WIDTH * chunks
        table.frombytes(view[at:data_begins])
        state.unread = Unread(_little_endian(table), view[data_begins:], self._lines, self._most)
        return state


def _row_codec(
    values: ValueCodec,
    due_of: Callable[[WindowState], Due],
    held: bool,  # noqa: FBT001  as it is pickled
    most: int,
) -> RowCodec:
    return RowCodec(values, due_of, held=held, most=most)


def _little_endian(column: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        column.byteswap()
    return column
