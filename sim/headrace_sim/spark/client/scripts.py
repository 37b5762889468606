"""A program that starts queries, run as its owner runs it, and what it starts.

``run_script(Script("jobs/stream.py"))`` runs module level and ``__main__`` block, with its arguments and its environment, in
simulated time, and returns the queries. Nothing is started.
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any
from unittest.mock import patch

from pyspark.errors import PySparkException

from headrace_sim.spark.client.connect_answers import SessionState
from headrace_sim.spark.client.notebooks import notebook_globals, program_of_notebook
from headrace_sim.spark.client.query_lives import QueryLife, StartedQueries
from headrace_sim.spark.client.recording import captured, parsed_schemas
from headrace_sim.spark.client.script_needs import ProgramError, settings_watched, stand_ins
from headrace_sim.spark.client.script_time import WaitsForEverError
from headrace_sim.spark.refusals import (
    HEARD,
    CannotFollowError,
    UnknownTableError,
    gap_in,
    place_of_error,
    shown_place,
)
from headrace_sim.spark.spark_job import SparkJob, SparkJobError


@dataclass(frozen=True, slots=True)
class Script:
    """A program, and what it is run with."""

    name: str  # its file, or a module (``-m``)
    arguments: tuple[str, ...] = ()  # those of its command line
    # variables that are added to its environment
    environment: Mapping[str, str] = field(default_factory=dict)
    stand_ins: tuple[str, ...] = ()  # modules that inert ones replace
    # of sources that do not say theirs: one, or by topic, table or last part of the path
    schemas: str | Mapping[str, str] | None = None

    @property
    def is_file(self) -> bool:
        """Whether it is a file, and no module."""
        return is_script(self.name)

    @property
    def file(self) -> Path | None:
        """Its file; None: it is a module."""
        return Path(self.name) if self.is_file else None


def is_script(name: str) -> bool:
    """Return whether a target's name is that of a file with a program."""
    return name.endswith((".py", ".ipynb"))


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """A program that has run to its end."""

    lives: tuple[QueryLife, ...]  # of each query that it started, in order
    variables: Mapping[str, Any]  # what its module has
    notes: tuple[str, ...] = ()  # what is worth knowing of its run
    unknown: tuple[str, ...] = ()  # why something of it was not seen
    prepare: Callable[[], None] | None = None  # makes what it had made before its queries started, or None
    refused: SparkJobError | None = None  # what Spark refuses, so that it fails there; None: nothing

    @property
    def queries(self) -> tuple[SparkJob, ...]:
        """What it started, in order."""
        return tuple(life.job for life in self.lives)


@contextmanager
def surroundings(script: Script) -> Iterator[ModuleType]:
    """Give a program its module, arguments, environment, path and stand-ins within; its functions need them, too, when called.

    Raise `ProgramError` if there is no such program.
    """
    code, path, package = _code_of(script)
    module = ModuleType("__main__")
    module.__file__, module.__package__, module.__builtins__ = str(path), package, __builtins__  # type: ignore[attr-defined]
    first, *last = [str(folder) for folder in _folders(path)] if script.is_file else [str(Path.cwd())]
    with ExitStack() as patches:
        patches.enter_context(patch.dict(os.environ, script.environment))
        patches.enter_context(patch.object(sys, "argv", [script.name, *script.arguments]))
        patches.enter_context(patch.object(sys, "path", [first, *sys.path, *last]))
        patches.enter_context(patch.dict(sys.modules, {"__main__": module}))
        patches.enter_context(stand_ins(script.stand_ins))
        module.__dict__["__code__"] = code
        yield module


def _folders(path: Path) -> Sequence[Path]:
    """Return where a file finds modules: its folder, and those around it up to the working directory, as by ``PYTHONPATH=.``.

    A folder that is a package is none of the latter: its modules would replace others of their name.
    """
    if not path.is_relative_to(Path.cwd()):
        return [path.parent]
    around = list(path.parents)[1 : len(path.relative_to(Path.cwd()).parts)]
    return [path.parent, *(folder for folder in around if not (folder / "__init__.py").exists())]


