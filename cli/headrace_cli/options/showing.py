"""The options that show a run: pictures and traces as files, and its explanation in sentences."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from headrace_cli.options.option_groups import ForceOption

if TYPE_CHECKING:
    from headrace_cli.terminal.files import OutputFiles


@dataclass(frozen=True, slots=True)
class Showing:
    """The ways to show a run: in sentences, and in files; ``None``: not requested."""

    PANEL: ClassVar = "Output"

    explain: Annotated[
        bool, typer.Option("--explain", help="Explain in sentences how the first rule was violated.")
    ] = False
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Save the story, a diagram and an animation as a page: one HTML file, for a browser.",
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
        return any(path is not None for _, path in self.paths)

    def files(self, inputs: Iterable[Path] = ()) -> "OutputFiles":
        """Check before a run that the files can be written. ``inputs``: what the command reads.

        Raises:
            UnwritableFileError: one cannot.
        """
        from headrace_cli.terminal.files import OutputFiles

        files = OutputFiles(force=self.force, inputs=inputs)
        for option, path in self.paths:
            files.claim(path, f"--{option}")
        return files

    @property
    def paths(self) -> list[tuple[str, Path | None]]:
        """The file of each option."""
        return [("html", self.html), ("svg", self.svg), ("perfetto", self.perfetto)]
