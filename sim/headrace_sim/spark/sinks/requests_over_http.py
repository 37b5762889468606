"""HTTP without a network: a server in the ledger, behind `http.client`, which urllib, requests and urllib3 are built on.

It stores requests as servers should: PUT replaces the resource at the path, DELETE removes it, POST adds to it, and a POST
with a known ``Idempotency-Key`` adds nothing.
"""

import http.client
import io
import sys
from dataclasses import dataclass
from typing import Any

from headrace_sim.spark.sinks.sink_effects import Effect, EffectProbe

_CHANGES = frozenset({"DELETE", "PATCH", "POST", "PUT"})


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request that changes something: its method, its address, its body and its ``Idempotency-Key``."""

    method: str
    address: str
    body: bytes
    key: str | None


def resources(effects: list[Effect]) -> dict[str, list[bytes]]:
    """Return the bodies that the server keeps after these effects, by address."""
    bodies: dict[str, list[bytes]] = {}
    keys: set[tuple[str, str]] = set()
    for effect in effects:
        request = effect.payload
        if not isinstance(request, HttpRequest):
            continue
        match request.method:
            case "DELETE":
                bodies.pop(request.address, None)
            case "PUT":
                bodies[request.address] = [request.body]
            case _:
                if request.key is None or (request.address, request.key) not in keys:
                    bodies.setdefault(request.address, []).append(request.body)
                keys.add((request.address, request.key or ""))
    return bodies


def answer_http(probe: EffectProbe) -> None:
    """Answer this process's HTTP requests from the server in the ledger."""

    def connect(self: Any) -> None:
        secure = "HTTPS" in type(self).__name__
        self.sock = _Line(probe, f"{'https' if secure else 'http'}://{self.host}")

    http.client.HTTPConnection.connect = connect  # type: ignore[method-assign]
    http.client.HTTPSConnection.connect = connect  # type: ignore[method-assign]
    if "urllib3" in sys.modules:
        for name in ("HTTPConnection", "HTTPSConnection"):
            getattr(sys.modules["urllib3"].connection, name).connect = connect


class _Line:
    """Replaces a connection's socket."""

    def __init__(self, probe: EffectProbe, host: str) -> None:
        self._probe = probe
        self._host = host
        self._sent = b""

    def sendall(self, data: Any) -> None:
        self._sent += bytes(data)

    def makefile(self, *_args: Any, **_options: Any) -> io.BytesIO:
        sent, self._sent = self._sent, b""
        head, _, body = sent.partition(b"\r\n\r\n")
        line, *header_lines = head.decode("latin-1").split("\r\n")
        method, path, _ = line.split(" ")
        pairs = (header.partition(":") for header in header_lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if headers.get("transfer-encoding") == "chunked":
            body = _unchunked(body)
        return io.BytesIO(
            self._answer(HttpRequest(method, self._host + path, body, headers.get("idempotency-key")))
        )

    def _answer(self, request: HttpRequest) -> bytes:
        if request.method in _CHANGES:
            action = request.method if request.key is None else f"{request.method} with an Idempotency-Key"
            with self._probe.effect(action, request.address, replied=True, payload=lambda: request):
                return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        kept = resources(self._probe.ledger.effects()).get(request.address)
        if kept is None:
            return b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        body = kept[0] if len(kept) == 1 else b"[" + b",".join(kept) + b"]"
        return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + (
            body if request.method == "GET" else b""
        )

    def setsockopt(self, *_args: Any) -> None: ...
    def settimeout(self, *_args: Any) -> None: ...
    def shutdown(self, *_args: Any) -> None: ...
    def close(self) -> None: ...


def _unchunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        whole, body = whole + body[:length], body[length + 2 :]
    return whole
