"""Compare two runs by the records that they sent outside.

Rules of this file: a record is (stream, key, value, timestamp), the value as bytes; ids and order are left out, since they differ
from host to host and from run to run. Records are counted: two copies differ from one.

Dead letters name the failed record or timer by its id. The id of a production, or of a timer, contains the version of the row
that made it (6.1.1): with another owner, other commits or a stage in between, the same record has another id. And what the code
raises may name an object by its address, ``<Order object at 0x7f7cafbd4710>``, which is another one in each process.

Choice: two values count as equal if their floats agree to `DIGITS` digits; lists in a final state may have their entries in
another order. Both also hold for the fields of dataclasses, structs, and objects without a text of their own. The last digits of
a sum of floats, and the order of a list of arrivals, depend on the order of arrival; neither is a bug as long as nothing else
differs.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeGuard

import msgspec

from headrace import MAX_TIME, DeadLetter, Encoded, Pipeline, StateCodec
from headrace.api.codecs import decode_state
from headrace.api.dead_letters import Letter
from headrace_properties.reference import Emitted, RunResult

DIGITS = 9
"""Number of digits to which floats are compared between runs."""


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """The records that two outputs share, and those that only one of them has.

    Attributes:
        common: records that are in both.
        only_first: how often each record is in the first output and not in the second.
        only_second: how often each record is in the second output and not in the first.
    """

    common: int
    only_first: Counter[Emitted]
    only_second: Counter[Emitted]

    @property
    def same(self) -> bool:
        """Whether both have the same records, each the same number of times."""
        return not self.only_first and not self.only_second

    @property
    def differing(self) -> int:
        """The number of records that are in one output only."""
        return self.only_first.total() + self.only_second.total()

    def examples(self, most: int = 10) -> list[tuple[str, Emitted]]:
        """Return the first differing records, by timestamp: ("first" or "second", the record that only this output has)."""
        differing = [("first", emitted) for emitted in self.only_first.elements()]
        differing += [("second", emitted) for emitted in self.only_second.elements()]
        return sorted(differing, key=lambda pair: (output_order(pair[1]), pair[0]))[:most]


def same_output(
    first: Counter[Emitted], second: Counter[Emitted], until_us: int = MAX_TIME
) -> OutputComparison:
    """Compare two outputs.

    >>> once = Counter([Emitted("counts", "riva", b"1", 10)])
    >>> same_output(once, once).same, same_output(once, once + once).differing
    (True, 1)

    Args:
        first: each record sent outside, with its count.
        second: the same for the other run.
        until_us: records with later timestamps, event time in microseconds, are left out: where one run has seen less of the
            input than the other.
    """
    left, right = _until(first, until_us), _until(second, until_us)
    return OutputComparison((left & right).total(), left - right, right - left)


def output_order(record: Emitted) -> tuple[str, int, str, bytes]:
    """Sort key for writing outputs: equal outputs give equal files."""
    return record.stream, record.timestamp, record.key, record.value


def _until(outputs: Counter[Emitted], until_us: int) -> Counter[Emitted]:
    return Counter({output: count for output, count in outputs.items() if output.timestamp <= until_us})


def without_ids(
    result: RunResult, pipeline: Pipeline, rewrite: Callable[[Letter], Letter] = dict
) -> RunResult:
    """Return the output without the ids and the addresses of objects in its dead letters.

    Args:
        result: of a run of this pipeline.
        pipeline: says which streams have dead letters.
        rewrite: rewrites the rest of a letter.
    """
    policies = [spec.on_failure for spec in pipeline.computations.values()]
    policies += [spec.on_malformed for spec in pipeline.injectors.values()]
    streams = {policy.stream for policy in policies if isinstance(policy, DeadLetter)}
    if not streams:
        return result

    def compared(record: Emitted) -> Emitted:
        letter = pipeline.codec(record.stream).decode(record.value) if record.stream in streams else None
        if not _is_letter(letter):
            return record
        letter = rewrite(letter)
        if "cause" in letter:  # an injector's letter has none
            letter["cause"] = ""
        letter["error"] = _ADDRESS.sub("at an address", letter["error"])
        return msgspec.structs.replace(record, value=msgspec.json.encode(letter, order="sorted"))

    outputs: Counter[Emitted] = Counter()
    for record, times in result.outputs.items():
        outputs[compared(record)] += times
    return dataclasses.replace(result, outputs=outputs)


_ADDRESS = re.compile(r"\bat 0x[0-9A-Fa-f]+")


def _is_letter(value: Any) -> TypeGuard[Letter]:
    """Return whether a record is a dead letter, and not user code's own record on the same stream."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("error"), str)
        and isinstance(value.get("stream"), str | None)
    )


def leveled(result: RunResult, pipeline: Pipeline) -> RunResult:
    """Replace each value by a canonical form, so that values that count as equal are equal.

    Args:
        result: of a run of this pipeline.
        pipeline: has the codecs.
    """
    outputs: Counter[Emitted] = Counter()
    for record, times in result.outputs.items():
        value = leveled_value(pipeline.codec(record.stream), record.value).encode()
        outputs[msgspec.structs.replace(record, value=value)] += times
    states = {
        (name, key): leveled_value(pipeline.computations[name].state_codec, state, is_state=True).encode()
        for (name, key), state in result.states.items()
    }
    return RunResult(outputs, states)


def leveled_value(codec: StateCodec, data: Encoded, *, is_state: bool = False) -> str:
    """Write a value as canonical text, the same for all values that count as equal."""
    return repr(level(decode_state(codec, data), is_state=is_state)) if data else ""


def level(value: Any, *, is_state: bool) -> Any:
    """Return a value that is the same for values that count as the same; ``is_state``: in lists the order does not count."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        items = ((key, level(item, is_state=is_state)) for key, item in value.items())
        return dict(sorted(items, key=lambda item: repr(item[0])))
    if isinstance(value, list | tuple):
        parts = [level(item, is_state=is_state) for item in value]
        return sorted(parts, key=repr) if is_state else parts
    if isinstance(value, set | frozenset):
        return sorted((level(item, is_state=is_state) for item in value), key=repr)
    kind: type = value.__class__
    fields = _fields_of(value, kind)
    if fields is not None:
        return _shown_as(kind.__name__)(
            **{name: level(item, is_state=is_state) for name, item in fields.items()}
        )
    return value


_BY_ADDRESS: object = object.__repr__


def _fields_of(value: Any, kind: type) -> dict[str, Any] | None:
    """Return the fields of a dataclass, a struct or an object that is written by its address; ``None`` for any other value."""
    names = _field_names(kind)
    if names is not None:
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    if kind.__repr__ is not _BY_ADDRESS:
        return None
    state = value.__getstate__()
    return state if isinstance(state, dict) else {"state": state}


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


@cache
def _shown_as(name: str) -> type[SimpleNamespace]:
    """Return a class of values that have fields, under the name of the users' class."""
    return type(name, (SimpleNamespace,), {})
