"""The process that has the real Spark: it starts it with the first question, and answers one question after another.

Rules of this file:

* Nobody but this machine reaches it, and it reaches nothing else: both servers are on the loopback interface.
* Settings of the user's for Spark, such as a master or packages, do not count.
* An answer, and that Spark cannot be started, is remembered. What the asking process does, dies of, or sends is no harm.
"""

import os
import secrets
import select
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyspark
import pyspark.sql.connect.proto as pb
from pyspark import errors
from pyspark.sql import types as t

from headrace.spark.host_errors import JavaNotFoundError
from headrace.spark.runtime.spark_session import process_environment
from headrace_sim.spark.columns.frames import relabeled
from headrace_sim.spark.pyspark_versions import condition_of
from headrace_sim.spark.real.server_protocol import (
    TOKEN,
    Question,
    Reply,
    Request,
    SparkAnswer,
    received,
    send,
)
from headrace_sim.spark.refusals import shown_place

_VALUES = {"spark.sql.session.timeZone": "UTC"}
"""A setting that changes values, which a session that sets none has."""
_SETTINGS = {
    "spark.master": "local[1]",
    "spark.app.name": "headrace",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    **_VALUES,
    # For a few rows at a time:
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_GONE = frozenset({"RetriesExceeded", "SparkConnectGrpcException"})
"""The errors of Spark's client where nobody answers it, if Spark names none."""
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ASK_WITHIN_S = 10
"""How long a process may take to send its question."""


class Server:
    """Answers questions.

    ``token``: what is expected of those who ask. ``talk``: a file descriptor to say on that Spark starts.
    """

    def __init__(self, token: str, talk: int) -> None:
        self._token, self._talk = token, talk
        self._client: Any = None
        self._problem = ""
        self._answers: dict[str, SparkAnswer] = {}
        self._answered: dict[str, SparkAnswer] = {}
        self._settings: dict[str, str] = {}  # those of the last question

    def serve(self, connection: socket.socket) -> None:
        """Answer one request."""
        request = received(connection, Request)
        if secrets.compare_digest(request.token, self._token):
            send(connection, self._reply(request.question))

    def _reply(self, question: Question | None) -> Reply:
        if question is None:
            answers, self._answered = self._answered, {}
            return Reply(answers)
        answer = self._answers.get(question.digest)
        if answer is None and not self._problem:
            answer = self._asked(question)
        if answer is None:
            return Reply(problem=self._problem)
        self._answers[question.digest] = self._answered[question.digest] = answer
        return Reply({question.digest: answer})

    def _asked(self, question: Question) -> SparkAnswer | None:
        try:
            if self._client is None:
                what = f"{question.call} at {shown_place(question.place)}"
                line = f"starting Spark for what Headrace does not compute itself: {what}\n"
                os.write(self._talk, line.encode())
                self._client = _started()
            if question.settings != self._settings:
                _set(self._client, {**_VALUES, **question.settings}, self._settings)
                self._settings = question.settings
            return _answer(self._client, question)
        except JavaNotFoundError as error:
            self._problem = str(error)
        except Exception as error:  # noqa: BLE001  whatever it is, it is told to who asks
            self._problem = f"it cannot be started or has died ({type(error).__name__}: {str(error).splitlines()[0]:.300})"
        return None


def _set(client: Any, settings: dict[str, str], before: dict[str, str]) -> None:
    """Let Spark compute by settings, and no longer by those before."""
    operation = pb.ConfigRequest.Operation()
    operation.unset.keys.extend(before.keys() - settings.keys())
    client.config(operation)
    operation = pb.ConfigRequest.Operation()
    for name, value in settings.items():
        operation.set.pairs.add(key=name, value=value)
    client.config(operation)


def _answer(client: Any, question: Question) -> SparkAnswer:
    plan = pb.Plan(root=pb.Relation.FromString(question.plan))
    try:
        table, schema = client.to_table(plan, {})[:2]
        schema = schema or client.schema(plan)
    except errors.PySparkException as error:
        if type(error).__name__ in _GONE and not condition_of(error):
            raise
        return _failed(error)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return SparkAnswer(_plain(schema).json(), bytes(sink.getvalue()))


def _plain(schema: t.StructType) -> t.StructType:
    """Return a schema without the note that Spark makes of names that it has chosen itself."""
    notes = [{**(field.metadata or {})} for field in schema.fields]
    for note in notes:
        note.pop("__autoGeneratedAlias", None)
    return relabeled(schema, schema.names, notes)


def _failed(error: errors.PySparkException) -> SparkAnswer:
    """Return an error of Spark's as its own client would raise it, without the trace of Java."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    kind = next(filter(lambda kind: hasattr(errors, kind), kinds), "PySparkException")
    condition = condition_of(error)
    message = str(error).split("\n\nJVM stacktrace:")[0].removeprefix(f"[{condition}] ")
    parameters = dict(error.getMessageParameters() or {})
    return SparkAnswer(error=kind, message=message, condition=condition, parameters=parameters)


def _started() -> Any:
    """Start Spark with its Connect server, and return a client of it.

    Raise `JavaNotFoundError` if there is no Java, or `HeadraceError` if the installed PySpark has no Connect server.
    """
    if not list(Path(pyspark.__file__).parent.glob("jars/spark-connect_*.jar")):
        problem = (
            f"PySpark {pyspark.__version__} comes without it. Install 4.0 or newer: pip install 'pyspark>=4'"
        )
        raise NotImplementedError(problem)
    for name in [name for name in os.environ if name.startswith(("SPARK_", "PYSPARK_"))]:
        del os.environ[name]
    os.environ["SPARK_SUBMIT_OPTS"] = _JAVA
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = secrets.token_hex(16)
    os.environ.update(process_environment("local[1]", launched=True))
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.sql.connect.client import SparkConnectClient  # noqa: PLC0415
    from pyspark.sql.session import SparkSession  # noqa: PLC0415

    context = SparkContext(conf=SparkConf(loadDefaults=False).setAll(list(_SETTINGS.items())))
    SparkSession(context)  # 4.0 looks for one
    service = getattr(context._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()
    return SparkConnectClient(f"sc://localhost:{port}")


def main(door: Any, ends: int, token: str, talk: int) -> None:
    """Answer requests until no process is left that could send one.

    ``door``: the socket where connections come. ``ends``: a file descriptor that reaches its end when no such process is left.
    ``token``: what is expected of those who ask.
    """
    server = Server(token, talk)
    while ends not in select.select([door, ends], [], [])[0]:
        connection, _ = door.accept()
        with connection, suppress(OSError, EOFError, msgspec.MsgspecError):
            connection.settimeout(_ASK_WITHIN_S)
            server.serve(connection)


def _quietly() -> int:
    """Let what Java prints go to a file, and return a file descriptor for what was stderr."""
    talk = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    return talk


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), os.environ.pop(TOKEN), _quietly())
