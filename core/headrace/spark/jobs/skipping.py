"""Records that an operator lets a job go on without (MillWheel 6.1.1): to its dead letters, and never nowhere.

Rules of this file:

* A skip is a file in the job's directory, written as a whole, and counts from the next start of the computation's query. It stays
  there: a micro-batch that is done again, after whatever crash, comes to the same.
* What is skipped runs all the same. Only if it still fails does its dead letter leave with the micro-batch, in the place of its
  effects: in the one commit that all else of the batch is in. So a mistaken skip loses nothing, and mended code is used.
* A dead letter is a file named by what it is of. A micro-batch whose sinks are called again writes the same file again.
"""

from hashlib import sha256
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame

from headrace.api.errors import OptionsError
from headrace.api.pipeline import Pipeline
from headrace.api.specs import Skip, Stop
from headrace.spark.errors import SparkHostError
from headrace.spark.jobs.job import read_shape
from headrace.spark.runtime.files import local_directory, replace_file
from headrace.spark.sinks.job_sinks import Sinks

DEAD_LETTERS = "dead-letters"
"""In a job's directory: a JSON file for each record that was skipped, with the fields of a `DeadLetter`."""

_SKIPS = "skips"
_STREAM = "headrace: skipped"


class _Skipped(msgspec.Struct, frozen=True):
    """A record or timer that a job is to go on without. ``cause``: its id."""

    computation: str
    cause: str


_decode = msgspec.json.Decoder(_Skipped).decode


def skip_record(directory: str | Path, computation: str, record_id: str) -> Path:
    """Let a job go on without a record that its user code keeps failing on: ``headrace skip``.

    From the next `deploy`, or `Deployment.change` of that computation, the record, if it fails again, goes to the job's dead
    letters, and nothing else comes of it.

    Args:
        directory: of the job: a path or a ``file:`` URI, as given to `deploy`.
        computation: that fails.
        record_id: of the record or timer, as the error names it.

    Returns:
        Where its dead letter will be.

    Raises:
        SparkHostError: there is no such job, or no such computation in it.
        OptionsError: no id, or a URI of another scheme.
    """
    place = local_directory("directory", directory)
    shape = read_shape(place)
    if shape is None:
        problem = f"no job was deployed in the directory {str(place)!r}"
        raise SparkHostError(
            problem, "Name the directory= that was given to deploy; the error has the whole command"
        )
    known = [name for level in shape.stages for name in level]
    if computation in shape.injectors:
        problem = f"{computation!r} is an injector, and no computation"
        raise SparkHostError(
            problem,
            "What can not enter goes to the dead letters with on_malformed=DeadLetter(stream), on the next deploy",
        )
    if computation not in known:
        problem = f"the job in {str(place)!r} has no computation {computation!r}"
        raise SparkHostError(problem, f"Its computations are: {', '.join(map(repr, known))}")
    if not record_id:
        raise OptionsError("record_id", record_id, "the id that the error names")
    skipped = _Skipped(computation, record_id)
    replace_file(place / _SKIPS / _file(computation, record_id), msgspec.json.encode(skipped))
    return place / DEAD_LETTERS / _file(computation, record_id)


def with_skips(directory: Path, pipeline: Pipeline) -> Pipeline:
    """A pipeline as it is run, after what the operator has skipped."""
    causes: dict[str, set[str]] = {}
    for path in (directory / _SKIPS).glob("*.json"):
        skipped = _decode(path.read_bytes())
        causes.setdefault(skipped.computation, set()).add(skipped.cause)
    for name, spec in pipeline.computations.items():
        if name in causes and isinstance(spec.on_failure, Stop):
            policy = Skip(_STREAM, frozenset(causes[name]))
            pipeline = pipeline.with_computation(name, on_failure=policy)
    return pipeline


def with_dead_letters(directory: Path, sinks: Sinks) -> Sinks:
    """A job's sinks, and the one for what was skipped."""

    def keep(frame: DataFrame, _number: int) -> None:
        for row in frame.collect():
            letter = msgspec.json.decode(row["value"])
            file = _file(letter["computation"], letter["cause"])
            replace_file(directory / DEAD_LETTERS / file, row["value"].encode())

    return Sinks({**sinks.by_stream, _STREAM: keep}, sinks.history)


def _file(computation: str, cause: str) -> str:
    """Ids may be longer than a file's name, and have any characters."""
    return f"{sha256(msgspec.json.encode([computation, cause])).hexdigest()[:32]}.json"
