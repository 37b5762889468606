"""What can go wrong where a job on Spark meets the outside world: its sources and its sinks (see `headrace.api.errors`)."""

from headrace.api.errors import HeadraceError


class SourceMissingError(HeadraceError):
    """A source that is not there. Fields: injector, place, remedy."""

    def __init__(self, injector: str, place: str, remedy: str) -> None:
        super().__init__(injector, place, remedy)
        self.injector, self.place, self.remedy = injector, place, remedy

    def __str__(self) -> str:
        """Say what is missing."""
        return f"injector {self.injector!r}: there is no {self.place}. {self.remedy}"


class SourceChangedError(HeadraceError):
    """A source that does not give again what it gave before. Fields: injector, file, problem, remedy."""

    def __init__(self, injector: str, file: str, problem: str, remedy: str) -> None:
        super().__init__(injector, file, problem, remedy)
        self.injector, self.file, self.problem, self.remedy = injector, file, problem, remedy

    def __str__(self) -> str:
        """Say which file, and what happened to it."""
        return f"injector {self.injector!r}, {self.file}: {self.problem}. {self.remedy}"


class SourceUnreadableError(HeadraceError):
    """A source that can not be read at all. Fields: injector, place, reason, remedy."""

    def __init__(self, injector: str, place: str, reason: str, remedy: str) -> None:
        super().__init__(injector, place, reason, remedy)
        self.injector, self.place, self.reason, self.remedy = injector, place, reason, remedy

    def __str__(self) -> str:
        """Say where and why."""
        return f"injector {self.injector!r}, {self.place}: {self.reason}. {self.remedy}"


class CheckpointMismatchError(HeadraceError):
    """A query's checkpoint that belongs to another source. Fields: injector, problem, remedy."""

    def __init__(self, injector: str, problem: str, remedy: str) -> None:
        super().__init__(injector, problem, remedy)
        self.injector, self.problem, self.remedy = injector, problem, remedy

    def __str__(self) -> str:
        """Say what does not fit."""
        return f"injector {self.injector!r}: {self.problem}. {self.remedy}"


class SinkError(HeadraceError):
    """A sink that could not take a batch; nothing of it was written. Fields: sink, problem, remedy."""

    def __init__(self, sink: str, problem: str, remedy: str) -> None:
        super().__init__(sink, problem, remedy)
        self.sink, self.problem, self.remedy = sink, problem, remedy

    def __str__(self) -> str:
        """Say which one, why and what to do."""
        return f"{self.sink}: {self.problem}. {self.remedy}"


class SinkTableError(SinkError):
    """The table is not what the sink would write to."""


class SinkBusyError(SinkError):
    """Somebody else held the database for longer than the sink waits."""


class FencedWriterError(HeadraceError):
    """A writer that has a successor (MillWheel 6.2). Fields: sink, epoch, latest_epoch."""

    def __init__(self, sink: str, epoch: int, latest_epoch: int) -> None:
        super().__init__(sink, epoch, latest_epoch)
        self.sink, self.epoch, self.latest_epoch = sink, epoch, latest_epoch

    def __str__(self) -> str:
        """Say that there is a newer one, and what to do: both for a driver that was replaced, and for two that share a name."""
        return (
            f"{self.sink}: this writer has epoch {self.epoch}, but epoch {self.latest_epoch} was claimed since: a newer sink "
            "writes there under the same name, and nothing of this batch was written. If the job was started again elsewhere, "
            "leave that one running: this process was replaced, and has nothing left to do. Only if these are two jobs, or two "
            "streams of one, stop both, and start them again with a writer= of its own for each sink"
        )


class StorageError(HeadraceError):
    """A file or directory that a job needs, and can not use. Fields: place, problem, remedy."""

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        super().__init__(place, problem, remedy)
        self.place, self.problem, self.remedy = place, problem, remedy

    def __str__(self) -> str:
        """Say which one, why and what to do."""
        return f"{self.place}: {self.problem}. {self.remedy}"


class CheckpointDamagedError(StorageError):
    """A file of a checkpoint that is not as it was written."""


class DiskFullError(StorageError):
    """No room for a checkpoint."""


class InputFileError(StorageError):
    """A file of the input that is not there, or can not be read."""


class DriverReplacedError(StorageError):
    """A driver whose checkpoint another one works on (MillWheel 6.2)."""
