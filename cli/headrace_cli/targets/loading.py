"""Find the user's pipeline and its input: ``MODULE:PIPELINE``, and the function or Hypothesis strategy ``feed`` beside it.

Whatever is wrong with them is found here, before anything runs, and reported in one line that says what to do.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType

from headrace import Pipeline
from headrace.api.errors import did_you_mean, with_article
from headrace.api.versions import check_versions
from headrace_cli.options.option_groups import DEFAULT_FEED
from headrace_properties.drawn_feeds import feed_function
from headrace_properties.pipeline_target import PipelineTarget, failure_told, pipeline_target
from headrace_properties.promises import Promise, check_promises
from headrace_properties.search.limits import CodeLimits, OverrunError
from headrace_properties.target import TargetError, source_in
from headrace_sim import SOUND, Protocol

PROMISES = "promises"
"""The name of a module's list of promises."""

_NEED_FEED = "def {name}(seed: int) -> Feed (see headrace_sim.FeedBuilder)"


def load_target(
    name: str,
    feed_name: str = DEFAULT_FEED,
    versions: Sequence[str] = (),
    promises: Sequence[str] = (),
    limits: CodeLimits | None = None,
    protocol: Protocol = SOUND,
) -> PipelineTarget:
    """Import a pipeline and find its input and its promises.

    Args:
        name: ``MODULE:PIPELINE``. The current directory is searched first.
        feed_name: the function or strategy of the same module that makes the input from a seed.
        versions: further versions of the pipeline, also ``MODULE:PIPELINE``.
        promises: names of the promises to keep; none: all of the module.
        limits: of each call of its code.
        protocol: the state machines to host.

    Raises:
        TargetError: one of them is not there, or not what it should be.
        PromiseError: a promise of the module is wrong in itself.
        HeadraceError: the pipeline's graph does not fit together, or its versions do not.
    """
    module, pipeline = _load(name)
    feed_of = _feed_function(name, module, pipeline, feed_name)
    deployed = {version: load_pipeline(version) for version in versions}
    check_versions((pipeline, *deployed.values()))
    kept = _promises(name, module, (pipeline, *deployed.values()), promises)
    return pipeline_target(
        name,
        pipeline,
        feed_of,
        feed_name=feed_name,
        versions=deployed,
        promises=kept,
        limits=limits,
        protocol=protocol,
        feed_source=source_in(module),
    )


def load_promises(name: str) -> tuple[Promise, ...]:
    """Import the promises that stand beside a pipeline, ``MODULE:PIPELINE``.

    Raises:
        TargetError: the pipeline is not there, or ``promises`` is not a list.
        PromiseError: a promise is wrong in itself.
    """
    module, pipeline = _load(name)
    return _promises(name, module, (pipeline,), ())


def _promises(
    name: str, module: ModuleType, pipelines: Sequence[Pipeline], wanted: Sequence[str]
) -> tuple[Promise, ...]:
    declared = getattr(module, PROMISES, ())
    if not isinstance(declared, list | tuple):
        problem = f"{PROMISES!r} is {with_article(type(declared).__name__)}, not a list of promises"
        raise TargetError(name, problem, f"Write {PROMISES} = [...] with promises, or give it another name")
    return picked(name, check_promises(declared, pipelines), wanted)


def picked(name: str, promises: Sequence[Promise], wanted: Sequence[str]) -> tuple[Promise, ...]:
    """Return the promises of these names; without names, all.

    Raises:
        TargetError: there is none of a name.
    """
    known = [promise.name for promise in promises]
    for asked in wanted:
        if asked not in known:
            problem = f"--promise {asked}: module {name.partition(':')[0]!r} has no such promise"
            remedy = f"It has none: write {PROMISES} = [...] there"
            if known:
                remedy = f"{did_you_mean(asked, known)}It has: {', '.join(known)}"
            raise TargetError(name, problem, remedy)
    return tuple(promise for promise in promises if not wanted or promise.name in wanted)


