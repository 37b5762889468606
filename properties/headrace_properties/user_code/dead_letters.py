"""Dead letters in an outcome: each names what failed by an id, and ids are no part of what a run comes to.

The id of a production, or of a timer, has the version of the row that made it (6.1.1): another owner, other commits, or a stage
in between, and the same record has another one.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeGuard

import msgspec

from headrace import DeadLetter, Pipeline
from headrace_properties.reference import Emitted, RunResult

Letter = dict[str, Any]


def without_ids(outcome: RunResult, pipeline: Pipeline, told: Callable[[Letter], Letter] = dict) -> RunResult:
    """Leave out what dead letters say of ids.

    Args:
        outcome: of a run of this pipeline.
        pipeline: says which streams have dead letters.
        told: changes what else a letter says.
    """
    policies = [spec.on_failure for spec in pipeline.computations.values()]
    policies += [spec.on_malformed for spec in pipeline.injectors.values()]
    streams = {one.stream for one in policies if isinstance(one, DeadLetter)}
    if not streams:
        return outcome

    def compared(record: Emitted) -> Emitted:
        letter = pipeline.codec(record.stream).decode(record.value) if record.stream in streams else None
        if not _is_letter(letter):
            return record
        letter = told(letter)
        if "cause" in letter:  # an injector's has none
            letter["cause"] = ""
        return msgspec.structs.replace(record, value=msgspec.json.encode(letter, order="sorted"))

    outputs: Counter[Emitted] = Counter()
    for record, times in outcome.outputs.items():
        outputs[compared(record)] += times
    return dataclasses.replace(outcome, outputs=outputs)


def _is_letter(value: Any) -> TypeGuard[Letter]:
    """Tell a letter from what user code sends on the same stream."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("error"), str)
        and isinstance(value.get("stream"), str | None)
    )
