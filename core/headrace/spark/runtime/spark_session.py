"""Starting a Spark session set up for Headrace, or preparing and checking an existing one."""

import atexit
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from headrace.spark.host_errors import (
    SessionRunningError,
    SessionSettingsError,
    SparkVersionError,
    WrongSetting,
)
from headrace.spark.io_errors import SinkError
from headrace.spark.runtime.java import archive_for, find_java, home_for_spark
from headrace.spark.runtime.job_files import scratch
from headrace.spark.runtime.required_settings import DEFAULTS, REQUIRED
from headrace.spark.runtime.stderr import quietened_stderr

OLDEST_SPARK = (4, 3)

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_LOCAL = re.compile(r"local\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\]")
_LOCAL_CLUSTER = re.compile(
    r"local-cluster\[\s*(?P<executors>\d+)\s*,\s*(?P<cores>\d+)\s*,\s*(?P<megabytes>\d+)\s*\]"
)
_END_WITHIN_S = 30
_PARTITIONS = "spark.sql.shuffle.partitions"
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_INSTEAD_OF_A_SHELLS = {"spark.ui.showConsoleProgress": "false"}
"""PySpark starts Java as for an interactive shell, which has other defaults."""
_NO_CONFIG: Mapping[str, str] = {}


def session(
    master: str | None = None,
    app_name: str = "headrace",
    *,
    config: Mapping[str, str] = _NO_CONFIG,
    ui: bool = False,
    log_level: str = "ERROR",
) -> SparkSession:
    """Start Spark, set up for Headrace.

    Returns PySpark's own session; used as a context manager it stops Spark at the end, as ``spark.stop()`` does. For the choice
    of Java see `find_java`. Python workers run this interpreter, and can import whatever this process can. Under
    ``spark-submit``, its command line takes precedence over the defaults here.

    Args:
        master: where Spark runs: ``local[*]`` (the default: this process, on all cores), ``local[2]``,
            ``local-cluster[2,1,1024]`` (two executor processes of one core and 1,024 MB each), or a cluster's address.
        app_name: the application's name.
        config: more settings, by Spark's names. They take precedence over Headrace's defaults, but cannot change what it relies
            on.
        ui: serve Spark's web interface.
        log_level: how much Spark logs: ``ERROR``, ``WARN``, ``INFO``...

    Raises:
        SessionRunningError: this process already runs a session.
        JavaNotFoundError: no suitable Java was found.
        SessionSettingsError: `config` contradicts what Headrace relies on.
    """
    running = SparkContext._active_spark_context
    if running is not None:
        raise SessionRunningError(running.master, running.appName)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted:
        SparkContext._ensure_initialized()
        master = master or SparkConf().get("spark.master")
    master = master or config.get("spark.master") or "local[*]"
    with _environment(process_environment(master, launched=not submitted)):
        if not submitted:
            _launch({**_INSTEAD_OF_A_SHELLS, "spark.app.name": app_name, **config})
        conf = SparkConf().setAll(list(config.items()))
        conf.setMaster(master).setIfMissing("spark.app.name", app_name)
        for name, value in _defaults(master, ui=ui, log_level=log_level).items():
            conf.setIfMissing(name, value)
        for setting in REQUIRED:
            conf.setIfMissing(setting.name, setting.value)
        spark = SparkSession(SparkContext(conf=conf))
    try:
        check_session(spark)
    except BaseException:
        spark.stop()
        raise
    return spark


def prepare_session(spark: SparkSession) -> None:
    """Set what Headrace relies on in a running session, yours or that of a Spark Connect server.

    The settings apply to queries started afterwards; a query restarted from its checkpoint keeps its own.

    Raises:
        SparkVersionError: its Spark is too old.
        SessionSettingsError: Spark rejected a setting.
    """
    for setting in REQUIRED:
        if not setting.allows(_value(spark, setting.name)):
            with suppress(Exception):  # the check below names whatever was rejected
                spark.conf.set(setting.name, setting.value)
    check_session(spark)


def has_driver(spark: SparkSession) -> bool:
    """Return whether Spark's driver runs in this process. With Spark Connect it runs in the server."""
    return getattr(spark, "sparkContext", None) is not None


