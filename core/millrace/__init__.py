"""Millrace: MillWheel's stream processing, to be proved under faults before it is run.

Write a `Computation`, join computations in a `Pipeline`; then verify it in a simulated cluster
(``millrace verify MODULE:PIPELINE``).
"""

from millrace._codecs import BytesCodec, Codec, JsonCodec, PickleCodec, ProtobufCodec, TypedCodec
from millrace._computation import Computation, Context
from millrace._errors import (
    CodecError,
    ContextArgumentError,
    CycleError,
    DuplicateNameError,
    HistoryFormatError,
    KeyExtractorError,
    MalformedRecordError,
    MillraceError,
    NoSourceError,
    OptionsError,
    PipelineError,
    TimestampRegressionError,
    UndeclaredOutputError,
    UnknownStreamError,
    UserCodeError,
)
from millrace._keys import KeyInterval
from millrace._options import EngineOptions, Eviction
from millrace._pipeline import (
    ComputationSpec,
    DeadLetter,
    InjectorSpec,
    Pipeline,
    Productions,
    Stop,
    same_key,
)
from millrace._progress import ComputationProgress
from millrace._records import Clock, Record, Timer
from millrace._time import (
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
    "MillraceError",
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
