"""Dead letters in an outcome: each names what failed by an id, and ids are no part of what a run comes to.

The id of a production, or of a timer, has the version of the row that made it (6.1.1): another owner, other commits, or a stage
in between, and the same record has another one.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable

import msgspec

from millrace import DeadLetter, Pipeline
from millrace_properties.reference import Emitted, Outcome


def without_ids(outcome: Outcome, pipeline: Pipeline, stream_of: Callable[[str], str] = str) -> Outcome:
    """Leave out what dead letters say of ids.

    Args:
        outcome: of a run of this pipeline.
        pipeline: says which streams have dead letters.
        stream_of: what to call the stream of a record that failed.
    """
    policies = [spec.on_failure for spec in pipeline.computations.values()]
    streams = {one.stream for one in policies if isinstance(one, DeadLetter)}
    if not streams:
        return outcome

    def told(record: Emitted) -> Emitted:
        letter = pipeline.codec(record.stream).decode(record.value) if record.stream in streams else None
        if not isinstance(letter, dict) or "cause" not in letter:
            return record
        stream = letter["stream"]
        letter |= {"cause": "", "stream": None if stream is None else stream_of(stream)}
        return msgspec.structs.replace(record, value=msgspec.json.encode(letter, order="sorted"))

    outputs: Counter[Emitted] = Counter()
    for record, times in outcome.outputs.items():
        outputs[told(record)] += times
    return dataclasses.replace(outcome, outputs=outputs)
