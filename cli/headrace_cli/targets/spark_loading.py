"""``headrace verify`` for Spark: a ``foreachBatch`` function, a function that starts a query, or a `SparkJob`.

PySpark is imported only when such a target is named.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import TYPE_CHECKING

from headrace import Pipeline
from headrace_cli.options.names import invariants_named
from headrace_cli.options.option_groups import DEFAULT_FEED, names_of
from headrace_cli.options.target_options import TargetOptions
from headrace_cli.targets.loading import load_named, load_target, picked
from headrace_properties.pipeline_target import Search
from headrace_properties.search.limits import CodeLimits
from headrace_properties.target import TargetError, spark_source
from headrace_properties.target_kinds import TargetKind, check_allowed

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.laboratory import Laboratory
    from headrace_properties.spark_jobs.targets import SparkTarget
    from headrace_properties.spark_trials import SparkTrials
    from headrace_sim.spark.client.scripts import Script


def spark_trials(
    name: str, search: Search, options: TargetOptions, limits: CodeLimits, laboratory: "Laboratory | None"
) -> "SparkTrials":
    """Load a Spark job or sink, and return its trials.

    Args:
        name: ``MODULE:FUNCTION`` or ``MODULE:JOB``.
        search: How many schedules, and of which seed.
        options: What is known of it.
        limits: Of each call of its code.
        laboratory: Where it is tried on the real Spark; None: it is simulated.

    Raises:
        HeadraceError: The target is not there, is no Spark job, or PySpark is missing.

    """
    schemas, samples = schemas_named(name, options.schema or ()), _samples(options.sample or ())

    def target_of(seed: int) -> "SparkTarget":
        target = load_spark_target(
            name, schemas, options.feed, seed, options.keys or (), samples, laboratory, options.version
        )
        promises = picked(name, target.promises, options.promise or ())
        return dataclasses.replace(target, promises=promises, limits=limits).declaring(options.meant)

    target = target_of(search.seed)
    from headrace_properties.spark_jobs.named_targets import causes_named
    from headrace_properties.spark_trials import TrialOptions, trials_of_query

    source = spark_source(name, schemas, options.feed, target.keys, samples)
    names = names_of(options.allow)
    check_allowed(names, target.kind)
    unknown = invariants_named(options.allow_unknown, (), target.promises)
    how = TrialOptions(search.seed, search.runs, causes_named(names), unknown, laboratory, options.version)
    return trials_of_query(target, target_of, source, how)


def program_trials(
    script: "Script",
    module: ModuleType,
    query: str,
    search: Search,
    options: TargetOptions,
    limits: CodeLimits,
    laboratory: "Laboratory | None",
) -> "SparkTrials":
    """Run a program, and return the trials of its queries.

    Args:
        script: The program.
        module: Its own, whose surroundings are in force.
        query: The only one that is wanted, or "".
        search: How many schedules, and of which seed.
        options: What is known of it.
        limits: Of each call of its code.
        laboratory: Where they are tried on the real Spark; None: they are simulated.

    Raises:
        HeadraceError: The program is not there, starts no query, or does something that is refused.

    """
    from headrace_properties.spark_jobs.named_targets import causes_named, keys_named
    from headrace_properties.spark_jobs.programs import ProgramInput
    from headrace_properties.spark_trials import TrialOptions, trials_of_program

    names = names_of(options.allow)
    program_input = ProgramInput(
        feed_name=options.feed,
        keys=keys_named(options.keys or ()),
        declares=options.meant,
        samples=_samples(options.sample or ()),
        limits=limits,
    )
    how = TrialOptions(
        search.seed,
        search.runs,
        causes_named(names),
        laboratory=laboratory,
        version=options.version,
    )
    trials = trials_of_program(script, module, program_input, how, query)
    for part in trials.parts:
        part.target = dataclasses.replace(
            part.target, promises=picked(script.name, part.target.promises, options.promise or ())
        )
        part.allow_unknown = invariants_named(options.allow_unknown, (), part.target.promises)
    return trials


def load_spark_target(
    name: str,
    schemas: str | Mapping[str, str] | None,
    feed_name: str,
    seed: int,
    keys: Sequence[str] = (),
    samples: Mapping[str, str] | None = None,
    laboratory: "Laboratory | None" = None,
    version: str = "",
) -> "SparkTarget":
    """Import a Spark job or sink, or a pipeline that the real Spark hosts, and the input of its trials.

    Args:
        name: ``MODULE:NAME``.
        schemas: Of its input.
        feed_name: What the module calls its rows.
        seed: Of the rows.
        keys: Of tables: ``table=column,column``.
        samples: Files with rows of its input, by the name of the source.
        laboratory: Where it is tried on the real Spark; None: it is simulated.
        version: ``MODULE:NAME`` of that before, from whose checkpoint it goes on, or "".

    Raises:
        HeadraceError: It is not there, is no Spark job, or PySpark is missing.

    """
    try:
        from headrace_properties.spark_jobs.named_targets import hosted_target, keys_named, spark_target_on
        from headrace_properties.spark_jobs.upgrades import Earlier
        from headrace_sim.spark.client.sessions import ModuleSession, connected
    except ModuleNotFoundError:
        import headrace.spark  # noqa: F401  it says which packages are missing

        raise
    with connected(ModuleSession()):  # for modules that get a session when they are imported
        module, subject = load_named(name)
    if isinstance(subject, Pipeline) and laboratory is not None:
        return hosted_target(name, load_target(name, feed_name).application, seed, laboratory)
    feed = getattr(module, feed_name, None)
    if feed is None and feed_name != DEFAULT_FEED:
        problem = f"module {module.__name__!r} has no {feed_name!r} with the rows of its input"
        raise TargetError(
            name, problem, "Write it as batches of rows, or leave --feed out: rows are then drawn"
        )
    if samples and feed_name != DEFAULT_FEED:
        raise TargetError(name, "--feed and --sample both give its rows", "Give one of them")
    target = spark_target_on(
        laboratory, name, subject, module=module, schemas=schemas, feed=None if samples else feed,
        seed=seed, keys=keys_named(keys), samples=samples,
    )  # fmt: skip
    if not version or target.kind is TargetKind.SINK:  # which refuses it
        return target
    before = load_spark_target(version, schemas, DEFAULT_FEED, seed, samples=samples)
    return dataclasses.replace(target, earlier=Earlier(version, before.job, nullcontext))


def _samples(options: Sequence[str]) -> dict[str, str]:
    """Return the file of each source: ``clicks=clicks.jsonl``, or ``clicks.jsonl`` of the only one."""
    named = re.compile(r"(?:([\w.-]+)=)?(.*)", re.DOTALL)
    return {match[1] or "": match[2] for option in options if (match := named.fullmatch(option))}


def schemas_named(name: str, options: Sequence[str]) -> str | Mapping[str, str] | None:
    """Return the schemas: ``word STRING`` of all parameters, ``events=word STRING`` of one."""
    pairs = [
        (parameter.strip(), columns)
        for parameter, equals, columns in (option.partition("=") for option in options)
        if equals
    ]
    if not pairs:
        return options[0] if options else None
    if len(pairs) < len(options) or not all(re.fullmatch(r"[\w.-]+", name) for name, _ in pairs):
        raise TargetError(
            name,
            "--schema is given with a parameter's name and without",
            "Write each as --schema PARAMETER=COLUMNS",
        )
    return dict(pairs)
