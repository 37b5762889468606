"""Keep verdicts although stdout or stderr is closed or full.

Rules of this file:

* A stream that takes no more raises nothing, so that the command does the rest of its work.
* What stdout refuses because its disk is full goes to stderr, and at the end the command exits with 2 instead of its own code.
* A reader that wants no more, such as ``head``, is no error: the exit code is still the verdict.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_STDOUT, _STDERR = 1, 2


class _Descriptor(io.FileIO):
    """A file descriptor that accepts everything; what the system refuses goes to another descriptor, or is dropped.

    Args:
        number: of the descriptor.
        instead: another one; ``None``: nowhere.

    Attributes:
        refusal: why the system took no more; ``""``: it took all, or its reader wants no more.
    """

    def __init__(self, number: int, instead: int | None) -> None:
        super().__init__(number, "wb", closefd=False)
        self.refusal = ""
        self._number = number
        self._instead = instead
        self._is_refused = False

    def write(self, data: Any, /) -> int:
        """Write some bytes, and return how many."""
        if not self._is_refused:
            try:
                return os.write(self._number, data)
            except OSError as error:
                self._is_refused = True
                if error.errno == errno.EPIPE:
                    self._instead = None
                else:
                    self.refusal = error.strerror or str(error)
        if self._instead is not None:
            try:
                return os.write(self._instead, data)
            except OSError:
                self._instead = None
        return len(data)


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Prevent failures within that are caused by a closed or full stdout or stderr.

    Raises:
        SystemExit: stdout is closed, or has taken no more; with exit code 2.
    """
    stdout_closed = sys.stdout is None
    _fill_closed()
    errors = _Descriptor(_STDERR, None)
    sys.stderr = _text(errors, sys.stderr, line_buffering=True)
    if stdout_closed:
        _stop("stdout is closed")
    results = _Descriptor(_STDOUT, _STDERR)
    sys.stdout = _text(results, sys.stdout, line_buffering=sys.stdout.isatty())
    try:
        yield
    finally:
        sys.stdout.flush()
        if results.refusal:
            _stop(f"cannot write to stdout: {results.refusal}")


def _fill_closed() -> None:
    """Prevent files opened later from taking the number of a closed stream."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(number)


def _text(raw: _Descriptor, before: TextIO | None, *, line_buffering: bool) -> TextIO:
    encoding = before.encoding if before is not None else "utf-8"
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, encoding, errors="backslashreplace", line_buffering=line_buffering)


def _stop(reason: str) -> None:
    from headrace_cli.terminal.exit import ExitCode

    sys.stderr.write(f"Error: {reason}\n")
    raise SystemExit(ExitCode.WRONG_USE)