def _code_of(script: Script) -> tuple[CodeType, Path, str | None]:
    """Return a program's code, its file and its package."""
    if not script.is_file:
        return _code_of_module(script.name)
    path = Path(script.name).resolve()
    try:
        text = path.read_text(encoding="utf-8-sig")
        text = program_of_notebook(text) if path.suffix == ".ipynb" else text
        return compile(text, str(path), "exec", dont_inherit=True), path, None
    except OSError as error:
        problem = f"cannot read {script.name}: {error.strerror}"
        raise ProgramError(problem, "", "Name a file with a program, or -m and a module") from error
    except (SyntaxError, ValueError) as error:
        place = f"{script.name}:{getattr(error, 'lineno', None) or 1}"
        problem = f"it cannot be compiled: {error}"
        raise ProgramError(problem, place, "Fix it so that Python runs it") from error


def _code_of_module(name: str) -> tuple[CodeType, Path, str | None]:
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError):
        spec = None
    finally:
        sys.path.pop(0)
    code = getattr(spec.loader, "get_code", lambda _: None)(spec.name) if spec is not None else None
    if spec is None or code is None:
        remedy = "Run the command in the directory that contains it, or install it"
        raise ProgramError(f"there is no module {name!r} to run", "", remedy)
    return code, Path(str(spec.origin)), spec.parent


def run_script(script: Script, module: ModuleType) -> ScriptRun:
    """Run a program to its end in simulated time, and return what it started.

    ``module``: its own, from `surroundings`, which must be in force. Raise `CannotFollowError` if it calls something that is
    not simulated, or `ProgramError` if it starts no query, if it fails before it has started one.
    """
    HEARD.clear()
    code = vars(module).pop("__code__")
    with (
        captured(SessionState(schemas=parsed_schemas(script.schemas))) as session,
        settings_watched() as missed,
        _parser_errors() as usage,
    ):
        vars(module).update(notebook_globals(session))
        failure = _failure_of(lambda: exec(code, vars(module)))  # noqa: S102  it is what the user runs
        session.queries.tell_ends()
        queries = tuple(session.queries.lives)
    heard = next((error for error in HEARD if isinstance(error, CannotFollowError)), None)
    refused = _refused(failure) if heard is None else None
    if refused is None and failure is not None and (not queries or isinstance(failure, CannotFollowError)):
        raise _explained(script, failure, missed, usage, heard) from failure
    if refused is None and not queries:
        raise heard or _nothing_started(script, vars(module))
    unknown = [] if failure is None or refused else [str(_explained(script, failure, missed, usage, heard))]
    notes = list(_notes(session.queries))
    if isinstance(failure, UnknownTableError) and not _starts_behind(module, failure):
        notes, unknown = [*notes, f"it was not run behind its queries: {unknown[0]}"], []
    return ScriptRun(queries, vars(module), tuple(notes), tuple(unknown), refused=refused)


def _starts_behind(module: ModuleType, failure: BaseException) -> bool:
    """Return whether a program's own file may start another query behind the line that it fails at."""
    file, _, line = place_of_error(failure).rpartition(":")
    if file != module.__file__:
        return True
    rest = Path(file).read_text(encoding="utf-8-sig").splitlines()[int(line) :]
    return not file.endswith(".py") or any("writeStream" in text for text in rest)


def _refused(failure: BaseException | None) -> SparkJobError | None:
    """Return what Spark refuses of a program, which it then fails for."""
    if isinstance(failure, SparkJobError):
        return failure
    if not isinstance(failure, PySparkException) or isinstance(failure, UnknownTableError):
        return None
    place, problem = shown_place(place_of_error(failure)), f"{type(failure).__name__}: {failure}"
    return SparkJobError(problem, place, "Spark refuses it each time: the program ends here")


