"""Route output: results to stdout, progress and errors to stderr.

Rule of this file: what a user's data contains cannot steer the terminal.
"""

import sys
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from headrace_properties.printable import visible

_PLAIN_WIDTH = 100
"""Width of tables written to a file or a pipe, in columns; fixed, so that logs can be compared."""


def output_console() -> Console:
    """Return the console for results, with colours and the window's width only on a terminal."""
    return _console(sys.stdout)


def error_console() -> Console:
    """Return the console for progress and errors."""
    return _console(sys.stderr)


class _HarmlessConsole(Console):
    """A console that shows control characters instead of sending them; no other hook of Rich sees all text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render, and write out the control characters of each text."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(visible(text), style)


def _console(file: TextIO) -> Console:
    """Return a console without markup, emoji or guesses at what is a number: ``verify app:x:y`` must not become a red cross."""
    width = None if file.isatty() else _PLAIN_WIDTH
    return _HarmlessConsole(file=file, width=width, markup=False, emoji=False, highlight=False)
