"""Errors that pass through the user's code and do not end it."""

import sys
from types import FrameType
from typing import Any

from headrace_sim.spark import refusals
from headrace_sim.spark.sinks.sink_effects import EffectProbe, Swallowed


class HeardErrors:
    """Hears within of each error that passes through the user's code, in this thread. If that returns, it caught them all.

    ``probe``: that of the attempt. ``batch``: the index of the batch that runs.
    """

    def __init__(self, probe: EffectProbe, batch: int) -> None:
        self._probe, self._batch = probe, batch
        self._errors: list[Swallowed] = []
        self._last = 0

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, error: object, *_: object) -> None:
        sys.settrace(None)
        for heard in () if error else self._errors:
            self._probe.ledger.append(heard)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if event == "call" and (refusals.is_library(file) or file.startswith("<frozen ")):
            return None
        frame.f_trace_lines = False
        error = argument[1] if event == "exception" else None
        if (
            isinstance(error, BaseException)
            and not isinstance(error, StopIteration)
            and id(error) != self._last
        ):
            # The error itself is not kept: it would keep the frames' connections open.
            self._last, place = id(error), f"{file}:{frame.f_lineno}"
            description = (type(error).__name__, refusals.text_of(error).rstrip("."), place)
            self._errors.append(Swallowed(self._probe.attempt, self._batch, *description))
        return self._trace
