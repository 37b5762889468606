"""Records that an operator tells a job to skip (MillWheel 6.1.1): they go to its dead letters and are never just dropped.

Rules of this file:

* A skip is a file in the job's directory, written atomically, and applies from the next start of the computation's query. It
  stays there, so that a micro-batch repeated after a crash has the same result.
* A skipped record still runs. Only if it fails again does its dead letter take the place of its effects, in the same commit as
  the rest of the micro-batch. So a mistaken skip loses nothing, and fixed code is used.
* A dead letter is a file named after its record. A micro-batch whose sinks are called again writes the same file again.
"""

from hashlib import sha256
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from headrace.api.errors import OptionsError
from headrace.api.json_text import JsonError, read_json
from headrace.api.pipeline import Pipeline
from headrace.api.specs import Skip, Stop
from headrace.spark.host_errors import SparkHostError
from headrace.spark.jobs.deployment_settings import check_computation, shape_of_job, unreadable
from headrace.spark.runtime.hadoop import Place, files_in, job_directory, write
from headrace.spark.runtime.job_files import local_directory, scheme_of
from headrace.spark.runtime.spark_session import session
from headrace.spark.sinks.job_sinks import Sinks

DEAD_LETTERS = "dead-letters"
"""Folder in a job's directory: a JSON file for each skipped record, with the fields of a `DeadLetter`."""

_SKIPS = "skips"
_STREAM = "headrace: skipped"


class _Skipped(msgspec.Struct, frozen=True):
    """A record or timer to skip. ``cause``: its id."""

    computation: str
    cause: str


_decode = msgspec.json.Decoder(_Skipped).decode


def skip_record(directory: str | Path, computation: str, record_id: str) -> Place:
    """Let a job skip a record on which its user code keeps failing: ``headrace job skip``.

    From the next `deploy`, or the next `Deployment.change` that restarts the computation, the record goes to the job's dead
    letters if it fails again, and has no other effect.

    Args:
        directory: directory of the job, as given to `deploy`. If it is not mounted here, a session is started unless there
            is one.
        computation: the computation that fails.
        record_id: id of the record or timer, as in the error.

    Returns:
        The path where its dead letter will be.

    Raises:
        SparkHostError: there is no such job, or the job has no such computation.
        OptionsError: the id is empty, or the directory cannot be reached.
    """
    place = _directory(directory)
    shape = shape_of_job(place)
    if computation in shape.injectors:
        problem = f"{computation!r} is an injector, not a computation"
        raise SparkHostError(
            problem,
            "To send malformed records to dead letters, give it on_malformed=DeadLetter(stream) on the next deploy",
        )
    check_computation(place, computation, shape.computations)
    if not record_id:
        raise OptionsError("record_id", record_id, "the id in the error")
    skipped = _Skipped(computation, record_id)
    write(place / _SKIPS / _file(computation, record_id), msgspec.json.encode(skipped))
    return place / DEAD_LETTERS / _file(computation, record_id)


def _directory(directory: str | Path) -> Place:
    if scheme_of(str(directory)) in (None, "file") or isinstance(directory, Path):
        return local_directory("directory", directory)
    return job_directory(
        directory, SparkSession.getActiveSession() or session("local[1]", "headrace job skip")
    )


def with_skips(directory: Place, pipeline: Pipeline) -> Pipeline:
    """Return a pipeline with the operator's skips applied."""
    causes: dict[str, set[str]] = {}
    for path in files_in(directory / _SKIPS):
        if not path.name.endswith(".json"):  # a draft
            continue
        try:
            skipped = read_json(path.read_bytes(), _decode)
        except JsonError as error:
            raise unreadable(path, error) from error
        causes.setdefault(skipped.computation, set()).add(skipped.cause)
    for name, spec in pipeline.computations.items():
        if name in causes and isinstance(spec.on_failure, Stop):
            policy = Skip(_STREAM, frozenset(causes[name]))
            pipeline = pipeline.with_computation(name, on_failure=policy)
    return pipeline


def with_dead_letters(directory: Place, sinks: Sinks) -> Sinks:
    """Return a job's sinks with one more for the dead letters of skipped records."""

    def keep(frame: DataFrame, _number: int) -> None:
        for row in frame.collect():
            letter = msgspec.json.decode(row["value"])
            file = _file(letter["computation"], letter["cause"])
            write(directory / DEAD_LETTERS / file, row["value"].encode())

    return Sinks({**sinks.by_stream, _STREAM: keep}, sinks.history)


def _file(computation: str, cause: str) -> str:
    """Return the name of a record's file: a hash, because an id can be long and have any characters."""
    return f"{sha256(msgspec.json.encode([computation, cause])).hexdigest()[:32]}.json"
