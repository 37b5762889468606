"""Errors of the host on Spark: its session, its jobs and their logs. Those of every host are in `headrace.api.errors`."""

import shlex
from dataclasses import dataclass

from headrace.api.errors import HeadraceError, UserCodeError

_INSTALL = "pip install 'headrace[spark]'"


class SparkHostError(HeadraceError):
    """A request that Spark cannot carry out. Fields: problem, remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        """Name the problem and the remedy."""
        return f"on Spark: {self.problem}. {self.remedy}"


class MissingPackageError(HeadraceError, ImportError):
    """Packages of the extra ``spark`` are not installed. Fields: missing."""

    def __init__(self, missing: tuple[str, ...]) -> None:
        super().__init__(missing)
        self.missing = missing

    def __str__(self) -> str:
        """Name the missing packages and how to install them."""
        return f"headrace.spark needs packages that are not installed: {', '.join(self.missing)}. Install them: {_INSTALL}"


class PySparkVersionError(HeadraceError, ImportError):
    """The installed PySpark is too old for the host. Fields: version, needed."""

    def __init__(self, version: str, needed: str) -> None:
        super().__init__(version, needed)
        self.version, self.needed = version, needed

    def __str__(self) -> str:
        """Name both versions, how to upgrade, and what works without."""
        return (
            f"headrace.spark runs pipelines on PySpark {self.needed} or newer, and {self.version} is installed. Install it: "
            f"pip install 'pyspark>={self.needed}'. (headrace verify and replay take Spark jobs with PySpark 3.5 and newer)"
        )


class JavaNotFoundError(HeadraceError):
    """No Java that can run Spark was found. Fields: needed, tried (each place searched, and why its Java was rejected)."""

    def __init__(self, needed: int, tried: tuple[str, ...]) -> None:
        super().__init__(needed, tried)
        self.needed, self.tried = needed, tried

    def __str__(self) -> str:
        """List the places searched, and say how to get a Java."""
        tried = "".join(f"\n  {place}" for place in self.tried)
        return (
            f"Spark needs Java {self.needed} or newer, and none was found:{tried}\n"
            f"Install a JDK and set JAVA_HOME to it, or install the Python package that contains one: {_INSTALL}"
        )


class SessionRunningError(HeadraceError):
    """This process already runs a Spark session. Fields: master, app_name (of the running session)."""

    def __init__(self, master: str, app_name: str) -> None:
        super().__init__(master, app_name)
        self.master, self.app_name = master, app_name

    def __str__(self) -> str:
        """Name the running session and what to do."""
        return (
            f"a Spark session already runs in this process: {self.app_name!r} on {self.master}. "
            "Use it after calling prepare_session(spark), or stop it first: spark.stop()"
        )


class SparkVersionError(HeadraceError):
    """The session's Spark is too old. Fields: version, needed."""

    def __init__(self, version: str, needed: str) -> None:
        super().__init__(version, needed)
        self.version, self.needed = version, needed

    def __str__(self) -> str:
        """Name both versions, and say how to upgrade."""
        return (
            f"this session runs Spark {self.version}; Headrace needs {self.needed} or newer. If this environment has a "
            "newer PySpark, then SPARK_HOME or the server you connect to is older: unset SPARK_HOME, or upgrade the server"
        )


@dataclass(frozen=True, slots=True)
class WrongSetting:
    """A session setting that would break a guarantee of Headrace's.

    Attributes:
        name: Spark's name for it.
        value: its value.
        needed: the value that Headrace needs.
        why: what would go wrong.
    """

    name: str
    value: str
    needed: str
    why: str


class SessionSettingsError(HeadraceError):
    """A session has settings that break a guarantee. Fields: wrong."""

    def __init__(self, wrong: tuple[WrongSetting, ...]) -> None:
        super().__init__(wrong)
        self.wrong = wrong

    def __str__(self) -> str:
        """Name each setting, why it matters, and how to change all of them."""
        lines = "".join(
            f"\n  {setting.name} is {setting.value!r}, must be {setting.needed!r}: {setting.why}"
            for setting in self.wrong
        )
        return (
            f"Headrace cannot run with these settings of the Spark session:{lines}\n"
            "Set them when the session is created (--conf NAME=VALUE), or call prepare_session(spark)"
        )


class LogError(HeadraceError):
    """The log between two stages is damaged or inconsistent. Fields: stage, problem, remedy."""

    def __init__(self, stage: str, problem: str, remedy: str) -> None:
        super().__init__(stage, problem, remedy)
        self.stage, self.problem, self.remedy = stage, problem, remedy

    def __str__(self) -> str:
        """Name the stage, the problem and the remedy."""
        return f"log of {self.stage!r}: {self.problem}. {self.remedy}"


class JobStoppedError(UserCodeError):
    """User code of a job kept failing. If nothing changes, the next start fails on the same record.

    Fields: computation, key, record_id, attempts, traceback, value, directory (of the job).
    """

    def __init__(
        self,
        computation: str,
        key: str,
        record_id: str,
        attempts: int,
        traceback: str,
        value: str,
        directory: str,
    ) -> None:
        super().__init__(computation, key, record_id, attempts, traceback, value)
        self.args = (computation, key, record_id, attempts, traceback, value, directory)
        self.directory = directory

    def _remedy(self) -> str:
        command = shlex.join(["headrace", "job", "skip", self.directory, self.computation, self.record_id])
        return (
            f"{super()._remedy()}, and deploy again. To send this record to the job's dead letters if it fails again, run first: "
            f"{command}"
        )


class QueryStoppedError(HeadraceError):
    """The job was used after one of its queries was stopped. Fields: query."""

    def __init__(self, query: str) -> None:
        super().__init__(query)
        self.query = query

    def __str__(self) -> str:
        """Name the query and the remedy."""
        return f"query {self.query!r} was stopped. Deploy the pipeline in the same directory to resume"


class QueryFailedError(HeadraceError):
    """Spark ended a query for a reason that is not one of Headrace's errors. Fields: query, reason."""

    def __init__(self, query: str, reason: str) -> None:
        super().__init__(query, reason)
        self.query, self.reason = query, reason

    def __str__(self) -> str:
        """Name the query, and quote Spark's reason."""
        return f"query {self.query!r} ended: {self.reason}"
