"""Which options ``headrace verify`` and ``replay`` heed for which kind of target, and in which search; the others are refused."""

import enum
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

from headrace import OptionsError
from headrace_properties.target_kinds import (
    EACH_EFFECT,
    ONE_INPUT,
    OWN_FAULTS,
    PIPELINE,
    QUERY,
    SPARK,
    SPARK_HAS_IT,
    Heeded,
    TargetKind,
    refuse_unheeded,
)

_HERE = "it is simulated in this process"
OPTIONS: Mapping[str, Heeded] = {
    "pipeline": Heeded(),
    "how": Heeded(PIPELINE, OWN_FAULTS),
    "examples": Heeded(PIPELINE | QUERY, EACH_EFFECT),
    "until_quiet": Heeded(PIPELINE, OWN_FAULTS),
    "minutes": Heeded(PIPELINE, OWN_FAULTS),
    "seed": Heeded(),
    "feeds": Heeded(PIPELINE, ONE_INPUT),
    "depth": Heeded(PIPELINE, OWN_FAULTS),
    "resume": Heeded(PIPELINE, OWN_FAULTS),
    "outside": Heeded(PIPELINE, OWN_FAULTS),
    "code_timeout": Heeded(),
    "records": Heeded(PIPELINE, OWN_FAULTS),
    "faults": Heeded(PIPELINE, OWN_FAULTS),
    "delays": Heeded(PIPELINE, OWN_FAULTS),
    "workers": Heeded(PIPELINE, OWN_FAULTS),
    "fault_kinds": Heeded(PIPELINE, OWN_FAULTS),
    "jobs": Heeded(),  # at most so many processes: one is enough
    "on": Heeded(PIPELINE, _HERE),
    "master": Heeded(PIPELINE, _HERE),
    "versions": Heeded(PIPELINE, "it is not deployed anew while it runs"),
    "feed": Heeded(),
    "promise": Heeded(),
    "without": Heeded(PIPELINE, "Spark runs it, and no protocol of Headrace"),
    "allow_unknown": Heeded(),
    "save": Heeded(),
    "history": Heeded(PIPELINE, "it has no History"),
    "failures": Heeded(),
    "schema": Heeded(SPARK, SPARK_HAS_IT),
    "allow": Heeded(),  # not all of its names, which are looked at with it
    "duplicates": Heeded(SPARK, SPARK_HAS_IT),
    "keys": Heeded(SPARK, "only a sink has tables"),
    "force": Heeded(),
    "verbose": Heeded(),
    "as_json": Heeded(),
}
"""A row for each parameter of ``headrace verify``."""

_NO_HISTORY = "it has no History"
REPLAY_OPTIONS: Mapping[str, Heeded] = {
    "file": Heeded(),
    "explain": Heeded(),
    "html": Heeded(),
    "svg": Heeded(PIPELINE, _NO_HISTORY),
    "perfetto": Heeded(PIPELINE, _NO_HISTORY),
    "shiviz": Heeded(PIPELINE, _NO_HISTORY),
    "force": Heeded(),
    "pipeline": Heeded(),
    "promise": Heeded(PIPELINE, "its file names what it breaks"),
    "until": Heeded(PIPELINE, _NO_HISTORY),
    "history": Heeded(PIPELINE, _NO_HISTORY),
    "trust": Heeded(),
    "when": Heeded(PIPELINE, _NO_HISTORY),
    "jobs": Heeded(PIPELINE, "it is one run"),
    "code_timeout": Heeded(),
    "allow": Heeded(),
    "as_json": Heeded(),
}
"""A row for each parameter of ``headrace replay``."""

_SCOPE = ("exhaustive", "lineage")
SEARCHES: Mapping[str, tuple[str, ...]] = {
    "examples": ("random", "pairs", "exhaustive", "lineage", "pct"),
    "until_quiet": ("random", "pct"),
    "minutes": ("random", "exhaustive", "lineage", "pct"),
    "depth": ("pct",),
    "resume": _SCOPE,
    "records": _SCOPE,
    "faults": _SCOPE,
    "delays": ("exhaustive",),
    "workers": _SCOPE,
    "fault_kinds": _SCOPE,
}
"""The searches that heed an option; all, if it has no row."""


def refuse_unheeded_options(context: typer.Context, kind: TargetKind) -> None:
    """Refuse what is given on the command line, and would have no effect on this kind of target.

    Raises:
        OptionsError: There is such an option.

    """
    if "how" not in context.params:
        refuse_unheeded(REPLAY_OPTIONS, _given(context), kind)
        return
    refuse_unheeded(OPTIONS, _given(context), kind)
    if kind is not TargetKind.PIPELINE:
        return
    search = context.params["how"].value
    for name, shown, value in _given(context):
        if name in SEARCHES and search not in SEARCHES[name]:
            raise OptionsError(shown, value, f"given with --search {' or '.join(SEARCHES[name])}")


def _given(context: typer.Context) -> Iterator[tuple[str, str, object]]:
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name in context.params:
            value = context.params[name]
            value = (
                value.value
                if isinstance(value, enum.Enum)
                else str(value)
                if isinstance(value, Path)
                else value
            )
            yield name, max(parameter.opts, key=len).lstrip("-").replace("-", "_"), value
