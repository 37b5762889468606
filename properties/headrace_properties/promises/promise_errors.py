"""How a promise is broken, and what is wrong with a promise itself."""

from typing import Protocol

from headrace import HeadraceError
from headrace.history import Event


class Evidence(Protocol):
    """A `RecordView` or `RowChange`: what an event of the run changed.

    Attributes:
        number: of the event in the History.
        event: the event.
    """

    number: int
    event: Event


class Broken(AssertionError):  # noqa: N818  users read it as a sentence: raise Broken
    """Raised by a promise that knows which records or rows are to blame; the explanation of the run starts with them.

    Args:
        message: what is wrong.
        about: `RecordView` or `RowChange` values of the run.
    """

    def __init__(self, message: str, *about: Evidence) -> None:
        super().__init__(message)
        self.about = about


class PromiseError(HeadraceError):
    """A promise is invalid, and says nothing about the pipeline. Fields: promise, kind, where, reason.

    ``kind``: ``declaration``, ``raises``, ``hangs``, ``changes``, ``unsteady`` or ``returns``.
    """

    def __init__(self, promise: str, kind: str, where: str, reason: str) -> None:
        super().__init__(promise, kind, where, reason)
        self.promise, self.kind, self.where, self.reason = promise, kind, where, reason

    def __str__(self) -> str:
        """Say which promise, where it is written, what is wrong, and how to fix it."""
        place = f" ({self.where})" if self.where else ""
        return f"promise {self.promise!r}{place} {self.reason}"


class Unexercised(Exception):  # noqa: N818  as above
    """Raised by a promise that this run did not exercise: its verdict is unknown.

    Args:
        why: what did not happen.
    """


class NotInPipelineError(LookupError):
    """A promise names a computation or stream that the pipeline does not have."""
