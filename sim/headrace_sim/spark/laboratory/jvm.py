"""The Java process that runs Spark for all trials of a session.

Rules of this file:

* This process only commands it: what runs the user's code attaches to it on its own (`attach`), and may die at any time.
* It has settings for batches of a few rows. A program may change those that Spark lets a session change.
* It resolves no host but this one, and its sockets connect to no other, unless `LetThrough.NETWORK`.
* It writes its own temporary files, in the directories of trials, and in Ivy's cache, nowhere else (`fence`), unless
  `LetThrough.WRITES`.
"""

import atexit
import json
import logging
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from itertools import count
from pathlib import Path
from subprocess import Popen
from typing import Any
from unittest.mock import patch

from py4j import java_gateway
from py4j.java_gateway import JavaGateway, JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.spark.runtime.spark_session import process_environment, worker_path
from headrace_sim.spark.laboratory.jars import without_missing
from headrace_sim.spark.laboratory.places import WAREHOUSE, views_of
from headrace_sim.spark.laboratory.postgres import find_jdbc_jar
from headrace_sim.spark.pyspark_versions import CHECKPOINT_FILES, JARS, LET_THROUGH, VERSION, java_sessions
from headrace_sim.spark.sinks.processes import LetThrough
from headrace_sim.spark.sinks.trial_contents import Item
from headrace_sim.spark.sinks.write_fence import fence

MASTER = "local[2,4]"
"""Two tasks at a time, each tried up to four times, as on a cluster."""
_SETTINGS = {
    "spark.app.name": "headrace",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # A task dies because its program did; its node is as good as before.
    "spark.excludeOnFailure.enabled": "false",
    # For a few rows at a time:
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.pollingDelay": "1",
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
    "spark.hadoop.fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
}
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_THIS_MACHINE = "-Djdk.net.hosts.file={folder}/hosts -DsocksProxyHost=127.0.0.1 -DsocksProxyPort=1"
"""Options with which Java knows no host, and connects by way of nobody to what is not this machine."""
_OBJECTS = 1_000_000
"""How many objects of one process are told apart from those of others."""
_PYTHON = f"""#!/bin/sh
[ "$2" = pyspark.daemon ] && shift 2 && set -- -m headrace_sim.spark.laboratory.task_workers "$@"
exec {shlex.quote(sys.executable)} "$@"
"""
"""What Spark takes for Python: no setting says how workers of data sources are started, which else import all after each fork."""
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


