"""What goes between the processes that ask the real Spark and the one that has it: one request and one reply a connection."""

import socket
import struct
from typing import Any, TypeVar

import msgspec

TOKEN = "HEADRACE_SPARK_TOKEN"  # noqa: S105  the name of an environment variable
"""By which the server knows who may ask."""
T = TypeVar("T")
_LENGTH = struct.Struct(">I")


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What Spark says to a question: a table, or its error.

    Attributes:
        schema: of the table, as JSON.
        data: its rows, as a stream of Arrow.
        error: class of Spark's error; ``""``: none.
        message: of the error.
        condition: its error class.
        parameters: of its message.
    """

    schema: str = ""
    data: bytes = b""
    error: str = ""
    message: str = ""
    condition: str = ""
    parameters: dict[str, str] = {}


class Question(msgspec.Struct, frozen=True):
    """What is asked: what a relation gives.

    Attributes:
        digest: by which its answer is remembered.
        plan: the relation, serialized, with its rows.
        call: what Headrace does not compute itself: ``F.soundex``.
        place: ``file:line`` of it.
    """

    digest: str
    plan: bytes
    call: str
    place: str


class Request(msgspec.Struct, frozen=True):
    """What is sent to the server.

    Attributes:
        token: as the server has it.
        question: what is asked; ``None``: which answers were given since this was sent last.
    """

    token: str
    question: Question | None = None


class Reply(msgspec.Struct, frozen=True):
    """What the server sends back.

    Attributes:
        answers: by digest.
        problem: why there is none; ``""``: there are.
    """

    answers: dict[str, Answer] = {}
    problem: str = ""


def send(connection: socket.socket, message: Any) -> None:
    """Send a message."""
    data = msgspec.msgpack.encode(message)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def received(connection: socket.socket, kind: type[T]) -> T:
    """Receive a message.

    Raises:
        EOFError: the other side has gone.
        msgspec.DecodeError: it is something else.
    """
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
    return msgspec.msgpack.decode(_read(connection, length), type=kind)


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 16))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