def load_pipeline(name: str) -> Pipeline:
    """Import a pipeline that gets its input from elsewhere.

    Args:
        name: ``MODULE:PIPELINE``. The current directory is searched first.

    Raises:
        TargetError: it is not there, or no pipeline.
        HeadraceError: its graph does not fit together.
    """
    return _load(name)[1]


def load_named(name: str) -> tuple[ModuleType, object]:
    """Import a module, and return it with its attribute of a name.

    Args:
        name: ``MODULE:NAME``. The current directory is searched first.

    Raises:
        TargetError: it is not there.
    """
    module_name, attribute = _split(name)
    module = _import(name, module_name)
    if not hasattr(module, attribute):
        problem = f"module {module.__name__!r} has no {attribute!r}"
        raise TargetError(
            name, problem, f"{did_you_mean(attribute, vars(module))}Name what is at its top level"
        )
    return module, getattr(module, attribute)


def is_spark_job(name: str) -> bool:
    """Return whether this names a Spark job that needs no schema: a ``SparkJob``, or a function of a session alone.

    A function without parameters gets its session itself, in a module that speaks of PySpark.
    """
    module_name, attribute = _split(name)
    speaks_of_spark = _speaks_of_spark(module_name)
    with _without_java() if speaks_of_spark else nullcontext():
        target = getattr(_import(name, module_name), attribute, None)
    jobs = sys.modules.get("headrace_sim.spark.spark_job")  # not loaded: then it is no SparkJob
    if jobs is not None and isinstance(target, jobs.SparkJob):
        return True
    if not inspect.isfunction(target):
        return False
    from headrace_sim.spark.client.parameters import takes_sessions_alone

    named = "spark" in inspect.signature(target).parameters
    return (named or speaks_of_spark) and takes_sessions_alone(target)


def is_pipeline(name: str) -> bool:
    """Return whether this names a pipeline."""
    module_name, attribute = _split(name)
    return isinstance(getattr(_import(name, module_name), attribute, None), Pipeline)


def _speaks_of_spark(module_name: str) -> bool:
    """Return whether PySpark is installed, and the module's text names it."""
    search_here()
    try:
        spec = importlib.util.find_spec(module_name)
    except (ImportError, ValueError):  # who imports it tells what is wrong
        spec = None
    source = Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None
    named = source is not None and b"pyspark" in source.read_bytes()
    return named and importlib.util.find_spec("pyspark") is not None


def _without_java() -> AbstractContextManager[object]:
    """Give a module a session without Java, if it gets one when it is imported."""
    from headrace_sim.spark.client.sessions import ModuleSession, connected

    return connected(ModuleSession())


def load_named_promises(name: str) -> tuple[Promise, ...]:
    """Import promises.

    Args:
        name: ``MODULE:PROMISES``, a list of promises or one. The current directory is searched first.

    Raises:
        TargetError: they are not there.
    """
    module_name, _, attribute = name.partition(":")
    if not (_is_dotted(module_name) and attribute.isidentifier()):
        raise TargetError(
            name, "this is not MODULE:PROMISES", "Write a module's name and a list's: my_job:promises"
        )
    value = getattr(_import(name, module_name), attribute, None)
    promises = value if isinstance(value, list | tuple) else [value]
    for promise in promises:
        if not isinstance(promise, Promise):
            problem = f"{promise!r:.60} is not a promise"
            raise TargetError(
                name, problem, "Name a promise, or a list of promises (see headrace_properties.promises)"
            )
    return tuple(promises)


def _load(name: str) -> tuple[ModuleType, Pipeline]:
    module_name, attribute = _split(name)
    module = _import(name, module_name)
    pipeline = _pipeline(name, module, attribute)
    pipeline.validate()
    return module, pipeline