def _notes(queries: StartedQueries) -> Iterator[str]:
    """Yield what is worth knowing of how a program ran."""
    yield from queries.listeners.notes()
    for place in dict.fromkeys(queries.time.interrupted):
        yield f"it waits at {shown_place(place)} until somebody ends it: that was done"
    for life in queries.lives:
        if life.behind is not None:
            first, second = (shown_place(other.job.sink.place) for other in (life.behind, life))
            yield (
                f"the query of {second} is started once that of {first} has ended, which a query without"
                " trigger(availableNow=True) does only when it fails or is stopped"
            )


def _failure_of(run: Callable[[], None]) -> BaseException | None:
    """Return what a program ends with; None: nothing is wrong with that."""
    try:
        run()
    except WaitsForEverError:
        return None
    except SystemExit as end:
        if isinstance(end.__context__, Exception):  # which it has caught, and tells in words of its own
            return end.__context__
        return end if end.code not in {None, 0} else None
    except Exception as error:  # noqa: BLE001  whatever the user's code raises
        return error
    return None


@contextmanager
def _parser_errors() -> Iterator[list[str]]:
    """Note what parsers of command lines complain of."""
    complaints: list[str] = []
    real = argparse.ArgumentParser.error

    def error(parser: argparse.ArgumentParser, message: str) -> Any:
        complaints.append(message)
        return real(parser, message)

    with patch.object(argparse.ArgumentParser, "error", error):
        yield complaints


def _explained(
    script: Script,
    failure: BaseException,
    missed: Mapping[str, str],
    usage: Sequence[str],
    heard: CannotFollowError | None,
) -> Exception:
    """Return what a program failed for, in words that name the option which helps."""
    if isinstance(failure, CannotFollowError | ProgramError | SparkJobError):
        return failure
    gap = heard or (gap_in(failure) if isinstance(failure, Exception) else None)
    if gap is not None:
        return gap
    place = shown_place(place_of_error(failure))
    if isinstance(failure, ModuleNotFoundError) and failure.name == "dlt":
        remedy = "Call the functions of its tables in a program that starts a query"
        return ProgramError("a pipeline of Delta Live Tables runs on its platform alone", place, remedy)
    if isinstance(failure, ModuleNotFoundError) and failure.name:
        remedy = f"Install it, or put an inert module in its place: --stand-in {failure.name}"
        return ProgramError(f"there is no module {failure.name!r}", place, remedy)
    if usage:
        remedy = f"Give its arguments behind --: headrace verify {script.name} -- ..."
        return ProgramError(f"it does not take its arguments: {usage[-1]}", place, remedy)
    if isinstance(failure, SystemExit) and not missed:
        remedy = f"If it lacks arguments, give them behind --: headrace verify {script.name} -- ..."
        return ProgramError(f"it ends itself, with exit code {failure}", place, remedy)
    exits = isinstance(failure, SystemExit)
    raised = f"SystemExit({failure})" if exits else f"{type(failure).__name__}: {failure}"
    if missed:
        unset = ", ".join(f"{name} ({shown_place(asked)})" for name, asked in missed.items())
        options = " ".join(f"--env {name}=..." for name in missed)
        problem = f"it raises {raised}, and its environment does not set {unset}"
        return ProgramError(problem, place, f"Give it: {options}")
    return ProgramError(f"it raises {raised}", place, "Fix it so that Python runs it up to its queries")


def _nothing_started(script: Script, variables: Mapping[str, Any]) -> ProgramError:
    """Return that a program starts no query, with the function that would."""
    starts = (
        name
        for name, value in variables.items()
        if "writeStream" in getattr(getattr(value, "__code__", None), "co_names", ())
    )
    module = ".".join(Path(script.name).with_suffix("").parts) if script.is_file else script.name
    named = next(starts, None)
    remedy = "Let it call what starts its query"
    if named is not None:
        remedy = f"Name the function that does: headrace verify {module}:{named} --schema 'COLUMNS'"
    return ProgramError("it starts no query", script.name, remedy)
