"""What goes between the processes that ask the real Spark and the one that has it: one request and one reply a connection."""

import socket
import struct
from typing import Any, TypeVar

import msgspec

TOKEN = "HEADRACE_SPARK_TOKEN"  # noqa: S105  the name of an environment variable
"""By which the server knows who may ask."""
T = TypeVar("T")
_LENGTH = struct.Struct(">I")


class SparkAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What Spark says to a question: a table, or its error."""

    schema: str = ""  # of the table, as JSON
    data: bytes = b""  # its rows, as a stream of Arrow
    error: str = ""  # class of Spark's error; ``""``: none
    message: str = ""
    condition: str = ""  # its error class
    parameters: dict[str, str] = {}  # of its message


class Question(msgspec.Struct, frozen=True):
    """What is asked: what a relation gives."""

    digest: str  # by which its answer is remembered
    plan: bytes  # the relation, serialized, with its rows
    call: str  # what Headrace does not compute itself: ``F.soundex``
    place: str  # ``file:line`` of it
    settings: dict[str, str] = {}  # of the session, that change values


class Request(msgspec.Struct, frozen=True):
    """What is sent to the server."""

    token: str  # as the server has it
    # what is asked; ``None``: which answers were given since this was sent last
    question: Question | None = None


class Reply(msgspec.Struct, frozen=True):
    """What the server sends back."""

    answers: dict[str, SparkAnswer] = {}  # by digest
    problem: str = ""  # why there is none; ``""``: there are


def send(connection: socket.socket, message: Any) -> None:
    """Send a message."""
    data = msgspec.msgpack.encode(message)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def received(connection: socket.socket, kind: type[T]) -> T:
    """Receive a message. Raise `EOFError` if the other side has gone, or `msgspec.DecodeError` if it is something else."""
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