def _split(name: str) -> tuple[str, str]:
    module_name, _, attribute = name.partition(":")
    if not (_is_dotted(module_name) and attribute.isidentifier()) or module_name.endswith(".py"):
        raise TargetError(name, "expected MODULE:PIPELINE", _suggestion(module_name, attribute))
    return module_name, attribute


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _suggestion(module_name: str, attribute: str) -> str:
    if module_name.endswith(".json"):
        return f"To repeat a saved failure: headrace replay {module_name}"
    if module_name.endswith(".jsonl"):
        return f"To judge a recorded run: headrace check {module_name}"
    guess = module_name.removeprefix("./").removesuffix(".py").strip("/").replace("/", ".")
    if guess and _is_dotted(guess):
        return f"Give the names of a module and a pipeline: {guess}:{attribute or 'pipeline'}"
    return "Give the names of a module and a pipeline, such as headrace_scenarios.zeitgeist:pipeline"


def search_here() -> None:
    """Search the current directory first for modules."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()


def _import(name: str, module_name: str) -> ModuleType:
    search_here()
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _import_failed(name, module_name, error) from error
        problem = f"there is no module {error.name!r}, neither in the current directory nor installed"
        hint = did_you_mean(error.name, [path.stem for path in Path().glob("*.py")])
        remedy = f"{hint}Run the command in the directory that contains it, or install it"
        raise TargetError(name, problem, remedy) from error
    except (Exception, SystemExit, OverrunError) as error:
        refusals = sys.modules.get("headrace_sim.spark.refusals")  # not loaded: then no stand-in raised it
        if refusals is not None:
            if isinstance(error, refusals.CannotFollowError):
                raise
            if (gap := refusals.gap_in(error)) is not None:
                raise gap from error
        raise _import_failed(name, module_name, error) from error


def _import_failed(name: str, module_name: str, error: BaseException) -> TargetError:
    remedy = "Fix it so that Python can import it"
    return TargetError(name, f"importing {module_name!r} {failure_told(error)}", remedy)


def _pipeline(name: str, module: ModuleType, attribute: str) -> Pipeline:
    if not hasattr(module, attribute):
        hint = did_you_mean(attribute, _pipeline_names(module))
        raise TargetError(
            name, f"module {module.__name__!r} has no {attribute!r}", f"{hint}{_pipelines_of(module)}"
        )
    pipeline = getattr(module, attribute)
    if not isinstance(pipeline, Pipeline):
        kind = (
            "function" if callable(pipeline) and not isinstance(pipeline, type) else type(pipeline).__name__
        )
        remedy = _pipelines_of(module)
        if kind == "function":
            remedy += (
                ". For a Spark job or a foreachBatch function, give the columns of its input with --schema"
            )
        raise TargetError(name, f"{attribute!r} is {with_article(kind)}, not a Pipeline", remedy)
    return pipeline


def _pipeline_names(module: ModuleType) -> list[str]:
    return sorted(name for name, value in vars(module).items() if isinstance(value, Pipeline))


def _pipelines_of(module: ModuleType) -> str:
    if names := _pipeline_names(module):
        return f"Its pipelines are: {', '.join(names)}"
    return "It has no pipeline: assign one at its top level, pipeline = Pipeline(...)"


def _feed_function(
    name: str, module: ModuleType, pipeline: Pipeline, feed_name: str
) -> Callable[[int], object]:
    source = feed_function(pipeline, getattr(module, feed_name, None))
    wanted = _NEED_FEED.format(name=feed_name)
    if source is None:
        problem = f"module {module.__name__!r} has no function {feed_name!r} that makes the input"
        hint = did_you_mean(feed_name, vars(module))
        raise TargetError(name, problem, f"{hint}Write one, {wanted}, or name another with --feed")
    if not callable(source):
        problem = (
            f"{feed_name!r} is {with_article(type(source).__name__)}, not a function that makes the input"
        )
        raise TargetError(name, problem, f"Write one, {wanted}, or name another with --feed")
    function: Callable[[int], object] = source
    return function
