"""The Dataflow Model (Akidau et al., VLDB 2015), as a layer on Headrace's public Computation API.

A pipeline answers four questions (Dataflow 2): *what* is computed, *where* in event time, *when* in processing time results are
emitted, and *how* later results relate to earlier ones.
"""

from headrace.dataflow.collection import Flow, PCollection, co_group, flatten, read
from headrace.dataflow.combining import COUNT, DISTINCT, LIST, MAX, MEAN, MIN, SUM, CombineFn, top
from headrace.dataflow.dataflow_errors import DataflowError, WindowMergeError
from headrace.dataflow.elements import END_OF_TIME, GLOBAL, Element, Window
from headrace.dataflow.engines import Batch, Engine, MicroBatch, Streaming
from headrace.dataflow.grouping import Alarm, Grouping
from headrace.dataflow.key_text import key_of
from headrace.dataflow.panes import Accumulation, Pane, TimestampCombiner, Timing
from headrace.dataflow.pardo import DoFn, TaggedDoFn
from headrace.dataflow.row_codec import KeyState
from headrace.dataflow.stateful import KeyContext, StatefulFn
from headrace.dataflow.transforms import GroupByKeyAndWindow, ParDo
from headrace.dataflow.triggers import (
    DEFAULT_TRIGGER,
    AfterDelay,
    AllOf,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    Custom,
    Instant,
    OrFinally,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Trigger,
    TriggerFn,
    Wanted,
    When,
    after_watermark,
)
from headrace.dataflow.window_states import WindowState
from headrace.dataflow.windows import FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn

__all__ = [
    "COUNT",
    "DEFAULT_TRIGGER",
    "DISTINCT",
    "END_OF_TIME",
    "GLOBAL",
    "LIST",
    "MAX",
    "MEAN",
    "MIN",
    "SUM",
    "Accumulation",
    "AfterDelay",
    "Alarm",
    "AllOf",
    "AnyOf",
    "AtCount",
    "AtPeriod",
    "AtWatermark",
    "Batch",
    "CombineFn",
    "Custom",
    "DataflowError",
    "DoFn",
    "Element",
    "Engine",
    "FixedWindows",
    "Flow",
    "GlobalWindows",
    "GroupByKeyAndWindow",
    "Grouping",
    "Instant",
    "KeyContext",
    "KeyState",
    "MicroBatch",
    "OrFinally",
    "PCollection",
    "Pane",
    "ParDo",
    "Repeat",
    "RepeatUntil",
    "SequenceOf",
    "Sessions",
    "SlidingWindows",
    "StatefulFn",
    "Streaming",
    "TaggedDoFn",
    "TimestampCombiner",
    "Timing",
    "Trigger",
    "TriggerFn",
    "Wanted",
    "When",
    "Window",
    "WindowFn",
    "WindowMergeError",
    "WindowState",
    "after_watermark",
    "co_group",
    "flatten",
    "key_of",
    "read",
    "top",
]
