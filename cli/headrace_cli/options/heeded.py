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
    options = dict(_given(context))
    if context.info_name == "replay":
        refuse_unheeded(REPLAY_OPTIONS, options, kind)
    else:
        refuse_unheeded(OPTIONS, options, kind, context.params.get("how", SearchKind.RANDOM))


def _given(context: typer.Context) -> Iterator[tuple[str, object]]:
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE" and parameter.name in context.params:
            value = context.params[parameter.name]
            yield (
                max(parameter.opts, key=len).lstrip("-").replace("-", "_"),
                value.value
                if isinstance(value, enum.Enum)
                else str(value)
                if isinstance(value, Path)
                else value,
            )
