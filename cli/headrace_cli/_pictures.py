"""What shows a run: the options that save it as a picture or a trace, and its story in sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from headrace.history import Event
from headrace_cli._exit import UnwritableFileError
from headrace_cli._render import print_heading, print_text
from headrace_cli._replay_file import check_writable
from headrace_properties.explain.narrative import Narrative, narrate
from headrace_properties.verdict import Verdict
from headrace_scenarios.pictures.perfetto import perfetto_json
from headrace_scenarios.pictures.shiviz import shiviz_log
from headrace_scenarios.pictures.spacetime import spacetime_html
from headrace_scenarios.pictures.spacetime.still import spacetime_svg


@dataclass(frozen=True, slots=True)
class Showing:
    """How a run is to be shown: in sentences, and in files; ``None``: not asked for."""

    explain: Annotated[
        bool, typer.Option("--explain", help="Tell in sentences how the first rule came to be broken.")
    ] = False
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Save a space-time diagram: one HTML file, for a browser."
        ),
    ] = None
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Save a still picture of what led to the violation."),
    ] = None
    perfetto: Annotated[
        Path | None,
        typer.Option("--perfetto", metavar="FILE", help="Save a trace for ui.perfetto.dev (JSON)."),
    ] = None
    shiviz: Annotated[
        Path | None,
        typer.Option("--shiviz", metavar="FILE", help="Save a log with vector clocks for ShiViz."),
    ] = None

    def check(self) -> None:
        """Find out before a run that a file could not be written.

        Raises:
            UnwritableFileError: there is no such directory, or the path is one.
        """
        for option, path in self._paths():
            check_writable(path, f"--{option}")

    def save(
        self, history: Sequence[Event], verdicts: Mapping[str, Verdict], *, title: str, subtitle: str
    ) -> list[Path]:
        """Write the files that were asked for, and return them.

        Raises:
            UnwritableFileError: one can not be written.
        """
        makers = {
            "html": lambda: spacetime_html(history, verdicts, title=title, subtitle=subtitle).encode(),
            "svg": lambda: spacetime_svg(history, verdicts, title=title, subtitle=subtitle).encode(),
            "perfetto": lambda: perfetto_json(history, title),
            "shiviz": lambda: shiviz_log(history).encode(),
        }
        saved = [(option, path) for option, path in self._paths() if path is not None]
        for option, path in saved:
            try:
                path.write_bytes(makers[option]())
            except OSError as error:
                raise UnwritableFileError(str(path), error.strerror or str(error), f"--{option}") from error
        return [path for _, path in saved]

    def document(self, history: Sequence[Event], verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
        """What ``--json`` has besides."""
        return {"explanation": explanation_document(history, verdicts)} if self.explain else {}

    def print_story(
        self, console: Console, history: Sequence[Event], verdicts: Mapping[str, Verdict]
    ) -> None:
        """Print how the first rule came to be broken, if that was asked for."""
        if self.explain:
            print_narrative(console, narrate(history, verdicts))

    def _paths(self) -> list[tuple[str, Path | None]]:
        return [("html", self.html), ("svg", self.svg), ("perfetto", self.perfetto), ("shiviz", self.shiviz)]


def print_narrative(console: Console, narrative: Narrative | None) -> None:
    """Print how it came about."""
    if narrative is None:
        print_heading(console, "Nothing is violated, so there is nothing to explain")
        return
    print_heading(console, f"How {narrative.invariant} came to be broken")
    for paragraph in narrative.paragraphs:
        print_text(console, paragraph, indent=2)


def print_saved(console: Console, saved: Sequence[Path]) -> None:
    """Print what was saved."""
    if saved:
        print_heading(console, "Saved")
    for path in saved:
        console.print(f"  {path}", markup=False, highlight=False, soft_wrap=True)


def explanation_document(history: Sequence[Event], verdicts: Mapping[str, Verdict]) -> dict[str, Any] | None:
    """The story for ``--json``: sentences with the events that they tell."""
    told = narrate(history, verdicts)
    if told is None:
        return None
    return {
        "invariant": told.invariant,
        "sentences": [{"event": sentence.number, "text": sentence.text} for sentence in told.sentences],
        "left_out": told.left_out,
        "rule": told.rule,
    }
