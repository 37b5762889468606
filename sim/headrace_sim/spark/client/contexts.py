"""``SparkContext`` without Spark: takes what has no effect on rows, and refuses what works on RDDs or in the JVM."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Self
from unittest.mock import patch

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.accumulators import Accumulator, AddingAccumulatorParam
from pyspark.sql import SparkSession

from headrace_sim.spark.refusals import CannotFollowError, users_place

_REMEDY = "Leave it out, or do it outside of the code that is tried"
_DEFAULTS = {"spark.app.name": "headrace", "spark.app.id": "local-0", "spark.master": "local[2]"}


_NUMBERS = count()
"""Of accumulators."""


class Broadcast:
    """Replaces a broadcast variable: there is one process."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def unpersist(self, blocking: bool = False) -> None:
        """Do nothing."""

    destroy = unpersist


class JavaName:
    """A name of Java's, such as ``io.delta.tables.DeltaTable.forName``, that is refused as a whole once it is called."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __getattr__(self, name: str) -> "JavaName":
        """Return a name within it."""
        if name.startswith("__"):
            raise AttributeError(name)
        return JavaName(f"{self._name}.{name}".lstrip("."))

    def __call__(self, *args: Any) -> Any:
        """Do nothing if it writes a log or sets something; refuse all else."""
        if self._name.startswith(_LOGGERS) or _SETS.fullmatch(self._name):
            return self
        if self._name in _GIVES_BACK:
            return args[0]
        if self._name in _OF_THE_JVM:
            value = _OF_THE_JVM[self._name]
            return self if value is None else value
        remedy = "Use functions of columns that take columns and values, or do it in Python"
        raise CannotFollowError(f"Java's {self._name}()", users_place(), remedy)


_LOGGERS = ("org.apache.log4j.", "org.apache.logging.log4j.", "org.slf4j.")
"""What writes a log and gives nothing back: it is called as it likes."""
_SETS = re.compile(r"(_jsc\.|sc\.)*hadoopConfiguration(\.set\w*|\.unset)?")
_GIVES_BACK = frozenset({"org.apache.spark.eventhubs.EventHubsUtils.encrypt"})
"""What gives back what it is given: nobody reads what it hides."""
_OF_THE_JVM = {
    "java.lang.Runtime.getRuntime": None, "java.lang.Runtime.getRuntime.availableProcessors": 2,
    **{f"java.lang.Runtime.getRuntime.{name}Memory": size << 20 for name, size in (("max", 1024), ("total", 512), ("free", 256))},
}  # fmt: skip
"""What programs log of the JVM: as of a small one. None: it is asked further."""


class ClientContext:
    """Replaces ``SparkContext``. ``settings``: of its session: has ``get`` and ``set``."""

    applicationId = "local-0"
    defaultMinPartitions = defaultParallelism = 2
    pythonVer = "3"
    startTime = 1_893_456_000_000
    uiWebUrl = None
    version = pyspark.__version__
    _jvm = JavaName()
    _jsc = JavaName("_jsc")

    def __init__(self, settings: Any) -> None:
        self._settings = settings

    @property
    def appName(self) -> str:
        """The name of the application."""
        return str(self._settings.get("spark.app.name", _DEFAULTS["spark.app.name"]))

    @property
    def master(self) -> str:
        """The master's address."""
        return str(self._settings.get("spark.master", _DEFAULTS["spark.master"]))

    def getConf(self) -> SparkConf:
        """Return its settings."""
        conf = SparkConf(loadDefaults=False, _jvm=None)
        for key, value in _DEFAULTS.items():
            conf.set(key, str(self._settings.get(key, value)))
        return conf

    def broadcast(self, value: Any) -> Broadcast:
        """Return a value that every task can read."""
        return Broadcast(value)

    def accumulator(self, value: Any, accum_param: Any = None) -> Accumulator[Any]:
        """Return a variable that tasks add to. Raise `TypeError` if it is no number and nothing says how to add."""
        if accum_param is None and not isinstance(value, int | float | complex):
            raise TypeError(f"No default accumulator param for type {type(value)}")
        return Accumulator(next(_NUMBERS), value, accum_param or AddingAccumulatorParam(type(value)(0)))

    def sparkUser(self) -> str:
        """Return the name of the user."""
        return "headrace"

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop nothing."""

    def _nothing(self, *_args: Any, **_kwargs: Any) -> None:
        """Change nothing."""

    addFile = addJobTag = addPyFile = cancelAllJobs = clearJobTags = removeJobTag = _nothing
    setCheckpointDir = setInterruptOnCancel = setJobDescription = setJobGroup = setLocalProperty = _nothing
    setLogLevel = setSystemProperty = stop = _nothing

    def __getattr__(self, name: str) -> Any:
        """Refuse everything else."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotFollowError(f"SparkContext.{name}", users_place(), _REMEDY)


@contextmanager
def contexts_without_spark(session: Callable[[], Any]) -> Iterator[None]:
    """Let ``SparkContext(...)``, ``SparkContext.getOrCreate()`` and ``SparkSession(context)`` start nothing within.

    ``session``: returns the session that is in force.
    """

    def set_up(
        self: Any, master: Any = None, appName: Any = None, *_: Any, conf: Any = None, **__: Any
    ) -> None:
        settings = dict(conf.getAll()) if conf is not None else {}
        settings |= {"spark.master": master} if isinstance(master, str) else {}
        settings |= {"spark.app.name": appName} if appName is not None else {}
        for key, value in settings.items():
            session().conf.set(key, value)
        self.__class__, self._settings = ClientContext, session().conf

    def become_session(self: Any, *_: Any, **__: Any) -> None:
        current = session()
        self.__class__, self.__dict__ = type(current), current.__dict__

    with (
        patch.object(SparkContext, "__init__", set_up),
        patch.object(SparkContext, "getOrCreate", staticmethod(lambda conf=None: SparkContext(conf=conf))),
        patch.object(SparkSession, "__init__", become_session),
    ):
        yield