@dataclass(slots=True)
class SparkJvm:
    """A Spark that runs from when it is made."""

    settings: Mapping[str, str]  # those of the program that no session can change, by name: ``spark.jars``
    folder: Path  # of its temporary files. The directories of trials are beside it
    lets: frozenset[LetThrough]  # what trials do outside them
    gateway: JavaGateway = field(init=False)  # commands it from this process
    port: int = field(init=False)  # where it listens to further processes, on the loopback interface
    secret: str = field(init=False)  # what it expects of them
    context: Any = field(init=False)  # Java's own ``SparkContext``
    version: str = field(init=False)  # of Spark
    # their numbers. Java caches file systems by name: none may be used twice
    trials: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        """Start it."""
        self.gateway = _started(self.settings, self.folder, self.lets)
        parameters = getattr(self.gateway, "java_parameters", self.gateway.gateway_parameters)
        self.port, self.secret = parameters.port, parameters.auth_token
        java = self.gateway.jvm
        self.context = java.org.apache.spark.api.java.JavaSparkContext(java.SparkConf())
        self.context.setLogLevel("OFF")
        self.version = self.context.version()

    @property
    def trial_folders(self) -> Path:
        """Where the directories of trials are."""
        return self.folder.parent / "trials"

    @property
    def versions(self) -> dict[str, str]:
        """The version of Java, and the jars on its class path that PySpark does not bring."""
        java = self.gateway.jvm.java.lang.System.getProperty
        jars = {
            Path(path).name for path in java("java.class.path").split(os.pathsep) if path.endswith(".jar")
        }
        with suppress(PackageNotFoundError):
            jars -= {path.name for path in files("pyspark") or ()}
        let_through = ", ".join(sorted(let.value for let in self.lets))
        versions = {"Java": java("java.version"), JARS: ", ".join(sorted(jars)), LET_THROUGH: let_through}
        return {name: value for name, value in versions.items() if value or name != LET_THROUGH}

    def new_catalog(self, settings: Mapping[str, str]) -> Any:
        """Return Java's session with a catalog of its own, as of a Spark with another metastore."""
        options = self.gateway.jvm.java.util.HashMap()
        for name, value in settings.items():
            options.put(name, value)
        classes = java_sessions(self.gateway.jvm)
        session = classes.SparkSession(self.context.sc(), options)
        classes.SparkSession.setDefaultSession(session)
        return session

    def successor_of(self, session: Any, *, overtaken: bool) -> Any:
        """Return Java's session for the next attempt of a trial.

        ``session``: that of the one before. ``overtaken``: whether that one still runs. Then the next one is another Spark,
        which knows the same tables.
        """
        classes = java_sessions(self.gateway.jvm)
        successor = session.newSession()
        if overtaken:
            successor = self.new_catalog(dict(self.settings_of(session)))
            self.make_tables(successor, self.tables_of(session))
        else:
            for name, value in self.settings_of(session):
                if name != WAREHOUSE:
                    successor.conf().set(name, value)
        classes.SparkSession.setDefaultSession(successor)
        return successor

    def settings_of(self, session: Any) -> Iterator[tuple[str, str]]:
        """Yield the settings with which a session was made."""
        settings = session.initialSessionOptions()
        names = settings.keysIterator()
        while names.hasNext():
            name = names.next()
            yield name, settings.apply(name)

    def tables_of(self, session: Any) -> Sequence[bytes]:
        """Return the tables that a session knows by name, as another Java can read them."""
        catalog, utils = session.sharedState().externalCatalog(), self.gateway.jvm.org.apache.spark.util.Utils
        return [
            utils.serialize(catalog.getTable("default", name))
            for name in _list(catalog.listTables("default"))
        ]

    def make_tables(self, session: Any, tables: Sequence[bytes]) -> None:
        """Let a session know tables by name, as `tables_of` returns them."""
        catalog, utils = session.sharedState().externalCatalog(), self.gateway.jvm.org.apache.spark.util.Utils
        for table in tables:
            catalog.createTable(utils.deserialize(table), True)

    def read_iceberg(self, session: Any, folder: Path, path: str) -> list[Item]:
        """Return the rows of a table of Iceberg, as a session reads them. ``folder``: of a trial, or its copy."""
        for name, view in views_of(path, folder).items():
            session.conf().set(name, view)
        java_sessions(self.gateway.jvm).SparkSession.setActiveSession(session)  # Iceberg asks it
        frame = session.read().format("iceberg").load(path)
        columns, rows = list(frame.columns()), map(json.loads, frame.toJSON().collectAsList())
        return [tuple((name, repr(row.get(name))) for name in columns) for row in rows]

    def end_queries(self, session: Any, *, jobs: bool) -> None:
        """End what still runs for a session whose program has ended.

        ``jobs``: whether nothing else runs, so that all jobs are its own.
        """
        for query in session.streams().active():
            with suppress(Exception):
                query.stop()
        if jobs:
            self.context.sc().cancelAllJobs()

    def stop(self) -> None:
        """End the process with SIGKILL."""
        with suppress(Exception):
            self.gateway.shutdown()
        process = self.gateway.proc
        process.stdin.close()
        process.kill()
        process.wait()

    def restart(self) -> None:
        """End the process with SIGKILL, whatever it does, and start another. What it knew is gone."""
        self.gateway.proc.kill()
        self.stop()
        self.__post_init__()


