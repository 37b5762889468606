"""Errors of a job on Spark at its edges: sources, sinks and the files it keeps (see `headrace.api.errors`)."""

from headrace.api.errors import HeadraceError


class SourceMissingError(HeadraceError):
    """A source does not exist. Fields: injector, place, remedy."""

    def __init__(self, injector: str, place: str, remedy: str) -> None:
        super().__init__(injector, place, remedy)
        self.injector, self.place, self.remedy = injector, place, remedy

    def __str__(self) -> str:
        """Name the missing place and the remedy."""
        return f"injector {self.injector!r}: there is no {self.place}. {self.remedy}"


class SourceChangedError(HeadraceError):
    """A source no longer returns the data it returned before. Fields: injector, file, problem, remedy."""

    def __init__(self, injector: str, file: str, problem: str, remedy: str) -> None:
        super().__init__(injector, file, problem, remedy)
        self.injector, self.file, self.problem, self.remedy = injector, file, problem, remedy

    def __str__(self) -> str:
        """Name the file, what happened to it, and the remedy."""
        return f"injector {self.injector!r}, {self.file}: {self.problem}. {self.remedy}"


class SourceUnreadableError(HeadraceError):
    """A source cannot be read at all. Fields: injector, place, reason, remedy."""

    def __init__(self, injector: str, place: str, reason: str, remedy: str) -> None:
        super().__init__(injector, place, reason, remedy)
        self.injector, self.place, self.reason, self.remedy = injector, place, reason, remedy

    def __str__(self) -> str:
        """Name the place, the reason and the remedy."""
        return f"injector {self.injector!r}, {self.place}: {self.reason}. {self.remedy}"


class CheckpointMismatchError(HeadraceError):
    """A query's checkpoint belongs to another source. Fields: injector, problem, remedy."""

    def __init__(self, injector: str, problem: str, remedy: str) -> None:
        super().__init__(injector, problem, remedy)
        self.injector, self.problem, self.remedy = injector, problem, remedy

    def __str__(self) -> str:
        """Name the mismatch and the remedy."""
        return f"injector {self.injector!r}: {self.problem}. {self.remedy}"


class SinkError(HeadraceError):
    """A sink could not write a batch; none of it was written. Fields: sink, problem, remedy."""

    def __init__(self, sink: str, problem: str, remedy: str) -> None:
        super().__init__(sink, problem, remedy)
        self.sink, self.problem, self.remedy = sink, problem, remedy

    def __str__(self) -> str:
        """Name the sink, the problem and the remedy."""
        return f"{self.sink}: {self.problem}. {self.remedy}"


class SinkTableError(SinkError):
    """The table does not fit the sink's rows."""


class SinkBusyError(SinkError):
    """Another process kept the database locked for longer than the sink waits."""


class FencedWriterError(HeadraceError):
    """A newer writer has replaced this one (MillWheel 6.2). Fields: sink, epoch, latest_epoch."""

    def __init__(self, sink: str, epoch: int, latest_epoch: int) -> None:
        super().__init__(sink, epoch, latest_epoch)
        self.sink, self.epoch, self.latest_epoch = sink, epoch, latest_epoch

    def __str__(self) -> str:
        """Say what to do in either case: a driver that was replaced, or two writers that share a name."""
        return (
            f"{self.sink}: this writer has epoch {self.epoch}, but a newer sink of the same name has since claimed epoch "
            f"{self.latest_epoch}; none of this batch was written. If the job was restarted elsewhere, leave that job running: "
            "it has replaced this process, which has nothing left to do. Only if these are two jobs, or two streams of one job, "
            "stop both and restart them with a separate writer= for each sink"
        )


class StorageError(HeadraceError):
    """A job cannot use a file or directory that it needs. Fields: place, problem, remedy."""

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        super().__init__(place, problem, remedy)
        self.place, self.problem, self.remedy = place, problem, remedy

    def __str__(self) -> str:
        """Name the place, the problem and the remedy."""
        return f"{self.place}: {self.problem}. {self.remedy}"


class CheckpointDamagedError(StorageError):
    """A checkpoint, or a file of one, is damaged, missing, or was moved."""


class DiskFullError(StorageError):
    """The disk of a checkpoint is full."""


class InputFileError(StorageError):
    """An input file is missing or cannot be read."""


class DriverReplacedError(StorageError):
    """Another driver has taken over this driver's checkpoint (MillWheel 6.2)."""
