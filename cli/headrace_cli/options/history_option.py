"""The option ``--history``: a run's History as a file for ``headrace check`` and ``headrace recheck``."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from headrace.histories import Header, save_history
from headrace.history import Event
from headrace_cli.terminal.files import OutputFiles

HISTORY = "--history"
SIMULATED = "the simulated cluster"

HistoryOption = Annotated[
    Path | None,
    typer.Option(HISTORY, metavar="FILE.jsonl", help="Save what happened, for [bold]headrace check[/]."),
]


def write_history(files: OutputFiles, path: Path | None, history: Iterable[Event], header: Header) -> None:
    """Write a History if requested; a file that cannot be written is reported, and the result is still shown."""
    if path is not None:
        files.write(path, HISTORY, lambda place: save_history(place, history, header))
