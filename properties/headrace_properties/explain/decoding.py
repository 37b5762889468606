"""Values and states of a run, decoded by their own codecs, for people."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from headrace import Encoded, JsonCodec, Pipeline, StateCodec, TypedCodec
from headrace import history as h
from headrace.api.codecs import decode_state
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
                made = tuple(map(self._readable, delta.productions))
                state = delta.state
                if state is not None:  # the initial state is stored as nothing
                    state = _text(codec, state or self._initial.get(event.computation, b""))
                return replace(event, delta=replace(delta, state=state, productions=made))
            case _:
                return event

    def value(self, production: Production) -> str:
        """Write the value of a record, as Python writes it; without its codec, its bytes as text."""
        return _shown(self._streams.get(production.stream), production.value)

    def state(self, computation: str, data: Encoded) -> Any:
        """Return a decoded state; ``b""`` is the initial one. Without its codec, its bytes as `Undecoded` text."""
        codec, data = self._states.get(computation), data or self._initial.get(computation, b"")
        try:
            return Undecoded(_plain(data)) if codec is None else decode_state(codec, data)
        except Exception:  # noqa: BLE001  the codec may be the user's
            return Undecoded(_plain(data))

    def _readable(self, production: Production) -> Production:
        return replace(production, value=_text(self._streams.get(production.stream), production.value))


class Undecoded(str):
    """Text of a value that nothing decodes; shown as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the text itself."""
        return str(self)


def _text(codec: StateCodec | None, data: Encoded) -> bytes:
    if codec is None or isinstance(codec, JsonCodec | TypedCodec):
        return bytes(data)
    try:
        return repr(decode_state(codec, data)).encode()
    except Exception:  # noqa: BLE001  a codec or a repr may be the user's
        return bytes(data)


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
