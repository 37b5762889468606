"""Run a user's code in a command: confined, limited, and its prints out of the way."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace_cli.options.option_groups import names_of
from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.render import print_text
from headrace_properties.search.guard import PRINTED_LINES, Guard, guarded
from headrace_properties.search.limits import CodeLimits, call_time_limited
from headrace_properties.target_kinds import EFFECT
from headrace_properties.user_frames import Place


@dataclass(frozen=True, slots=True)
class Confinement:
    """The limits of user code.

    Attributes:
        limits: of each call.
        allow: names of ``--allow``.
    """

    limits: CodeLimits = CodeLimits()  # noqa: RUF009  it is frozen
    allow: str = ""

    @contextmanager
    def entered(self, *, verbose: bool = False) -> Iterator[None]:
        """Guard and limit the code within, keep its prints off the report, and say at the end what was refused.

        Args:
            verbose: whether to show the first lines that the code has printed.
        """
        allows_effects = EFFECT in names_of(self.allow)
        base = sys._getframe(2)  # the caller's
        with guarded(allows_effects=allows_effects) as guard, call_time_limited(self.limits, base=base):
            yield
            _tell(guard, verbose=verbose)


def _tell(guard: Guard, *, verbose: bool) -> None:
    for effect, place in dict.fromkeys(guard.refused):
        print_text(
            error_console(),
            f"Note: refused: your code {effect} ({_shown(place)}). --allow {EFFECT} lets it happen",
        )
    lines = guard.printed.splitlines()
    if verbose and lines:
        print_text(error_console(), "Your code printed, among others:")
        for line in lines[:PRINTED_LINES]:
            print_text(error_console(), f"  {line}")


def _shown(place: Place) -> str:
    return f"{Path(place.file).name}, line {place.line}"
