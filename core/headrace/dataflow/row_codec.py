"""A key's row (Dataflow 2.2; MillWheel 6.2): JSON with few windows, in chunks with many; both forms are always read."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import msgspec

from headrace import Encoded
from headrace.dataflow.panes import Pane
from headrace.dataflow.value_codecs import Carrier, ValueCodec, encode_plain
from headrace.dataflow.window_chunks import CHUNKED, EMPTY, ChunkedRow, LineCodec, Unread
from headrace.dataflow.window_states import NOTHING_DUE, Due, WindowState

MOST = 32
"""Windows in a chunk, at most."""


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
    def unread(self) -> Unread | None:
        """Its other windows, if not all have been read; not a part of the row itself."""
        return self.__dict__.get("unread")

    @unread.setter
    def unread(self, unread: Unread | None) -> None:
        self.__dict__["unread"] = unread

    def __repr__(self) -> str:
        """Show the windows that have been read, and the number of the others."""
        others = f", and {len(self.unread):,} windows that have not been read" if self.unread else ""
        fields = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({', '.join(fields)}{others})"

    def read(self, windows: list[WindowState]) -> "KeyState":
        """Add windows that have been read; return the state itself."""
        self.windows += windows
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


class RowCodec:
    """The codec of a grouping's rows.

    Args:
        values: the codec of users' values in them.
        due_of: tells when something is due for a window.
        held: whether its rows are of the class `HeldKeyState`.
        most: number of windows from which on a row has chunks, and in a chunk.
    """

    reads_ropes = True

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
        return partial(RowCodec, held=self._held, most=self._most), (self._values, self._due_of)

    def __repr__(self) -> str:
        """Format as the codec of a row with few windows."""
        return repr(self._whole)

    def encode(self, state: KeyState) -> Encoded:
        """Encode a row.

        Raises:
            TypeError: a value in it is an instance of a class that was not declared.
        """
        unread, windows = state.unread, state.windows
        if unread is None:
            if len(windows) <= self._most:
                return self._whole.encode(state)
            unread = Unread(EMPTY, self._lines, self._most)
        elif unread.is_at_most(self._most - len(windows)):
            return self._whole.encode(state.read(unread.all()))
        windows = state.read(unread.rest_for(windows)).windows
        rest = msgspec.structs.replace(state, windows=[])
        front = encode_plain(rest) if type(rest) is KeyState else self._whole.encode(rest)
        return unread.put_back(front, windows, self._due_of)

    def decode(self, data: Encoded) -> KeyState:
        """Decode a row; many windows are not read yet."""
        if not isinstance(data, ChunkedRow):
            data = bytes(data)
            if data[0] != CHUNKED:
                return self._whole.decode(data)  # type: ignore[no-any-return]
            data = ChunkedRow.of(data)
        state: KeyState = self._whole.decode(data.front)
        state.unread = Unread(data, self._lines, self._most)
        return state