def most_partitions(spark: SparkSession) -> int:
    """Return how many shuffle partitions a query of a job can use: as many as the session is set to, or else can run at once."""
    if spark._jsparkSession.conf().contains(_PARTITIONS):
        return int(_value(spark, _PARTITIONS))
    # Spark's default, 200, would mean 200 state-store commits for each level.
    return max(2, int(spark.sparkContext.defaultParallelism))


@contextmanager
def partitions_set(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Set the shuffle partitions of queries that are started within this block; 0: leave those of the session."""
    with _set(spark, {_PARTITIONS: str(partitions)} if partitions else {}):
        yield


@contextmanager
def files_managed(spark: SparkSession, checkpoint: object) -> Iterator[None]:
    """Let queries started within this block keep a checkpoint on a mounted file system without starting processes.

    Spark's default manager of checkpoint files renames through Hadoop's ``FileContext``, which starts ``readlink`` several times
    for each file on a mounted file system: 90 processes in a small micro-batch. Its other one renames through ``FileSystem``. A
    file appears whole with both, and neither is better there at not replacing one that exists: both look first, then rename.

    Args:
        spark: the session. If it names a manager, that one is used.
        checkpoint: directory of the checkpoint; if it is not a `Path`, nothing is set.
    """
    is_set = spark._jsparkSession.conf().contains(_FILE_MANAGER)
    with _set(spark, {_FILE_MANAGER: _BY_FILE_SYSTEM} if isinstance(checkpoint, Path) and not is_set else {}):
        yield


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings of a session within this block: a query copies them when it starts."""
    conf = spark._jsparkSession.conf()
    before = {name: _value(spark, name) for name in settings if conf.contains(name)}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            if name in before:
                spark.conf.set(name, before[name])
            else:
                spark.conf.unset(name)


def query_of(frame: DataFrame, sink: str) -> str:
    """Return the id of the query that a micro-batch belongs to, which stays the same across restarts.

    Args:
        frame: the micro-batch, from ``foreachBatch``.
        sink: name of the sink, for the error message.

    Raises:
        SinkError: the frame is not from a streaming query.
    """
    if not has_driver(frame.sparkSession):
        remedy = "Call its write method with a query name of your own"
        raise SinkError(sink, "Spark Connect does not tell which query a micro-batch belongs to", remedy)
    query: str | None = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query is None:
        remedy = "Pass the sink to foreachBatch, or call its write method with a query name of your own"
        raise SinkError(sink, "it was called outside a streaming query", remedy)
    return query


def check_session(spark: SparkSession) -> None:
    """Check that a session has the settings that Headrace relies on, without changing any.

    Raises:
        SparkVersionError: its Spark is too old.
        SessionSettingsError: settings would break a guarantee. The error lists all of them.
    """
    if not is_new_enough(spark.version):
        raise SparkVersionError(spark.version, ".".join(map(str, OLDEST_SPARK)))
    values = [(setting, _value(spark, setting.name)) for setting in REQUIRED]
    wrong = tuple(
        WrongSetting(setting.name, value, setting.value, setting.why)
        for setting, value in values
        if not setting.allows(value)
    )
    if wrong:
        raise SessionSettingsError(wrong)


def is_new_enough(version: str) -> bool:
    """Return whether a version of Spark is one that the host runs on.

    >>> is_new_enough("4.3.0"), is_new_enough("4.0.1"), is_new_enough("3.5.9")
    (True, False, False)
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= OLDEST_SPARK


def _value(spark: SparkSession, name: str) -> str:
    # Spark has a default for each; Spark Connect would validate a default passed here as if it were being set.
    return str(spark.conf.get(name))


def _defaults(master: str, *, ui: bool, log_level: str) -> dict[str, str]:
    defaults = {
        **DEFAULTS,
        "spark.log.level": log_level,
        "spark.ui.enabled": str(ui).lower(),
        "spark.executorEnv.PYTHONPATH": worker_path(),
    }
    slots = local_slots(master)
    if slots is not None:
        # Choice: as many partitions as tasks can run at once. Each costs a state-store commit and a Python worker in every
        # batch, and any more would only queue. At least two, because a query keeps the number as long as its checkpoint
        # exists, and with one it could never use a second core.
        defaults[_PARTITIONS] = str(max(2, slots))
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        defaults["spark.executor.memory"] = f"{cluster['megabytes']}m"  # all the memory of its worker
    return defaults


def local_slots(master: str) -> int | None:
    """Return how many tasks run at once on this machine, or ``None`` if Spark runs elsewhere.

    >>> local_slots("local"), local_slots("local[3]"), local_slots("local[2, 4]"), local_slots("local-cluster[2,3,1024]")
    (1, 3, 2, 6)
    >>> local_slots("spark://host:7077")
    """
    if master == "local":
        return 1
    if within := _LOCAL.fullmatch(master):
        return (os.cpu_count() or 1) if within[1] == "*" else int(within[1])
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return int(cluster["executors"]) * int(cluster["cores"])
    return None


def worker_path() -> str:
    """Return the PYTHONPATH with which a Python worker can import what this process can, such as a module in this directory.

    The interpreter's own directories are left out: a local worker runs the same interpreter, and a remote one has its own.
    """
    own = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    dynamic = {os.path.join(path, "lib-dynload") for path in own}  # noqa: PTH118  compared with sys.path's strings
    paths = dict.fromkeys(os.path.abspath(path) for path in sys.path)  # noqa: PTH100  "" is this directory
    return os.pathsep.join(path for path in paths if path not in own | dynamic and Path(path).exists())


def process_environment(master: str | None, *, launched: bool) -> dict[str, str]:
    """Return the environment variables that Java and the workers are to be started with; this process's own do not change.

    Args:
        master: where Spark runs; ``None``: unknown, and possibly elsewhere.
        launched: whether this process starts Spark's Java.

    Raises:
        JavaNotFoundError: there is no suitable Java to start.
    """
    local = master is not None and local_slots(master) is not None
    python = None if local else os.environ.get("PYSPARK_PYTHON")
    environment = {"PYSPARK_PYTHON": python or sys.executable}
    if launched:
        java = find_java()
        archive = archive_for(java) if local and _is_of_this_python() else None
        environment["JAVA_HOME"] = str(home_for_spark(java, scratch(), archive))
        options = f'"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"'
        environment["SPARK_SUBMIT_OPTS"] = f"{options} {os.environ.get('SPARK_SUBMIT_OPTS', '')}".strip()
        if local:
            environment["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
        if local and (_is_of_this_python() or str(master).startswith("local-cluster")):
            environment["SPARK_HOME"] = str(_own_spark_home())
    return environment


def _is_of_this_python() -> bool:
    """Return whether Spark is that of the PySpark that this process imports, not one that SPARK_HOME names."""
    return Path(_find_spark_home()).resolve() == Path(pyspark.__file__).parent.resolve()


def _own_spark_home() -> Path:
    """Create a SPARK_HOME of links to the real one.

    The workers of a local cluster write below SPARK_HOME, in directories named by the second. In the real one they would write
    into the installed package, which may be read-only, and into each other's directories if two clusters started at once.

    Without the archives of PySpark, if it is installed: Spark puts those first on the search path of each Python process that it
    starts, four or more for a query, and each would compile for half a second what it imports from there.
    """
    home = scratch() / "spark-home"
    left_out = {"work", "logs"} | ({"python"} if _is_of_this_python() else set())
    if not home.exists():
        home.mkdir()
        for real in Path(_find_spark_home()).iterdir():
            if real.name not in left_out:
                (home / real.name).symlink_to(real)
    return home


def _launch(config: Mapping[str, str]) -> None:
    """Start Java. Each session gets a new one, so that it inherits no settings from the session before."""
    _end_java()
    stderr = quietened_stderr()
    try:
        gateway = launch_gateway(
            SparkConf(loadDefaults=False).setAll(list(config.items())), {"stderr": stderr}
        )
    finally:
        os.close(stderr)
    SparkContext._ensure_initialized(gateway=gateway)
    atexit.register(_end_java)  # before the scratch directory is deleted, to which Java writes


def _end_java() -> None:
    """Close the stdin of a session's Java, which makes it exit, and wait until it has."""
    atexit.unregister(_end_java)
    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = gateway.proc
    if process is not None:  # started by this process
        process.stdin.close()
        with suppress(TimeoutExpired):
            process.wait(_END_WITHIN_S)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within this block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
