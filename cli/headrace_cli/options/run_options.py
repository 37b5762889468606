"""Options of ``headrace run``."""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from headrace import SECOND
from headrace_cli.options.option_groups import LONGEST_S, ForceOption, HistoryOption


class HostName(enum.StrEnum):
    """The values of ``--on`` and ``--compare``."""

    SIM = "sim"
    SPARK = "spark"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class InputOptions:
    """The way to read the lines.

    Attributes:
        stream: where records go that do not say; ``None``: the first injector's first output.
        key_field: field of the value that is the record's own key; ``None``: the line says, or the key is empty.
        timestamp_field: field of the value that is the timestamp; ``None``: the line is an envelope that says.
        slack_us: the low watermark is so far behind the newest timestamp; ``None``: it waits for the end.
    """

    stream: str | None = None
    key_field: str | None = None
    timestamp_field: str | None = None
    slack_us: int | None = None


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The input, and how its lines are read."""

    PANEL: ClassVar = "Input"

    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="JSON lines, each with a value and a timestamp; or a table, .csv or .parquet. A column of CSV is of numbers "
            "only if all its values are written as JSON writes numbers (007 is text); the key is always text.",
        ),
    ] = None
    feed: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Function of the module that makes the input, if there is no --input."
        ),
    ] = None
    stream: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Stream of the records. Default: the injector's first stream."),
    ] = None
    key: Annotated[str | None, typer.Option(metavar="FIELD", help="Field to use as the key.")] = None
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="Field to use as the timestamp; the whole line is then the value."
        ),
    ] = None
    slack: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=LONGEST_S,
            help="Distance of the low watermark behind the newest timestamp. Default: it waits for the end.",
        ),
    ] = None

    @property
    def of_lines(self) -> InputOptions:
        """The way to read lines."""
        slack_us = None if self.slack is None else round(self.slack * SECOND)
        return InputOptions(self.stream, self.key, self.timestamp, slack_us)


@dataclass(frozen=True, slots=True)
class WritingOptions:
    """The places of the output, and what it is compared with."""

    PANEL: ClassVar = "Output"

    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR|FILE.jsonl|-", help="Where to write the output; - is stdout."),
    ] = None
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="HOST|PATH", help="Compare with a run on another host, or with an earlier output."
        ),
    ] = None
    history: HistoryOption = None
    force: ForceOption = False
