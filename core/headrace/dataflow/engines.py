"""The three engines of Figures 10 to 12: one definition, executed in one of three ways (Dataflow 2.4)."""

from dataclasses import dataclass

from headrace.dataflow.arguments import check_positive


@dataclass(frozen=True, slots=True)
class Streaming:
    """Triggers are evaluated as elements, clock and watermark come (Figure 12): the default."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The watermark stays at the beginning of time until all input is read, and then goes to the end (Figures 6 and 10)."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Triggers are evaluated at boundaries of processing time only (Figure 11).

    There the watermark counts as past all that was read.

    Attributes:
        period_us: multiples of it are the boundaries, wall time, microseconds.
    """

    period_us: int

    def __post_init__(self) -> None:
        """Refuse a period that is none."""
        check_positive("period_us", self.period_us)


Engine = Streaming | Batch | MicroBatch
