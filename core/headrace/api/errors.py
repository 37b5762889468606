"""Errors that users can cause: one class each, with fields and a message that says what is wrong, where, and what to do.

Our own bugs raise ``AssertionError``. Exceptions take positional fields and format them in ``__str__``, so that they can be
rebuilt as ``type(error)(*error.args)``.
"""

import traceback
from collections.abc import Iterable


class HeadraceError(Exception):
    """The base class of all errors that Headrace raises on purpose."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence, with a blank after it, that suggests the most similar names; ``""`` if none is similar.

    >>> did_you_mean("harnes", ["harness", "alarms"])
    "Did you mean 'harness'? "
    """
    from difflib import get_close_matches  # noqa: PLC0415  only errors need it

    similar = get_close_matches(name, known, 3)
    return f"Did you mean {' or '.join(repr(str(each)) for each in similar)}? " if similar else ""


def with_article(noun: str) -> str:
    """Put an article before a noun.

    >>> with_article("int"), with_article("list")
    ('an int', 'a list')
    """
    return f"{'an' if noun[:1] in 'aeio' else 'a'} {noun}"


class PipelineError(HeadraceError):
    """A pipeline is inconsistent (MillWheel 3). Fields: pipeline, problem, remedy."""

    def __init__(self, pipeline: str, problem: str, remedy: str) -> None:
        super().__init__(pipeline, problem, remedy)
        self.pipeline, self.problem, self.remedy = pipeline, problem, remedy

    def __str__(self) -> str:
        return f"pipeline {self.pipeline!r}: {self.problem}. {self.remedy}"


class UnknownStreamError(PipelineError):
    """A stream is used, but nobody produces it."""


class CycleError(PipelineError):
    """Computations form a cycle."""


class DuplicateNameError(PipelineError):
    """A name is used twice: by two nodes, or for two codecs of one stream."""


class NoSourceError(PipelineError):
    """No injector reaches a computation, or there is no injector."""


class CodecError(HeadraceError):
    """A codec cannot write or read a value. Fields: where, codec, action, reason."""

    def __init__(self, where: str, codec: str, action: str, reason: str) -> None:
        super().__init__(where, codec, action, reason)
        self.where, self.codec, self.action, self.reason = where, codec, action, reason

    def __str__(self) -> str:
        return (
            f"{self.where}: {self.codec} cannot {self.action} this value: {self.reason}. "
            "Use values that the codec supports, or declare another codec for the stream or state"
        )


class KeyExtractorError(HeadraceError):
    """A key extractor failed, or did not return a ``str``. Fields: computation, stream, reason."""

    def __init__(self, computation: str, stream: str, reason: str) -> None:
        super().__init__(computation, stream, reason)
        self.computation, self.stream, self.reason = computation, stream, reason

    def __str__(self) -> str:
        return (
            f"key extractor of computation {self.computation!r} for stream {self.stream!r}: {self.reason}. "
            "It must take a Record and return its key as a str"
        )


class MalformedRecordError(HeadraceError):
    """An injector cannot accept a record from its source. Fields: injector, stream, offset, reason."""

    def __init__(self, injector: str, stream: str, offset: int, reason: str) -> None:
        super().__init__(injector, stream, offset, reason)
        self.injector, self.stream, self.offset, self.reason = injector, stream, offset, reason

    def __str__(self) -> str:
        return (
            f"injector {self.injector!r}, record {self.offset} for stream {self.stream!r}: {self.reason}. "
            "Fix the source, or give the injector on_malformed=DeadLetter(stream)"
        )


class UndeclaredOutputError(HeadraceError):
    """A computation produced to a stream that it does not declare. Fields: computation, stream, declared."""

    def __init__(self, computation: str, stream: str, declared: tuple[str, ...]) -> None:
        super().__init__(computation, stream, declared)
        self.computation, self.stream, self.declared = computation, stream, declared

    def __str__(self) -> str:
        return (
            f"computation {self.computation!r} produced to stream {self.stream!r}, which is not among its outputs "
            f"({', '.join(map(repr, self.declared)) or 'none'}). Add it to outputs= where the computation is added"
        )


