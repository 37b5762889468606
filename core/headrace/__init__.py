"""Headrace: MillWheel's stream processing, to be proved under faults before it is run.

Write a `Computation`, join computations in a `Pipeline`; then verify it in a simulated cluster
(``headrace verify MODULE:PIPELINE``).
"""

from headrace._codecs import BytesCodec, Codec, JsonCodec, PickleCodec, ProtobufCodec, TypedCodec
from headrace._computation import Computation, Context
from headrace._errors import (
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
from headrace._keys import KeyInterval
from headrace._options import EngineOptions, Eviction
from headrace._pipeline import (
    ComputationSpec,
    DeadLetter,
    InjectorSpec,
    Pipeline,
    Productions,
    Stop,
    same_key,
)
from headrace._progress import ComputationProgress
from headrace._records import Clock, Record, Timer
from headrace._time import (
    HOUR,
    MAX_TIME,
    MICROSECOND,
    MILLISECOND,
    MIN_TIME,
    MINUTE,
    SECOND,
    format_time,
)

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
    "EngineOptions",
    "Eviction",
    "HistoryFormatError",
    "InjectorSpec",
    "JsonCodec",
    "KeyExtractorError",
    "KeyInterval",
    "MalformedRecordError",
    "HeadraceError",
    "NoSourceError",
    "OptionsError",
    "PickleCodec",
    "Pipeline",
    "PipelineError",
    "Productions",
    "ProtobufCodec",
    "Record",
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
