"""Headrace: MillWheel's stream processing, tested under faults before it runs in production.

Write a `Computation`, connect computations in a `Pipeline`, and verify the pipeline in a simulated cluster
(``headrace verify MODULE:PIPELINE``).
"""

from headrace.api.codecs import (
    BytesCodec,
    Codec,
    JsonCodec,
    PickleCodec,
    ProtobufCodec,
    RopeCodec,
    StateCodec,
    TypedCodec,
)
from headrace.api.computation import Computation
from headrace.api.context import Context
from headrace.api.errors import (
    CodecError,
    ContextArgumentError,
    CycleError,
    DuplicateNameError,
    HeadraceError,
    HistoryFormatError,
    KeyExtractorError,
    MalformedRecordError,
    NoSourceError,
    OptionsError,
    PipelineError,
    TimestampRegressionError,
    UndeclaredOutputError,
    UnknownStreamError,
    UserCodeError,
)
from headrace.api.options import EngineOptions, Eviction
from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress
from headrace.api.records import Clock, Record, Timer
from headrace.api.ropes import Encoded, Rope
from headrace.api.specs import ComputationSpec, DeadLetter, InjectorSpec, Productions, Stop, same_key
from headrace.api.time import (
    HOUR,
    MAX_TIME,
    MICROSECOND,
    MILLISECOND,
    MIN_TIME,
    MINUTE,
    SECOND,
    format_time,
)
from headrace.wire.keys import KeyInterval

__all__ = [
    "HOUR",
    "MAX_TIME",
    "MICROSECOND",
    "MILLISECOND",
    "MINUTE",
    "MIN_TIME",
    "SECOND",
    "BytesCodec",
    "Clock",
    "Codec",
    "CodecError",
    "Computation",
    "ComputationProgress",
    "ComputationSpec",
    "Context",
    "ContextArgumentError",
    "CycleError",
    "DeadLetter",
    "DuplicateNameError",
    "Encoded",
    "EngineOptions",
    "Eviction",
    "HeadraceError",
    "HistoryFormatError",
    "InjectorSpec",
    "JsonCodec",
    "KeyExtractorError",
    "KeyInterval",
    "MalformedRecordError",
    "NoSourceError",
    "OptionsError",
    "PickleCodec",
    "Pipeline",
    "PipelineError",
    "Productions",
    "ProtobufCodec",
    "Record",
    "Rope",
    "RopeCodec",
    "StateCodec",
    "Stop",
    "Timer",
    "TimestampRegressionError",
    "TypedCodec",
    "UndeclaredOutputError",
    "UnknownStreamError",
    "UserCodeError",
    "format_time",
    "same_key",
]
