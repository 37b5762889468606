"""Options that belong together, as one value: a command's parameter that is a dataclass is asked for field by field."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

LONGEST_S = 1e9
"""The longest time, in seconds, that an option takes: thirty years, and not for ever (``inf``), which no timer can wait."""

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
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
