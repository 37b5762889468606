"""What a script needs and its surroundings lack: environment variables, and modules.

Rules of this file:

* A module that is missing and only talks (logs, metrics, alerts, helpers of notebooks) is replaced by an inert stand-in: any
  attribute, any call. So is any other that the user names. What such a module is told goes nowhere.
* A missing client of a store is replaced by one that answers in a trial, as far as the table of clients goes.
* An environment variable that was asked for and is not set is remembered with its place, to explain what fails later.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Self
from unittest.mock import patch

from headrace.api.errors import HeadraceError
from headrace_sim.spark.refusals import is_library
from headrace_sim.spark.stores.client_modules import client_of, is_around_client, make_client_module

TALKERS = frozenset(
    {
        "coloredlogs", "colorlog", "datadog", "ddtrace", "delta", "dotenv", "ecs_logging", "findspark", "google.cloud.logging",
        "json_log_formatter", "logging_loki", "logstash", "logstash_async", "loguru", "newrelic", "opencensus",
        "opentelemetry", "prometheus_client", "pyspark.dbutils", "pythonjsonlogger", "sentry_sdk", "sparkmeasure", "statsd",
        "structlog", "tqdm", "watchtower",
    }
)  # fmt: skip
"""Modules that only talk, or that a platform has: a stand-in takes their place where they are missing."""


class ProgramError(HeadraceError):
    """A program cannot be run, or lacks something. Fields: problem, place (``file:line``), remedy."""

    def __init__(self, problem: str, place: str, remedy: str) -> None:
        super().__init__(problem, place, remedy)
        self.problem, self.place, self.remedy = problem, place, remedy

    def __str__(self) -> str:
        """Say what is wrong, where, and which option helps."""
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.problem}. {self.remedy}"


class Inert:
    """Anything: has every attribute, takes every call, and does nothing."""

    def __init__(self, name: str = "stand-in") -> None:
        self._headrace_name = name

    def __call__(self, *args: Any, **_options: Any) -> Any:
        """Return the function that it decorates, or another of its kind."""
        decorated = args[0] if len(args) == 1 and callable(args[0]) else None
        return Inert(f"{self._headrace_name}()") if decorated is None else decorated

    def __getattr__(self, name: str) -> "Inert":
        """Return another of its kind."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert(f"{self._headrace_name}.{name}")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take every error as it is."""

    def __iter__(self) -> Iterator[Any]:
        """Yield nothing."""
        return iter(())

    def __len__(self) -> int:
        """Return zero: it is empty."""
        return 0

    def __bool__(self) -> bool:
        """Return true: it exists."""
        return True

    def __fspath__(self) -> str:
        """Return a path."""
        return f"/{self._headrace_name}"

    def __mro_entries__(self, _bases: object) -> tuple[type, ...]:
        """Return the base of classes that derive from it."""
        return (Inert,)

    def __repr__(self) -> str:
        """Name it."""
        return f"<stand-in for {self._headrace_name}>"


class _StandIn(ModuleType):
    """An inert module, and a package of such."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        own = _FUNCTIONS.get(f"{self.__name__}.{name}")
        return Inert(f"{self.__name__}.{name}") if own is None else own

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def _is_within(module: str, names: frozenset[str]) -> bool:
    return any(f"{module}.".startswith(f"{name}.") for name in names)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an inert module where a module is missing.

    ``named``: the modules that the user names, besides `TALKERS`. One of these replaces a module that is there, too.
    ``used``: the modules that were replaced.
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        self.named = frozenset(named)
        self.used: list[str] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module."""
        del target
        named, talks = (_is_within(fullname, names) for names in (self.named, TALKERS))
        talks = talks or client_of(fullname) is not None
        around = (name.startswith(f"{fullname}.") for name in self.named | TALKERS)
        outer = is_around_client(fullname) or any(around)
        if not named and not ((talks or outer) and self._is_missing(fullname, path)):
            return None
        self.used.append(fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def _is_missing(self, fullname: str, path: Sequence[str] | None) -> bool:
        finders = (finder for finder in sys.meta_path if not isinstance(finder, StandIns))
        return not any(finder.find_spec(fullname, path) for finder in finders)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Make one of the table of clients, or an inert one."""
        client = None if _is_within(spec.name, self.named) else client_of(spec.name)
        return _StandIn(spec.name) if client is None else make_client_module(spec.name, client)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: it has everything."""


def _load_dotenv(path: Any = None, *_: Any, override: bool = False, **__: Any) -> bool:
    """Do what dotenv's function of this name does."""
    file = Path(path or ".env")
    lines = file.read_text().splitlines() if file.is_file() else []
    pairs = [line.removeprefix("export ").partition("=") for line in lines if "=" in line and line[0] != "#"]
    for name, _equals, value in pairs:
        if override or name.strip() not in os.environ:
            os.environ[name.strip()] = value.strip().strip("'\"")
    return bool(pairs)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "delta.configure_spark_with_delta_pip": lambda builder, *_, **__: builder,
    "dotenv.load_dotenv": _load_dotenv,
}
"""What gives back something that a script needs."""


def named_stand_ins() -> frozenset[str]:
    """Return the modules that the user names, of those that are replaced now."""
    return frozenset().union(*(finder.named for finder in sys.meta_path if isinstance(finder, StandIns)))


@contextmanager
def stand_ins(named: Sequence[str] = ()) -> Iterator[StandIns]:
    """Replace modules within, and forget them afterwards. ``named``: those that the user names."""
    finder = StandIns(named)
    hidden = {name: module for name, module in sys.modules.items() if _is_within(name, frozenset(named))}
    for name in hidden:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield finder
    finally:
        sys.meta_path.remove(finder)
        for name in finder.used:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


@contextmanager
def settings_watched() -> Iterator[dict[str, str]]:
    """Note which variables of the environment are asked for and are not set: the place of each, ``file:line``."""
    missed: dict[str, str] = {}
    kind = type(os.environ)
    real = kind.__getitem__

    def get(environment: Any, name: str) -> Any:
        try:
            return real(environment, name)
        except KeyError:
            caller = sys._getframe(1)
            if caller.f_code.co_name != "get" or not caller.f_locals.get("default"):
                _note(missed, name, caller)
            raise

    with patch.object(kind, "__getitem__", get):
        yield missed


def _note(missed: dict[str, str], name: str, caller: FrameType | None) -> None:
    """Note a variable if code of the user's asks for it, and no library."""
    while caller is not None and caller.f_code.co_filename.startswith(("<frozen ", os.__file__)):
        caller = caller.f_back
    if caller is not None and not is_library(caller.f_code.co_filename):
        missed.setdefault(name, f"{caller.f_code.co_filename}:{caller.f_lineno}")
