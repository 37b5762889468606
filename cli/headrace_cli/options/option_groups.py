"""Options that belong together, as one value: a command's parameter that is a dataclass is asked for field by field."""

import functools
import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

from headrace_cli.options.choices import FAILURES, PARTS
from headrace_properties.target_kinds import EFFECT

LONGEST_S = 1e9
"""The longest time, in seconds, that an option takes: thirty years, and not for ever (``inf``), which no timer can wait."""

GENERAL, SPARK = "General", "Spark"
"""Panels of help: what most use, and what only Spark jobs heed."""

DEFAULT_FEED = "feed"
"""What a module calls the function that makes its input."""

PipelineArgument = Annotated[
    str, typer.Argument(metavar="MODULE:PIPELINE", help="The pipeline, such as my_job:pipeline.")
]
FeedOption = Annotated[
    str, typer.Option(metavar="NAME", help="Function of the same module that makes the input from a seed.")
]
JobsOption = Annotated[int | None, typer.Option(min=1, help="Number of processes. Default: one per CPU.")]
PromiseOption = Annotated[
    list[str] | None,
    typer.Option(
        "--promise",
        metavar="NAME",
        help="Judge by this promise of the module only; more than once for more. Default: all in its list promises.",
    ),
]

CodeTimeoutOption = Annotated[
    float,
    typer.Option(
        "--code-timeout",
        min=0.1,
        max=LONGEST_S,
        metavar="SECONDS",
        help="A call of your code that takes longer is taken to never end.",
    ),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="Print all tables, and the whole input of a failure.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace files that already exist.")]
HistoryOption = Annotated[
    Path | None,
    typer.Option("--history", metavar="FILE.jsonl", help="Save what happened, for [bold]headrace check[/]."),
]
WithoutOption = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help=f"Leave this part out of the protocol, to see what it prevents: {', '.join(PARTS)}.",
    ),
]
ProtocolOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Run this protocol instead: a broken one that [bold]headrace mutants --list[/] names, or MODULE:NAME of your own.",
    ),
]
AllowEffectOption = Annotated[
    str,
    typer.Option(
        "--allow",
        metavar=EFFECT,
        help="Let your code change files, use sockets and start processes; otherwise that is refused.",
    ),
]


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What ``headrace verify`` prints and saves."""

    PANEL: ClassVar = "Output"

    verbose: VerboseOption = False
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to save a failure, besides where it is kept."),
    ] = None
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save the leading failure as a page: its story, a diagram and an animation."
        ),
    ] = None
    history: HistoryOption = None
    failures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where failures are kept, to be tried first the next time.",
            show_default=str(FAILURES),
        ),
    ] = None
    force: ForceOption = False
    as_json: JsonOption = False


def names_of(option: str) -> list[str]:
    """Split an option's value at its commas."""
    return [name.strip() for name in option.split(",") if name.strip()]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses whose fields are options of the command line; each field's annotation says which."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation for parameter in parameters if is_dataclass(parameter.annotation)
    }
    flat: list[inspect.Parameter] = []
    for parameter in parameters:
        flat += (
            _fields_of(parameter.annotation)
            if parameter.name in groups
            else [parameter.replace(kind=parameter.KEYWORD_ONLY)]
        )

    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    functools.update_wrapper(run, command)
    del run.__wrapped__  # type: ignore[attr-defined]  # what it asks for is not what the command takes
    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _fields_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=_in_panel(hints[field.name], getattr(group, "PANEL", None)),
        )
        for field in fields(group)
    ]


def _in_panel(hint: Any, panel: str | None) -> Any:
    """Return a field's annotation with the panel of its group, unless the option names its own."""
    option = copy(hint.__metadata__[0])
    option.rich_help_panel = option.rich_help_panel or panel
    return Annotated[hint.__origin__, option]
