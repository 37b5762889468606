"""Values in a picture: decoded by their own codecs, and harmless wherever the picture is shown."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from headrace import Encoded, JsonCodec, Pipeline, StateCodec, TypedCodec
from headrace import history as h
from headrace.api.codecs import decode_state
from headrace.wire.rows import Production
from headrace_properties.printable import visible


class Codecs:
    """What decodes the values of a run.

    Args:
        pipelines: the versions that ran; of a stream or computation of several, the first counts.
    """

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._streams = {
            stream: pipeline.codec(stream) for pipeline in reversed(pipelines) for stream in pipeline.streams
        }
        self._states = {
            name: spec.state_codec
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
                state = _text(codec, delta.state) if delta.state else delta.state
                return replace(event, delta=replace(delta, state=state, productions=made))
            case _:
                return event

    def _readable(self, production: Production) -> Production:
        return replace(production, value=_text(self._streams.get(production.stream), production.value))


def _text(codec: StateCodec | None, data: Encoded) -> bytes:
    if codec is None or isinstance(codec, JsonCodec | TypedCodec):
        return bytes(data)
    try:
        return repr(decode_state(codec, data)).encode()
    except Exception:  # noqa: BLE001  a codec or a repr may be the user's
        return bytes(data)


def harmless(document: Any) -> Any:
    """Write out the characters of a document's texts that steer a screen or reorder a line."""
    match document:
        case str():
            return visible(document)
        case dict():
            return {harmless(name): harmless(value) for name, value in document.items()}
        case list() | tuple():
            return [harmless(value) for value in document]
        case _:
            return document