class TimestampRegressionError(HeadraceError):
    """A production is older than its cause (MillWheel 4.5). Fields: computation, key, timestamp_us, cause_us."""

    def __init__(self, computation: str, key: str, timestamp_us: int, cause_us: int) -> None:
        super().__init__(computation, key, timestamp_us, cause_us)
        self.computation, self.key = computation, key
        self.timestamp_us, self.cause_us = timestamp_us, cause_us

    def __str__(self) -> str:
        return (
            f"computation {self.computation!r}, key {self.key!r}: production with timestamp {self.timestamp_us} us is older "
            f"than the record or timer that caused it ({self.cause_us} us). Give it the timestamp of its cause or a later one"
        )


class ContextArgumentError(HeadraceError):
    """A method of the context got an invalid argument. Fields: computation, key, call, argument, value, expected."""

    def __init__(
        self, computation: str, key: str, call: str, argument: str, value: object, expected: str
    ) -> None:
        super().__init__(computation, key, call, argument, value, expected)
        self.computation, self.key, self.call = computation, key, call
        self.argument, self.value, self.expected = argument, value, expected

    def __str__(self) -> str:
        return (
            f"computation {self.computation!r}, key {self.key!r}: {self.call}({self.argument}={self.value!r:.80}): "
            f"expected {self.expected}"
        )


class UserCodeError(HeadraceError):
    """User code kept failing. Fields: computation, key, record_id, attempts, traceback, value (decoded; ``""``: of a timer)."""

    def __init__(
        self, computation: str, key: str, record_id: str, attempts: int, traceback: str, value: str = ""
    ) -> None:
        super().__init__(computation, key, record_id, attempts, traceback, value)
        self.computation, self.key, self.record_id = computation, key, record_id
        self.attempts, self.traceback, self.value = attempts, traceback, value

    def __str__(self) -> str:
        times = "once" if self.attempts == 1 else f"{self.attempts} times"
        value = f", whose value is {self.value}" if self.value else ""
        return (
            f"computation {self.computation!r}, key {self.key!r}: user code failed {times} on {self.record_id}{value}. "
            f"{self._remedy()}\n{self.traceback.rstrip()}"
        )

    def _remedy(self) -> str:
        return "Fix it, or give the computation on_failure=DeadLetter(stream)"


def text_of(error: BaseException) -> str:
    r"""Return the type and the message of an error of user code as text that can be written, whatever it says of itself.

    >>> text_of(ValueError("no such city: \ud800"))
    'ValueError: no such city: \\ud800'
    """
    try:
        message = str(error)
    except Exception as also:  # noqa: BLE001  the message is the user's code, too
        message = f"(its message cannot be made: {type(also).__name__})"
    return f"{type(error).__name__}: {message}".encode(errors="backslashreplace").decode()


def traceback_of_user_code(error: BaseException) -> str:
    """Format an error's traceback from the first frame of user code on, if there is one."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame or error.__traceback__))


_OURS = "headrace.", "headrace_properties."


class OptionsError(HeadraceError):
    """An option has an invalid value. Fields: option, value, expected."""

    def __init__(self, option: str, value: object, expected: str) -> None:
        super().__init__(option, value, expected)
        self.option, self.value, self.expected = option, value, expected

    def __str__(self) -> str:
        verb = " must be" if self.expected.startswith(("left out ", "given ")) else ": expected"
        named = f"option {self.option}={self.value!r}{verb} {self.expected}"
        _, is_choice, choices = self.expected.replace("': ", "one of ").partition("one of ")
        known = [choice.strip("'") for choice in choices.split(", ")]
        hint = did_you_mean(str(self.value), known) if is_choice else ""
        return f"{named}. {hint}".rstrip() if hint else named


class HistoryFormatError(HeadraceError):
    """A History, fault schedule or replay file cannot be read. Fields: what, path, reason."""

    def __init__(self, what: str, path: str, reason: str) -> None:
        super().__init__(what, path, reason)
        self.what, self.path, self.reason = what, path, reason

    def __str__(self) -> str:
        return f"cannot read {self.what} {self.path}: {self.reason}"
