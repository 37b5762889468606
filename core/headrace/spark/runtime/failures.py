"""How an error of user code or of the engine comes back from Spark's workers as what it was.

Rules of this file: Spark hands on the text of a traceback only. So an error gets a note with its class and fields, which a
traceback shows below the message; whoever gets the text makes the error again from that. What can happen to files Spark tells in
its own words, which `storage_error_of` knows.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from pyspark.sql.streaming.query import StreamingQuery

from headrace.api.errors import HeadraceError
from headrace.spark.errors import QueryFailedError
from headrace.spark.runtime.file_errors import storage_error_of
from headrace.spark.runtime.files import local_directory, scheme_of

_MARK = "headrace-error: "
_NOTE = re.compile(re.escape(_MARK) + r"(\[.*\])")


@contextmanager
def noted() -> Iterator[None]:
    """Whatever of ours is raised within carries its note."""
    try:
        yield
    except HeadraceError as error:
        fields = [
            one if isinstance(one, str | int | float | tuple | list) else repr(one) for one in error.args
        ]
        error.add_note(_MARK + msgspec.json.encode([type(error).__name__, *fields]).decode())
        raise


def error_of(query: StreamingQuery, checkpoint: str | Path) -> HeadraceError | None:
    """What has ended a query that you have started yourself, on the outputs of `attach`; ``None``: nothing, or it runs.

    Args:
        query: which.
        checkpoint: its ``checkpointLocation``. What happened to a file is found out on file systems that this machine mounts.
    """
    raised = query.exception()
    if raised is None:
        return None
    place = str(checkpoint)
    where = local_directory("checkpoint", place) if scheme_of(place) == "file" else Path(place)
    return error_from(query.name or str(query.id), raised, where)


def error_from(query: str, raised: Exception, checkpoint: Path) -> HeadraceError:
    """Make the error again that has ended a query.

    Args:
        query: its name.
        raised: what Spark has raised. It is the cause of an error that only puts it into words; one of ours has said all itself,
            and behind it are pages of Java and of Spark's workers.
        checkpoint: the query's.
    """
    text = str(raised)
    found = _error_in(text)
    if found is not None:
        found.__cause__ = None  # nor is the context shown
        return found
    found = storage_error_of(text, checkpoint) or QueryFailedError(query, text.strip())
    found.__cause__ = raised
    return found


def _error_in(text: str) -> HeadraceError | None:
    for found in _NOTE.findall(text):
        try:
            name, *fields = msgspec.json.decode(found)
            kind = _kinds()[name]
            return kind(*[tuple(one) if isinstance(one, list) else one for one in fields])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            continue
    return None


def _kinds() -> dict[str, type[HeadraceError]]:
    found: dict[str, type[HeadraceError]] = {}
    kinds = [HeadraceError]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        found[kind.__name__] = kind
    return found
