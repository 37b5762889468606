"""A fake object store behind Hadoop's clients, with the weaknesses of S3 and its connector.

It speaks the part of the WebHDFS protocol that Spark and a job need, so ``webhdfs://localhost:PORT/...`` is a directory that no
machine mounts.

Rules of this file:

* An object appears whole when its upload ends, and not at all if the upload breaks off. The last of two uploads wins.
* **No atomic rename**: a rename copies an object and then deletes the original, one object after the other, for everyone to see.
  It ends where its client ends, because with S3 it is the client that copies.
* **No atomic replacement**: a rename looks first whether its target is free, and to replace an object is to delete it first.
* Listings and reads have everything that is complete, as S3's have since 2020. A directory is a prefix or a marker.
"""

import json
import select
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

_ROOT = "/webhdfs/v1"
_HERE = "here"
"""Parameter of the second request of a transfer: WebHDFS sends its clients on to where the data are."""
_BLOCK = 1 << 27
_LOOK_EVERY_S = 0.02
"""How often the server looks whether it is to end."""


class ObjectStore:
    """A store, served to other processes while it is a context.

    Args:
        step_s: how long each step of a rename takes, seconds.

    Attributes:
        objects: by path, such as ``/job/deployment.json``, the bytes and the time of their upload, milliseconds.
    """

    def __init__(self, step_s: float = 0.0) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.step_s = step_s
        self._markers = {"/"}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Requests", (_Requests,), {"store": self}))
        self._server.daemon_threads = True

    @property
    def uri(self) -> str:
        """The URI of the root directory, without a slash at its end."""
        return f"webhdfs://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        serve = partial(self._server.serve_forever, _LOOK_EVERY_S)
        threading.Thread(target=serve, name="object store", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def put(self, path: str, data: bytes) -> None:
        """Create an object, or replace it."""
        self.objects[path] = (data, time.time_ns() // 1_000_000)

    def is_directory(self, path: str) -> bool:
        """Return whether there is a marker or an object below a path."""
        return path in self._markers or bool(self._below(path))

    def make_directory(self, path: str) -> None:
        """Mark a directory and all that it is in."""
        self._markers |= {path, *map(str, PurePosixPath(path).parents)}

    def names_in(self, path: str) -> list[str]:
        """Return the names of what is directly in a directory, sorted."""
        below = path.rstrip("/") + "/"
        known = [*self._below(path), *(each for each in list(self._markers) if each.startswith(below))]
        return sorted({each.removeprefix(below).partition("/")[0] for each in known} - {""})

    def delete(self, path: str) -> bool:
        """Delete an object, or all below a directory; return whether there was anything."""
        there = path in self.objects or self.is_directory(path)
        for each in self._below(path):
            self.objects.pop(each, None)
        self.objects.pop(path, None)
        below = path.rstrip("/") + "/"
        self._markers -= {each for each in list(self._markers) if each == path or each.startswith(below)} - {
            "/"
        }
        return there

    def rename(self, path: str, target: str, is_wanted: Callable[[], bool]) -> None:
        """Copy and delete, one object after the other, until it is done or no longer wanted."""
        moving = [path] if path in self.objects else self._below(path)
        if path not in self.objects:
            self.make_directory(target)
        for each in moving:
            for step in (self._copy, self._drop):
                time.sleep(self.step_s)
                if not is_wanted():
                    return
                step(each, target + each.removeprefix(path))
        self._markers.discard(path)

    def _copy(self, path: str, target: str) -> None:
        self.put(target, self.objects[path][0])

    def _drop(self, path: str, _target: str) -> None:
        self.objects.pop(path, None)

    def _below(self, path: str) -> list[str]:
        below = path.rstrip("/") + "/"
        return sorted(each for each in list(self.objects) if each.startswith(below))


class _Requests(BaseHTTPRequestHandler):
    """Answers one client."""

    store: ObjectStore
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer()

    do_PUT = do_DELETE = do_GET  # noqa: N815  as the server calls them

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the parameter's name there
        """Say nothing."""

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        path = "/" + unquote(parts.path.removeprefix(_ROOT)).strip("/")
        asked = {name.lower(): value for name, value in parse_qsl(parts.query, keep_blank_values=True)}
        operation = _OPERATIONS.get(asked["op"].upper())
        if operation is None:
            self._refuse(400, "UnsupportedOperationException", f"this store has no {asked['op']}")
            return
        operation(self, path, asked)

    # Operations

    def _status(self, path: str, _asked: dict[str, str]) -> None:
        status = self._status_of(path)
        if status is None:
            self._missing(path)
        else:
            self._say({"FileStatus": status})

    def _list(self, path: str, asked: dict[str, str]) -> None:
        if path in self.store.objects:
            entries = [self._status_of(path)]
        elif self.store.is_directory(path):
            entries = [
                self._status_of(f"{path.rstrip('/')}/{name}", name) for name in self.store.names_in(path)
            ]
        else:
            self._missing(path)
            return
        statuses = {"FileStatuses": {"FileStatus": [each for each in entries if each is not None]}}
        if asked["op"].upper() == "LISTSTATUS":
            self._say(statuses)
        else:
            self._say({"DirectoryListing": {"partialListing": statuses, "remainingEntries": 0}})

    def _open(self, path: str, asked: dict[str, str]) -> None:
        if path not in self.store.objects:
            self._missing(path)
        elif _HERE not in asked:
            self._send_on()
        else:
            data = self.store.objects[path][0][int(asked.get("offset", 0)) :]
            self._send(200, data[: int(asked["length"])] if "length" in asked else data)

    def _create(self, path: str, asked: dict[str, str]) -> None:
        if asked.get("overwrite") == "false" and path in self.store.objects:
            self._refuse(403, "FileAlreadyExistsException", f"{path} exists")
        elif _HERE not in asked:
            self._send_on()
        else:
            data = self._body()
            if data is not None:
                self.store.make_directory(str(PurePosixPath(path).parent))
                self.store.put(path, data)
                self._send(201)

    def _make_directories(self, path: str, _asked: dict[str, str]) -> None:
        self.store.make_directory(path)
        self._say({"boolean": True})

    def _rename(self, path: str, asked: dict[str, str]) -> None:
        target = asked["destination"]
        if path not in self.store.objects and not self.store.is_directory(path):
            self._missing(path)
            return
        taken = target in self.store.objects or self.store.is_directory(target)
        if taken and asked.get("renameoptions") != "OVERWRITE":
            if "renameoptions" in asked:
                self._refuse(403, "FileAlreadyExistsException", f"{target} exists")
            else:
                self._say({"boolean": False})
            return
        if taken:
            self.store.delete(target)
        self.store.rename(path, target, self._is_waiting)
        self._say({"boolean": True}) if "renameoptions" not in asked else self._send(200)

    def _delete(self, path: str, _asked: dict[str, str]) -> None:
        self._say({"boolean": self.store.delete(path)})

    def _home(self, _path: str, _asked: dict[str, str]) -> None:
        self._say({"Path": "/"})

    def _defaults(self, _path: str, _asked: dict[str, str]) -> None:
        self._say({"FsServerDefaults": {
            "blockSize": _BLOCK, "bytesPerChecksum": 512, "writePacketSize": 1 << 16, "replication": 1,
            "fileBufferSize": 1 << 12, "trashInterval": 0, "encryptDataTransfer": False, "checksumType": 2,
            "keyProviderUri": "", "defaultStoragePolicyId": 0,
        }})  # fmt: skip

    def _blocks(self, _path: str, _asked: dict[str, str]) -> None:
        self._say({"BlockLocations": {"BlockLocation": []}})

    def _nothing(self, _path: str, _asked: dict[str, str]) -> None:
        self._send(200)

    # Transport

    def _status_of(self, path: str, suffix: str = "") -> dict[str, Any] | None:
        entry = self.store.objects.get(path)
        if entry is None and not self.store.is_directory(path):
            return None
        data, at_ms = (b"", 0) if entry is None else entry
        return {
            "pathSuffix": suffix, "type": "DIRECTORY" if entry is None else "FILE", "length": len(data), "owner": "headrace",
            "group": "headrace", "permission": "755", "accessTime": at_ms, "modificationTime": at_ms,
            "blockSize": 0 if entry is None else _BLOCK, "replication": 0 if entry is None else 1, "fileId": 0, "childrenNum": 0,
            "storagePolicy": 0,
        }  # fmt: skip

    def _body(self) -> bytes | None:
        """Read a request's body; ``None``: its client broke off."""
        length = self.headers.get("Content-Length")
        if length is not None:
            data = self.rfile.read(int(length))
            return data if len(data) == int(length) else None
        pieces: list[bytes] = []
        while line := self.rfile.readline().strip():
            size = int(line.partition(b";")[0], 16)
            piece = self.rfile.read(size + 2)
            if len(piece) < size + 2:
                return None
            if size == 0:
                return b"".join(pieces)
            pieces.append(piece[:-2])
        return None

    def _is_waiting(self) -> bool:
        """Return whether the client still waits for its answer: the socket of one that was killed reads as ended."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return not readable or bool(self.connection.recv(1, socket.MSG_PEEK))

    def _send_on(self) -> None:
        self._send(307, location=f"http://{self.headers['Host']}{self.path}&{_HERE}=true")

    def _say(self, answer: dict[str, Any]) -> None:
        self._send(200, json.dumps(answer).encode())

    def _missing(self, path: str) -> None:
        self._refuse(404, "FileNotFoundException", f"File does not exist: {path}")

    def _refuse(self, status: int, exception: str, message: str) -> None:
        java = {
            "exception": exception,
            "javaClassName": _JAVA.get(exception, f"java.lang.{exception}"),
            "message": message,
        }
        self._send(status, json.dumps({"RemoteException": java}).encode())

    def _send(self, status: int, data: bytes = b"", location: str | None = None) -> None:
        """Answer, without a content type: the classes with which Hadoop's client reads one are not in Spark's package."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if location is not None:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(data)


_JAVA = {
    "FileNotFoundException": "java.io.FileNotFoundException",
    "FileAlreadyExistsException": "org.apache.hadoop.fs.FileAlreadyExistsException",
}
_OPERATIONS: dict[str, Callable[[_Requests, str, dict[str, str]], None]] = {
    "GETFILESTATUS": _Requests._status,
    "GETFILELINKSTATUS": _Requests._status,
    "LISTSTATUS": _Requests._list,
    "LISTSTATUS_BATCH": _Requests._list,
    "GETHOMEDIRECTORY": _Requests._home,
    "GETSERVERDEFAULTS": _Requests._defaults,
    "GETFILEBLOCKLOCATIONS": _Requests._blocks,
    "OPEN": _Requests._open,
    "CREATE": _Requests._create,
    "MKDIRS": _Requests._make_directories,
    "RENAME": _Requests._rename,
    "DELETE": _Requests._delete,
    "SETPERMISSION": _Requests._nothing,
}
