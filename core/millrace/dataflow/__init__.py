"""The Dataflow Model (Akidau et al., VLDB 2015), as a layer on Millrace's public Computation API.

Four questions (Dataflow 2): *what* is computed, *where* in event time, *when* in processing time it is emitted, and *how* later
results relate to earlier ones.
"""

from millrace.dataflow._combining import CombineFn
from millrace.dataflow._engines import Batch, Engine, MicroBatch, Streaming
from millrace.dataflow._panes import Accumulation, Element, Pane, Timing
from millrace.dataflow._triggers import (
    DEFAULT_TRIGGER,
    AfterDelay,
    AllOf,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    Custom,
    Instant,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Trigger,
    TriggerFn,
    Wanted,
    When,
)
from millrace.dataflow._windows import (
    END_OF_TIME,
    GLOBAL,
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    Window,
    WindowFn,
)

__all__ = [
    "DEFAULT_TRIGGER",
    "END_OF_TIME",
    "GLOBAL",
    "Accumulation",
    "AfterDelay",
    "AllOf",
    "AnyOf",
    "AtCount",
    "AtPeriod",
    "AtWatermark",
    "Batch",
    "CombineFn",
    "Custom",
    "Element",
    "Engine",
    "FixedWindows",
    "GlobalWindows",
    "Instant",
    "MicroBatch",
    "Pane",
    "Repeat",
    "RepeatUntil",
    "SequenceOf",
    "Sessions",
    "SlidingWindows",
    "Streaming",
    "Timing",
    "Trigger",
    "TriggerFn",
    "Wanted",
    "When",
    "Window",
    "WindowFn",
]
