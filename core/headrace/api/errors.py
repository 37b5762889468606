"""What can go wrong for a user: one class for each, with fields, and a message that says what, where and what to do.

Our own bugs are ``AssertionError``. Exceptions take positional fields and format in ``__str__``, so that they survive
being rebuilt as ``type(error)(*error.args)``.
"""


class HeadraceError(Exception):
    """The root of everything that Headrace raises on purpose."""


class PipelineError(HeadraceError):
    """A pipeline that does not fit together (MillWheel 3). Fields: pipeline, problem, remedy."""

    def __init__(self, pipeline: str, problem: str, remedy: str) -> None:
        super().__init__(pipeline, problem, remedy)
        self.pipeline, self.problem, self.remedy = pipeline, problem, remedy

    def __str__(self) -> str:
        """Say what does not fit and how to mend it."""
        return f"pipeline {self.pipeline!r}: {self.problem}. {self.remedy}"


class UnknownStreamError(PipelineError):
    """A stream that is consumed, but that nobody produces."""


class CycleError(PipelineError):
    """Computations that feed each other in a circle."""


class DuplicateNameError(PipelineError):
    """Two computations, or a computation and an injector, of one name."""


class NoSourceError(PipelineError):
    """A computation that no injector reaches."""


class CodecError(HeadraceError):
    """A value that its codec can not write or read. Fields: where, codec, action, reason."""

    def __init__(self, where: str, codec: str, action: str, reason: str) -> None:
        super().__init__(where, codec, action, reason)
        self.where, self.codec, self.action, self.reason = where, codec, action, reason

    def __str__(self) -> str:
        """Say which value of which stream or computation, and which codec."""
        return (
            f"{self.where}: {self.codec} can not {self.action} this value: {self.reason}. "
            "Produce what the codec of the stream (or of the state) takes, or declare another codec for it"
        )


class KeyExtractorError(HeadraceError):
    """A key extractor that failed, or gave something else than a ``str``. Fields: computation, stream, reason."""

    def __init__(self, computation: str, stream: str, reason: str) -> None:
        super().__init__(computation, stream, reason)
        self.computation, self.stream, self.reason = computation, stream, reason

    def __str__(self) -> str:
        """Say whose extractor, on which stream."""
        return (
            f"key extractor of computation {self.computation!r} for stream {self.stream!r}: {self.reason}. "
            "It takes a Record and returns its key as a str"
        )


class MalformedRecordError(HeadraceError):
    """A record from outside that can not enter. Fields: injector, stream, offset, reason."""

    def __init__(self, injector: str, stream: str, offset: int, reason: str) -> None:
        super().__init__(injector, stream, offset, reason)
        self.injector, self.stream, self.offset, self.reason = injector, stream, offset, reason

    def __str__(self) -> str:
        """Say where in which source."""
        return (
            f"injector {self.injector!r}, record {self.offset} for stream {self.stream!r}: {self.reason}. "
            "Mend the source, or give the injector on_malformed=DeadLetter(stream)"
        )


class UndeclaredOutputError(HeadraceError):
    """A production to a stream that the computation did not declare. Fields: computation, stream, declared."""

    def __init__(self, computation: str, stream: str, declared: tuple[str, ...]) -> None:
        super().__init__(computation, stream, declared)
        self.computation, self.stream, self.declared = computation, stream, declared

    def __str__(self) -> str:
        """Say which stream is missing."""
        return (
            f"computation {self.computation!r} produced to stream {self.stream!r}, which is not among its outputs "
            f"({', '.join(map(repr, self.declared)) or 'none'}). Add it to outputs= where the computation is added"
        )


class TimestampRegressionError(HeadraceError):
    """A production older than its cause (MillWheel 4.5). Fields: computation, key, timestamp_us, cause_us."""

    def __init__(self, computation: str, key: str, timestamp_us: int, cause_us: int) -> None:
        super().__init__(computation, key, timestamp_us, cause_us)
        self.computation, self.key, self.timestamp_us, self.cause_us = (
            computation,
            key,
            timestamp_us,
            cause_us,
        )

    def __str__(self) -> str:
        """Say by how much."""
        return (
            f"computation {self.computation!r}, key {self.key!r}: production with timestamp {self.timestamp_us} us is older "
            f"than the record or timer that caused it ({self.cause_us} us). Give it the timestamp of its cause or a later one"
        )


class ContextArgumentError(HeadraceError):
    """An argument of a call on the context that is refused. Fields: computation, key, call, argument, value, expected."""

    def __init__(
        self, computation: str, key: str, call: str, argument: str, value: object, expected: str
    ) -> None:
        super().__init__(computation, key, call, argument, value, expected)
        self.computation, self.key, self.call = computation, key, call
        self.argument, self.value, self.expected = argument, value, expected

    def __str__(self) -> str:
        """Say which argument of which call, and what is expected."""
        return (
            f"computation {self.computation!r}, key {self.key!r}: {self.call}({self.argument}={self.value!r:.80}): "
            f"expected {self.expected}"
        )


class UserCodeError(HeadraceError):
    """User code that kept failing. Fields: computation, key, record_id, attempts, traceback."""

    def __init__(self, computation: str, key: str, record_id: str, attempts: int, traceback: str) -> None:
        super().__init__(computation, key, record_id, attempts, traceback)
        self.computation, self.key, self.record_id = computation, key, record_id
        self.attempts, self.traceback = attempts, traceback

    def __str__(self) -> str:
        """Say on what it failed, and show where."""
        return (
            f"computation {self.computation!r}, key {self.key!r}: user code failed {self.attempts} times on {self.record_id}. "
            f"{self._remedy()}\n{self.traceback.rstrip()}"
        )

    def _remedy(self) -> str:
        return "Mend it, or give the computation on_failure=DeadLetter(stream)"


class OptionsError(HeadraceError):
    """An option out of its range. Fields: option, value, expected."""

    def __init__(self, option: str, value: object, expected: str) -> None:
        super().__init__(option, value, expected)
        self.option, self.value, self.expected = option, value, expected

    def __str__(self) -> str:
        """Say what is expected."""
        return f"option {self.option}={self.value!r}: expected {self.expected}"


class HistoryFormatError(HeadraceError):
    """A file that is not what it should be. Fields: what, path, reason."""

    def __init__(self, what: str, path: str, reason: str) -> None:
        super().__init__(what, path, reason)
        self.what, self.path, self.reason = what, path, reason

    def __str__(self) -> str:
        """Say which file and why."""
        return f"{self.path} is not a {self.what} that can be read: {self.reason}"