@contextmanager
def running(settings: Mapping[str, str], lets: frozenset[LetThrough] = frozenset()) -> Iterator[SparkJvm]:
    """Run Spark within.

    ``settings``: those of the program that no session can change, by name: ``spark.jars``. ``lets``: what trials do outside
    them. Raise `JavaNotFoundError` if there is no Java.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-spark-") as temporary:
        folder = Path(os.path.realpath(temporary)) / "java"
        folder.mkdir()
        (folder.parent / "trials").mkdir()
        (folder / "hosts").write_text("127.0.0.1 localhost\n")
        (folder / "python").write_text(_PYTHON)
        (folder / "python").chmod(0o700)
        jvm = SparkJvm(settings, folder, lets)
        try:
            yield jvm
        finally:
            jvm.stop()


_SHARED: dict[frozenset[object], SparkJvm] = {}


def shared(settings: Mapping[str, str], lets: frozenset[LetThrough]) -> SparkJvm:
    """Return the Spark of this process with settings, which is started now if it does not run; it ends with the process.

    The arguments and what is raised are as for `running`.
    """
    key = lets.union(settings.items())
    if key not in _SHARED:
        kept = ExitStack()
        _SHARED[key] = kept.enter_context(running(settings, lets))
        atexit.register(kept.close)
    return _SHARED[key]


def _started(settings: Mapping[str, str], folder: Path, lets: frozenset[LetThrough]) -> JavaGateway:
    own_cache = {} if _ivy_cache().exists() else {"spark.jars.ivy": str(folder / "ivy")}
    settings = {**_SETTINGS, "spark.local.dir": str(folder), **own_cache, **settings}
    conf = SparkConf(loadDefaults=False).setMaster(MASTER).setAll(list(settings.items()))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    fenced = patch("pyspark.java_gateway.Popen", partial(_popen, folder, lets))
    where_to_listen = patch.object(tempfile, "tempdir", str(folder))  # Java writes it there
    with tempfile.TemporaryFile() as log, patch.dict(os.environ, kept, clear=True), fenced:
        network = "" if LetThrough.NETWORK in lets else _THIS_MACHINE.format(folder=folder)
        os.environ["SPARK_SUBMIT_OPTS"] = f"{_JAVA} -Djava.io.tmpdir={folder} {network}"
        # Behind Spark's own jars, with which an archive of classes begins:
        os.environ["SPARK_DIST_CLASSPATH"] = str(find_jdbc_jar() or "")
        os.environ.update(process_environment(MASTER, launched=True), PYTHONPATH=worker_path())
        try:
            with where_to_listen:  # and nothing else of this process, which outlives the folder
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
        except PySparkRuntimeError:
            fewer = without_missing(settings, log)
            if fewer is None:
                raise
            return _started(fewer, folder, lets)
    # A program's own logging is that of this process, too, which has run it: nothing of the gateway's belongs there.
    vars(java_gateway)["logging"] = logging.getLogger("py4j")
    logging.getLogger("py4j").propagate = False
    return gateway


def _ivy_cache() -> Path:
    """Return where Spark's Ivy keeps what it has found. Where there is none, it may make none of its own in the user's folder."""
    return Path.home() / (".ivy2.5.2" if VERSION >= (4, 0) else ".ivy2")


def _popen(
    folder: Path,
    lets: frozenset[LetThrough],
    command: Sequence[str],
    *,
    preexec_fn: Callable[[], Any],
    **options: Any,
) -> Any:
    """Start Java, within its fence, as ``Popen`` does."""

    def before() -> None:
        preexec_fn()
        if LetThrough.WRITES not in lets:
            fence([folder.parent, *Path.home().glob(".ivy2*")])

    # Java has a process group of its own: a signal to the command's ends the search in order, for which Java must live.
    apart = {**options, "process_group": 0}
    return Popen(command, preexec_fn=before, **apart)  # noqa: PLW1509, S603  as PySpark does


def attach(running_jvm: SparkJvm, session: Any) -> SparkSession:
    """Attach this process, a fork, to a running Spark; return PySpark's session over one of Java's.

    ``running_jvm``: what the parent started. ``session``: Java's session, as the parent has it.
    """
    # Its sockets are the parent's: nothing may be said there.
    running_jvm.gateway._gateway_client.is_connected = False
    os.environ.update(zip(_GATEWAY, (str(running_jvm.port), running_jvm.secret), strict=True))
    os.environ["PYSPARK_PYTHON"] = str(running_jvm.folder / "python")
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    gateway = launch_gateway()
    # Java forgets objects of a process that has died when it comes to it, and tells who has taken over: ids must not be the same.
    gateway.gateway_property.pool.next_id = os.getpid() * _OBJECTS
    SparkContext._ensure_initialized(gateway=gateway)
    of_java = JavaObject(session._target_id, gateway._gateway_client)
    java_context = JavaObject(running_jvm.context._target_id, gateway._gateway_client)
    conf = SparkConf(_jvm=gateway.jvm, _jconf=of_java.sparkContext().conf())
    # It would ask Java for each of some 200 settings, for variables of executors.
    with patch.object(SparkConf, "getAll", lambda _conf: []):
        context = SparkContext(gateway=gateway, jsc=java_context, conf=conf)
    return SparkSession(context, of_java)


def _list(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala sequence."""
    items = sequence.iterator()
    while items.hasNext():
        yield items.next()
