"""The three engines of Figures 10 to 12: one pipeline definition, three ways to execute it (Dataflow 2.4)."""

from dataclasses import dataclass

from headrace.dataflow.arguments import check_positive


@dataclass(frozen=True, slots=True)
class Streaming:
    """Evaluation of triggers as elements arrive and as clock and watermark advance (Figure 12): the default."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A watermark at the beginning of time until all input is read, and then at the end (Figures 6 and 10)."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Evaluation of triggers only at boundaries of processing time (Figure 11).

    At a boundary, the watermark counts as past everything that was read.

    Attributes:
        period_us: period of the boundaries, which are at its multiples, wall time, microseconds.
    """

    period_us: int

    def __post_init__(self) -> None:
        check_positive("period_us", self.period_us)


Engine = Streaming | Batch | MicroBatch
