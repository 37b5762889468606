"""The nodes of the topology and their switches (MillWheel 3, 4.1, 5.2): computations and injectors as declared."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.api.codecs import Codec, JsonCodec, StateCodec
from headrace.api.computation import Computation
from headrace.api.errors import OptionsError
from headrace.api.records import Record

OUTSIDE = ""
"""The outside world as a consumer: it takes every stream that no computation subscribes to."""


KeyExtractor = Callable[[Record], str]
Subscriber = tuple[str, KeyExtractor]
"""A consumer of a stream, and its key extractor."""


def same_key(record: Record) -> str:
    """Keep the record's own key: the default key extractor."""
    return record.key


class Productions(enum.Enum):
    """When productions are sent (MillWheel 6.1.2, 6.1.3)."""

    STRONG = "strong"
    """After they are checkpointed with the state, in one atomic write."""
    WEAK = "weak"
    """Before anything is persisted; only stragglers are checkpointed. For idempotent code."""


@dataclass(frozen=True, slots=True)
class Stop:
    """On failure, stop the run with an error that names record, key and computation (the default)."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """On failure, send a dead letter to this stream and continue.

    A dead letter is a dict, encoded by the stream's codec (JSON, if it has none). A computation's has the fields
    ``computation``, ``key``, ``cause`` (the record's id), ``stream``, ``value_base64`` (the record's bytes), ``timestamp`` and
    ``error``; for a timer, ``stream`` and ``value_base64`` are ``None``. An injector's has ``injector``, ``stream``, ``offset``,
    ``key``, ``value`` (base64 of the bytes), ``timestamp`` and ``error``; values of the wrong type appear as their ``repr``.

    Attributes:
        stream: the destination. A codec that cannot carry the dict is refused when the pipeline is validated.
    """

    stream: str

    def __post_init__(self) -> None:
        if not is_name(self.stream):
            raise OptionsError("DeadLetter", self.stream, "the name of a stream")


@dataclass(frozen=True, slots=True)
class Skip:
    """On failure, act like `DeadLetter` for records and timers that an operator decided to skip, and like `Stop` for all others.

    Used by hosts, which know the operator's decision; pipelines declare `Stop` or `DeadLetter`.

    Attributes:
        stream: the dead letters' stream.
        causes: ids of the records and timers to skip, as in errors and dead letters.
    """

    stream: str
    causes: frozenset[str]


FailurePolicy = Stop | DeadLetter


def letters_to(policy: FailurePolicy | Skip, cause: str) -> str | None:
    """Return the stream for the dead letter of a record or timer; ``None``: the run stops."""
    if isinstance(policy, Skip):
        return policy.stream if cause in policy.causes else None
    return policy.stream if isinstance(policy, DeadLetter) else None


@dataclass(frozen=True, slots=True)
class ComputationSpec:
    """A computation of the graph, with its switches. Built by `Pipeline.add`, which says what each of them means.

    Attributes:
        inputs: key extractor by stream.
        output_codecs: codec by output stream, without the dead letters' stream, which user code cannot produce to.
        initial_state: the encoded initial state; state equal to it is not stored.
    """

    name: str
    computation: Computation
    inputs: Mapping[str, KeyExtractor]
    outputs: tuple[str, ...]
    productions: Productions = Productions.STRONG
    exactly_once: bool = True
    state_codec: StateCodec = field(default_factory=JsonCodec)
    watermark_percentile: float = 100.0
    on_failure: FailurePolicy | Skip = Stop()
    split_at: tuple[str, ...] = ()
    ordered: bool = False
    nondeterministic: str = ""
    share_state: bool = False
    output_codecs: Mapping[str, Codec] = field(default_factory=dict)
    initial_state: bytes = b""

    @property
    def all_outputs(self) -> tuple[str, ...]:
        """Its outputs, plus its dead letters' stream if it has one."""
        policy = self.on_failure
        return self.outputs + ((policy.stream,) if isinstance(policy, DeadLetter | Skip) else ())


@dataclass(frozen=True, slots=True)
class InjectorSpec:
    """A source of records from outside (MillWheel 5.2). Built by `Pipeline.injector`, which says what each field means.

    Attributes:
        processes: number of processes; each is expected, and a missing one holds the watermark.
    """

    name: str
    outputs: tuple[str, ...]
    processes: int = 1
    skew_limit_us: int | None = None
    on_malformed: FailurePolicy = Stop()

    @property
    def all_outputs(self) -> tuple[str, ...]:
        """Its outputs, plus its dead letters' stream if it has one."""
        return self.outputs + (
            (self.on_malformed.stream,) if isinstance(self.on_malformed, DeadLetter) else ()
        )

    def addresses(self) -> list[str]:
        """Return the addresses of its processes: the expected set of 5.2."""
        return [process_address(self.name, number) for number in range(self.processes)]


def process_address(injector: str, number: int) -> str:
    """Return the address of an injector's process, which is also the name of its role."""
    return f"{injector}/{number}"


def is_name(name: object) -> bool:
    """Return whether an object can be the name of a stream or a node: a non-empty str."""
    return type(name) is str and name != ""
