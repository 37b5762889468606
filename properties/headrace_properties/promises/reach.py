"""Watch which parts of a promise's code are evaluated, until what it claims was tested."""

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from headrace_properties.promises.claims import PromiseCondition, Span, claims_of
from headrace_properties.promises.promise import Promise


class Reach:
    """How far a run has come in a promise.

    Args:
        promise: which.

    Attributes:
        claims: what it claims; none if that is not understood.
        tested: one of them was tested, or there is none.
    """

    __slots__ = ("_spans", "claims", "tested")

    def __init__(self, promise: Promise) -> None:
        self.claims: tuple[PromiseCondition, ...] = claims_of(promise)
        self.tested = not self.claims
        self._spans: set[Span] = set()

    @property
    def untold(self) -> str:
        """Why a promise that holds says nothing."""
        return f"its case did not come up, or only the first part of what it says: {self.claims[0]}"

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch a call. Another tracer, such as of coverage, goes on meanwhile."""
        before, known = sys.gettrace(), len(self._spans)
        sys.settrace(_tracer({claim.file for claim in self.claims}, self._spans, before))
        try:
            yield
        finally:
            sys.settrace(before)
            if len(self._spans) > known:
                self.tested = any(claim.is_tested(self._spans) for claim in self.claims)


def _tracer(files: set[str], spans: set[Span], before: Any) -> Any:
    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        theirs = None if before is None else before(frame, event, argument)
        if frame.f_code.co_filename not in files:
            return theirs
        places = _places_of(frame.f_code)
        frame.f_trace_opcodes = True

        def step(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal theirs
            if event == "opcode":
                place = places[frame.f_lasti // 2]
                if place is not None:
                    spans.add(place)
            elif theirs is not None:
                theirs = theirs(frame, event, argument)
            return step

        return step

    return enter


@functools.lru_cache(maxsize=256)
def _places_of(code: CodeType) -> list[Span | None]:
    """Return where each instruction of some code is written; ``None``: nowhere."""
    return [
        None
        if line is None or end_line is None
        else (code.co_filename, line, -1 if column is None else column, end_line, end_column or 0)
        for line, end_line, column, end_column in code.co_positions()
    ]
