"""The options that show a run: pictures and traces as files, and its explanation in sentences."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from headrace import Pipeline
from headrace.history import Event
from headrace_cli.terminal.files import ForceOption, OutputFiles, write_bytes
from headrace_cli.terminal.render import print_heading, print_text
from headrace_properties.explain.narrative import Narrative, narrate
from headrace_properties.explain.pictures.perfetto import perfetto_json
from headrace_properties.explain.pictures.spacetime import spacetime_html
from headrace_properties.explain.pictures.spacetime.still import spacetime_svg
from headrace_properties.search.inevitability import FailureRates
from headrace_properties.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Showing:
    """The ways to show a run: in sentences, and in files; ``None``: not requested."""

    explain: Annotated[
        bool, typer.Option("--explain", help="Explain in sentences how the first rule was violated.")
    ] = False
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Save an interactive space-time diagram, or both runs of a Spark job: one HTML file, for a browser.",
        ),
    ] = None
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Save a picture of what led to the violation."),
    ] = None
    perfetto: Annotated[
        Path | None,
        typer.Option("--perfetto", metavar="FILE", help="Save a trace for ui.perfetto.dev (JSON)."),
    ] = None
    force: ForceOption = False

    @property
    def pictures(self) -> bool:
        """Whether a file is requested."""
        return any(path is not None for _, path in self._paths())

    def files(self, inputs: Iterable[Path] = ()) -> OutputFiles:
        """Check before a run that the files can be written. ``inputs``: what the command reads.

        Raises:
            UnwritableFileError: one cannot.
        """
        files = OutputFiles(force=self.force, inputs=inputs)
        for option, path in self._paths():
            files.claim(path, f"--{option}")
        return files

    def save(
        self,
        files: OutputFiles,
        history: Sequence[Event],
        verdicts: Mapping[str, Verdict],
        *,
        title: str,
        subtitle: str,
        rates: FailureRates | None = None,
        pipelines: Sequence[Pipeline] = (),
    ) -> None:
        """Write the requested files. ``rates``: of failure, drawn beside the time; ``pipelines``: have the codecs."""
        said = {"title": title, "subtitle": subtitle}
        makers = {
            "html": lambda: spacetime_html(
                history, verdicts, **said, rates=rates, pipelines=pipelines
            ).encode(),
            "svg": lambda: spacetime_svg(
                history, verdicts, **said, rates=rates, pipelines=pipelines
            ).encode(),
            "perfetto": lambda: perfetto_json(history, title),
        }
        for option, path in self._paths():
            if path is not None:
                files.write(path, f"--{option}", write_bytes(makers[option]()))

    def document(
        self,
        history: Sequence[Event],
        verdicts: Mapping[str, Verdict],
        pipelines: Sequence[Pipeline],
    ) -> dict[str, Any]:
        """Return the additions to ``--json``. ``pipelines``: have the codecs."""
        return {"explanation": narrate(history, verdicts, pipelines=pipelines)} if self.explain else {}

    def print_story(
        self,
        console: Console,
        history: Sequence[Event],
        verdicts: Mapping[str, Verdict],
        pipelines: Sequence[Pipeline],
    ) -> None:
        """Print how the first rule was violated, if requested. ``pipelines``: have the codecs."""
        if self.explain:
            print_narrative(console, narrate(history, verdicts, pipelines=pipelines))

    def _paths(self) -> list[tuple[str, Path | None]]:
        return [("html", self.html), ("svg", self.svg), ("perfetto", self.perfetto)]


def print_narrative(console: Console, narrative: Narrative | None) -> None:
    """Print an explanation."""
    if narrative is None:
        print_heading(console, "Nothing is violated, so there is nothing to explain")
        return
    print_heading(console, f"How {narrative.invariant} was violated")
    for paragraph in narrative.paragraphs:
        print_text(console, paragraph, indent=2)


def print_saved(console: Console, saved: Sequence[Path]) -> None:
    """List the files that were saved."""
    if saved:
        print_heading(console, "Saved")
    for path in saved:
        console.print(f"  {path}", markup=False, highlight=False, soft_wrap=True)
