"""Ask the real Spark, and remember what it said; let it compute what Headrace cannot follow where the rows alone decide.

Rules of this file:

* Spark is never a child of a trial, which may die at any moment. The process that forks trials opens the way (`opened`): a
  socket on the loopback interface, and a process that sleeps on it, which becomes the server (exec) with the first question
  and ends with the process that opened the way.
* One connection is one question, so that a trial that is paused, or dies, leaves nothing behind.
"""

import mmap
import os
import secrets
import select
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
import pyspark.sql.connect.proto as pb
from pyspark import errors
from pyspark.sql import types as t

from headrace.api.errors import HeadraceError
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.values import as_tuple
from headrace_sim.spark.pyspark_versions import rows_of, spark_error
from headrace_sim.spark.real.questions import BARE, Table, question_of, refusal
from headrace_sim.spark.real.server_protocol import TOKEN, Reply, Request, SparkAnswer, received, send
from headrace_sim.spark.refusals import HEARD, CannotFollowError

_known: dict[str, SparkAnswer] = {}
"""What this process knows, by digest. Its forks know it too."""
_asked = mmap.mmap(-1, 1)
"""Whether this process or a fork of it has asked the server: shared with them."""


class RealSparkError(HeadraceError):
    """The real Spark cannot be asked. Fields: reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """Say why."""
        return f"The real Spark, which computes what Headrace does not, cannot be asked: {self.reason}"


def ask(relation: pb.Relation, inputs: Sequence[Table], call: str, place: str) -> Table:
    """Return what a relation gives on Spark.

    ``relation``: of the user's plan. It is not changed. ``inputs``: what its inputs give, in the order of the protocol's
    fields. ``call``: what Headrace does not compute itself: ``F.soundex``. ``place``: ``file:line`` of it. Raise
    `RealSparkError` if it cannot be asked: there is no Java, or the answer does not follow from the rows alone, or
    `PySparkException` if Spark raises it, as it would for the user.
    """
    if reason := refusal(relation, [name for schema, _ in inputs for name in schema.names]):
        raise RealSparkError(reason)
    question = question_of(relation, inputs, call, place)
    answer = _known.get(question.digest)
    if answer is None:
        _asked[0] = 1
        answer = _replied(Request(opened().token, question)).answers[question.digest]
        _known[question.digest] = answer
    return _read(answer)


def _read(answer: SparkAnswer) -> Table:
    if answer.condition == "TABLE_OR_VIEW_NOT_FOUND":
        raise RealSparkError("the query reads a table, which Headrace has and Spark has not")
    if answer.error:
        kind = getattr(errors, answer.error, errors.PySparkException)
        raise spark_error(kind, answer.message, answer.condition, answer.parameters)
    schema = t.StructType.fromJson(msgspec.json.decode(answer.schema))
    table = pa.ipc.open_stream(answer.data).read_all()
    return schema, [tuple(row) for row in rows_of(table, schema)]


def is_used() -> bool:
    """Return whether anything was computed by Spark so far, in this process or in a fork of it."""
    return bool(_asked[0] or _known)


def remember(answers: Mapping[str, SparkAnswer]) -> None:
    """Know answers from now on, such as those of a replay file."""
    _known.update(answers)


@contextmanager
def collected() -> Iterator[dict[str, SparkAnswer]]:
    """Collect the answers that are needed within, in this process and in its forks. They are complete when it ends."""
    before = dict(_known)
    if not _asked[0]:
        yield before  # all of them, as nobody counts which
        return
    answers: dict[str, SparkAnswer] = {}
    _replied(Request(opened().token))
    _known.clear()  # so that each is asked again, of the server, which remembers it
    try:
        yield answers
    finally:
        answers.update(_replied(Request(opened().token)).answers)
        _known.update(before)


def _replied(request: Request) -> Reply:
    """Send a request to the server, and return its reply. Raise `RealSparkError` if it has a problem, or is gone."""
    try:
        with socket.socket() as connection:
            connection.connect(opened().address)
            send(connection, request)
            reply = received(connection, Reply)
    except (EOFError, OSError) as error:
        problem = f"its process has ended ({type(error).__name__}: {error})"
        raise RealSparkError(problem) from error
    if reply.problem:
        raise RealSparkError(reply.problem)
    return reply


# The way to the server


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where the server is asked."""

    address: tuple[str, int]  # host and port
    token: str  # what it expects of those who ask


def is_open_way(address: object) -> bool:
    """Return whether a socket's address is that of the server, which a trial may connect to."""
    return bool(_asked[0]) and address == opened().address


@cache
def opened() -> ServerAddress:
    """Open the way to the server, unless a process that this one is a fork of has: one server serves them all."""
    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    door.listen(64)
    ends, alive = os.pipe()
    os.set_inheritable(alive, False)  # held by this process and its forks, and by no program that they start
    way = ServerAddress(door.getsockname(), secrets.token_hex(16))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads: the fork becomes another program
        if os.fork() == 0:
            _wait(door, ends, way.token)
    door.close()
    os.close(ends)
    return way


def _wait(door: Any, ends: int, token: str) -> NoReturn:
    """Become the server at the first request. End when no process is left that could send one."""
    try:
        kept = sorted({0, 1, 2, door.fileno(), ends})
        for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(low + 1, min(high, 1 << 16))
        os.setsid()  # Ctrl-C ends the process that opened the way, and this one then
        ready, _, _ = select.select([door, ends], [], [])
        if ends not in ready:
            os.set_inheritable(door.fileno(), True)
            os.set_inheritable(ends, True)
            module = "headrace_sim.spark.real.server"
            program = [sys.executable, "-P", "-m", module, str(door.fileno()), str(ends)]
            os.execve(sys.executable, program, {**os.environ, TOKEN: token})  # noqa: S606  Headrace's own
    finally:
        os._exit(0)


SWITCH = "HEADRACE_REAL_SPARK"
"""The environment variable that leaves the real Spark out: ``no``."""


def expect_askable(relation: pb.Relation, functions: Iterable[str], cannot: CannotFollowError) -> None:
    """Expect a relation that the real Spark may compute.

    ``functions``: the names of the user's own functions. ``cannot``: why it is not computed here. Raise `CannotFollowError`
    if Spark is not asked.
    """
    if cannot.is_final or os.environ.get(SWITCH) == "no":
        cannot.is_final = True
        raise cannot
    if why := refusal(relation, BARE, functions):
        raise _final(cannot, f"{cannot.remedy.rstrip('.')}. (The real Spark is not asked: {why})")


def by_spark(relation: pb.Relation, inputs: Sequence[Rows], cannot: CannotFollowError) -> Rows:
    """Return what a relation gives on the real Spark.

    ``inputs``: what its inputs give. ``cannot``: why it is not computed here. Raise `CannotFollowError` if there is no Spark
    that could be asked, or `PySparkException` if Spark raises it.
    """
    _unhear(cannot)
    tables = [(rows.schema, rows.all()) for rows in inputs]
    try:
        schema, rows = ask(relation, tables, cannot.call, cannot.place)
    except RealSparkError as error:
        raise _final(cannot, f"{str(error).rstrip('.')}. {cannot.remedy}") from error
    parts = [tuple(as_tuple(row, schema) for row in rows)]
    return Rows(schema, parts, streaming=any(table.streaming for table in inputs))


def _final(cannot: CannotFollowError, remedy: str) -> CannotFollowError:
    _unhear(cannot)
    final = CannotFollowError(cannot.call, cannot.place, remedy)
    final.is_final = True
    return final


def _unhear(cannot: CannotFollowError) -> None:
    with suppress(ValueError):
        HEARD.remove(cannot)
