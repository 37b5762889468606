"""Values and states of a run, decoded by their own codecs, for people."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from headrace import Encoded, JsonCodec, Pipeline, StateCodec, TypedCodec
from headrace import history as h
from headrace.api.codecs import decode_state
from headrace.dataflow.row_codec import KeyState
from headrace.wire.rows import Production


class Codecs:
    """What decodes the values of a run.

    Args:
        pipelines: the versions that ran; of a stream or computation of several, the first counts.
    """

    def __init__(self, pipelines: Sequence[Pipeline] = ()) -> None:
        self._streams = {
            stream: pipeline.codec(stream) for pipeline in reversed(pipelines) for stream in pipeline.streams
        }
        self._states = {
            name: spec.state_codec
            for pipeline in reversed(pipelines)
            for name, spec in pipeline.computations.items()
        }
        self._initial = {
            name: spec.initial_state
            for pipeline in reversed(pipelines)
            for name, spec in pipeline.computations.items()
        }

    def readable(self, event: h.Event) -> h.Event:
        """Return an event whose values are text: what their codecs make of them, where that is not JSON."""
        match event:
            case h.Injected() | h.Executed():
                return replace(event, productions=tuple(map(self._readable, event.productions)))
            case h.Output():
                return replace(event, production=self._readable(event.production))
            case h.Applied():
                delta, codec = event.delta, self._states.get(event.computation)
                productions = tuple(map(self._readable, delta.productions))
                state = delta.state
                if state is not None:  # the initial state is stored as nothing
                    data = state or self._initial.get(event.computation, b"")
                    state = (
                        bytes(data) if _is_text(codec) else repr(self.state(event.computation, data)).encode()
                    )
                return replace(event, delta=replace(delta, state=state, productions=productions))
            case _:
                return event

    def value(self, production: Production) -> str:
        """Write the value of a record, as Python writes it; without its codec, its bytes as text."""
        return _shown(self._streams.get(production.stream), production.value)

    def state(self, computation: str, data: Encoded) -> Any:
        """Return a decoded state; ``b""`` is the initial one. Without its codec, its bytes as `Undecoded` text.

        Of a grouping of the Dataflow layer, it is a dict with the contents of each window.
        """
        codec, data = self._states.get(computation), data or self._initial.get(computation, b"")
        try:
            state = Undecoded(_plain(data)) if codec is None else decode_state(codec, data)
        except Exception:  # noqa: BLE001  the codec may be the user's
            return Undecoded(_plain(data))
        return _windows_of(state) if isinstance(state, KeyState) else state

    def _readable(self, production: Production) -> Production:
        return replace(production, value=_text(self._streams.get(production.stream), production.value))


class Undecoded(str):
    """Text of a value that nothing decodes; shown as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the text itself."""
        return str(self)


def _windows_of(state: KeyState) -> dict[str, Any]:
    """Return what each window of a grouping holds, and how many elements it has dropped, for people."""
    windows = {repr(window.window).removeprefix("Window"): window for window in state.windows}
    held: dict[str, Any] = {
        name: Undecoded("finished") if window.finished
        else window.contents.accumulator[0] if window.contents.accumulator
        else [Undecoded(value) for value, count in window.contents.values.items() for _ in range(count)]
        for name, window in windows.items()
    }  # fmt: skip
    if state.unread:
        held["other windows"] = len(state.unread)
    if state.dropped:
        held["dropped"] = state.dropped
    return held


def _text(codec: StateCodec | None, data: Encoded) -> bytes:
    return bytes(data) if _is_text(codec) else _shown(codec, data).encode()


def _is_text(codec: StateCodec | None) -> bool:
    """Return whether what a codec writes can be shown as it is."""
    return codec is None or isinstance(codec, JsonCodec | TypedCodec)


def _shown(codec: StateCodec | None, data: Encoded) -> str:
    try:
        return _plain(data) if codec is None else repr(decode_state(codec, data))
    except Exception:  # noqa: BLE001  a codec or a repr may be the user's
        return _plain(data)


def _plain(data: Encoded) -> str:
    r"""Return bytes as text, or in hexadecimal digits.

    >>> _plain(b'{"count":1}'), _plain(b"\xff\x00"), _plain(b"")
    ('{"count":1}', '0xff00', 'nothing')
    """
    try:
        return bytes(data).decode() or "nothing"
    except UnicodeDecodeError:
        return f"0x{bytes(data).hex()}"
