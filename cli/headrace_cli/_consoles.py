"""Where output goes: results to stdout, progress and errors to stderr."""

import sys
from typing import TextIO

from rich.console import Console

_PLAIN_WIDTH = 100
"""Columns of tables that go to a file or a pipe: the same everywhere, so that logs can be compared."""


def output_console() -> Console:
    """Results. Colours and the window's width only on a terminal."""
    return _console(sys.stdout)


def error_console() -> Console:
    """Progress and errors."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    """Without markup, emoji or guesses at what is a number: ``verify app:x:y`` must not become a red cross."""
    width = None if file.isatty() else _PLAIN_WIDTH
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)
