"""Refuse options that would have no effect on a target."""

import enum
from collections.abc import Iterator
from pathlib import Path

import typer

from headrace_properties.target_kinds import (
    OPTIONS,
    REPLAY_OPTIONS,
    SearchKind,
    TargetKind,
    refuse_unheeded,
)


def refuse_unheeded_options(context: typer.Context, kind: TargetKind) -> None:
    """Refuse options of the command line that would have no effect on this kind of target.

    Raises:
        OptionsError: There is such an option.

    """
    options = dict(given_options(context))
    if context.info_name == "replay":
        refuse_unheeded(REPLAY_OPTIONS, options, kind)
    else:
        refuse_unheeded(OPTIONS, options, kind, context.params.get("how", SearchKind.RANDOM))


def given_options(context: typer.Context) -> Iterator[tuple[str, object]]:
    """Yield the name and the value of each option that is given on the command line."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE" and parameter.name in context.params:
            value = context.params[parameter.name]
            yield (
                option_name(parameter.opts),
                value.value
                if isinstance(value, enum.Enum)
                else str(value)
                if isinstance(value, Path)
                else value,
            )


def option_name(spellings: list[str]) -> str:
    """Return the name of an option, of which the first long spelling is the usual one, or of an argument."""
    first = next((spelling for spelling in spellings if spelling.startswith("--")), spellings[0])
    return first.lstrip("-").replace("-", "_")
