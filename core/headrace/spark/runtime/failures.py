"""Rebuilding errors of user code and of the engine that were raised in Spark's workers.

Rules of this file: Spark passes on only the text of a traceback. So each error carries a note with its class and fields, which
the traceback shows below the message, and the driver rebuilds the error from that note. Errors about files come in Spark's own
words, which `storage_error_of` recognizes.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from pyspark.sql.streaming.query import StreamingQuery

from headrace.api.errors import HeadraceError
from headrace.spark.host_errors import QueryFailedError, SparkHostError
from headrace.spark.runtime.file_errors import storage_error_of
from headrace.spark.runtime.hadoop import Place
from headrace.spark.runtime.job_files import local_directory, scheme_of

_MARK = "headrace-error: "
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_NOTE = re.compile(re.escape(_MARK) + r"(\[.*\])")


@contextmanager
def noted() -> Iterator[None]:
    """Add the note to any `HeadraceError` raised within this block."""
    try:
        yield
    except HeadraceError as error:
        fields = [
            field if isinstance(field, str | int | float | tuple | list) else repr(field)
            for field in error.args
        ]
        error.add_note(_MARK + msgspec.json.encode([type(error).__name__, *fields]).decode())
        raise


def error_of(query: StreamingQuery, checkpoint: str | Path) -> HeadraceError | None:
    """Return the error that ended a query you started on the outputs of `attach`; ``None`` if it is running or was stopped.

    Args:
        query: the query.
        checkpoint: its ``checkpointLocation``. Damaged files are found only on file systems that this machine mounts.
    """
    raised = query.exception()
    if raised is None:
        return None
    place = str(checkpoint)
    where = local_directory("checkpoint", place) if scheme_of(place) == "file" else Path(place)
    return error_from(query.name or str(query.id), raised, where)


def error_from(query: str, raised: Exception, checkpoint: Place) -> HeadraceError:
    """Rebuild the error that ended a query.

    Args:
        query: its name.
        raised: Spark's exception. It becomes the cause of an error that only rephrases it, but not of one of ours: that says
            everything itself, and the cause would add pages of Java and worker tracebacks.
        checkpoint: the query's.
    """
    text = str(raised)
    error = _error_in(text)
    if error is not None:
        error.__cause__ = None  # nor is the context shown
        return error
    rephrased = (
        storage_error_of(text, checkpoint) or import_error_in(text) or QueryFailedError(query, text.strip())
    )
    rephrased.__cause__ = raised
    return rephrased


def import_error_in(text: str) -> SparkHostError | None:
    """Return an error if a worker could not import the code of the job: it is unpickled before any of ours runs."""
    missing = _NO_MODULE.search(text)
    if missing is None or "pickle" not in text:
        return None
    problem = f"the Python of the executors cannot import {missing[1]!r}, which this job's code needs"
    return SparkHostError(
        problem, "Ship the packages with the job: see 'Packages on the executors' in docs/how-to/operate.md"
    )


def _error_in(text: str) -> HeadraceError | None:
    for note in _NOTE.findall(text):
        try:
            name, *fields = msgspec.json.decode(note)
            kind = _kinds()[name]
            return kind(*[tuple(field) if isinstance(field, list) else field for field in fields])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            continue
    return None


def _kinds(kind: type[HeadraceError] = HeadraceError) -> dict[str, type[HeadraceError]]:
    kinds = {kind.__name__: kind}
    for special in kind.__subclasses__():
        kinds |= _kinds(special)
    return kinds
