"""The error that stopped a run, as a value: a run that stops is an outcome like any other."""

import enum
from dataclasses import dataclass
from typing import Self


class StopCause(enum.Enum):
    """How a run was stopped."""

    RAISED = "raised"
    """By an exception that user code, its input or a limit raised."""
    DEFECT = "defect"
    """By a failed assertion: on the sound protocol, a bug in Headrace itself."""
    ENDED = "ended"
    """User code ended its process."""


@dataclass(frozen=True, slots=True)
class RunError:
    """The error that stopped a run.

    Attributes:
        stop: how it stopped the run.
        name: of its class; ``""``: it has none.
        text: what it says.
    """

    stop: StopCause
    name: str
    text: str

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Return an exception as a value."""
        stop = StopCause.DEFECT if type(error) is AssertionError else StopCause.RAISED
        return cls(stop, type(error).__name__, str(error))

    @classmethod
    def ended(cls, text: str) -> Self:
        """Return the error of a run that ended its process."""
        return cls(StopCause.ENDED, _ENDED, text)

    @classmethod
    def wrong(cls, text: str) -> Self:
        """Return what is wrong with a run that no exception stopped."""
        return cls(StopCause.RAISED, "", text)

    @classmethod
    def read(cls, written: str) -> Self | None:
        """Return what `str` wrote into a file; ``None``: nothing."""
        name, _, text = written.partition(": ")
        stop = {_ENDED: StopCause.ENDED, AssertionError.__name__: StopCause.DEFECT}.get(
            name, StopCause.RAISED
        )
        return cls(stop, name, text) if written else None

    @property
    def essence(self) -> tuple[str, ...]:
        """Its first and last line; the traceback between them has paths of the machine that it ran on."""
        lines = str(self).splitlines()
        return (*lines[:1], *lines[-1:])

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text


_ENDED = "ProcessEnded"
