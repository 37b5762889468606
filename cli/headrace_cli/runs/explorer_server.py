"""The page of ``headrace explore`` over HTTP, for a browser on this machine and for nobody else.

Rules of this file:

* It listens on the loopback address only, and the address has a random token. A request that names another host is refused, so
  that no site can reach the page by a name of its own (DNS rebinding); so is one that saves and comes from another origin.
* Runs are made in the main thread, one after another, where calls of user code have a time limit. Other threads only read and
  write connections.
"""

import hmac
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from queue import SimpleQueue
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

from headrace import HeadraceError
from headrace_cli.terminal.usage_errors import WrongOptionError
from headrace_properties.explorer.explorer import ExploredPosition, Explorer
from headrace_properties.printable import visible

LOOPBACK = "127.0.0.1"
_HTML, _JSON = "text/html; charset=utf-8", "application/json"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self';"
    " frame-src 'self'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_LONGEST_BODY = 65_536

Save = Callable[[str, ExploredPosition], Mapping[str, str]]
"""Saves the schedule of a position as a ``replay`` or a ``test``, and says where."""


class _SaveRequest(msgspec.Struct):
    """The body of ``POST /save``. ``kind``: ``replay`` or ``test``."""

    kind: str
    choices: str = ""
    at: int = 0


class ExplorerServer:
    """Serves the page, within a ``with`` block.

    Args:
        explorer: answers what is at a position.
        save: saves a schedule.
        port: to listen on; 0: any free one.

    Attributes:
        address: of the page.

    Raises:
        WrongOptionError: the port cannot be used.
    """

    def __init__(self, explorer: Explorer, save: Save, port: int) -> None:
        self._explorer, self._save = explorer, save
        self._token = secrets.token_urlsafe(16)
        self._work: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), _handler_of(self))
        except OSError as error:
            remedy = "Choose another one with --port"
            raise WrongOptionError(f"cannot listen on port {port}", str(error), remedy) from error
        self._server.daemon_threads = True
        self._hosts = [f"{name}:{self._server.server_port}" for name in (LOOPBACK, "localhost")]
        self.address = f"http://{self._hosts[0]}/{self._token}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def serve(self) -> None:
        """Make the runs that requests ask for, until a signal or an error other than a request's own ends it."""
        while True:
            work, answer = self._work.get()
            try:
                answer.set_result(work())
            except Exception as error:  # noqa: BLE001  the request's thread tells it
                answer.set_exception(error)

    def _in_main(self, work: Callable[[], Any]) -> Any:
        answer: Future[Any] = Future()
        self._work.put((work, answer))
        return answer.result()

    def _get(self, path: str, query: Mapping[str, list[str]]) -> tuple[str, bytes] | None:
        """Return content type and content of an answer; ``None``: there is none."""
        match path:
            case "":
                return _HTML, files(__package__).joinpath("explorer.html").read_bytes()
            case "state":
                position = _position(query)
                return _JSON, msgspec.json.encode(self._in_main(lambda: self._explorer.state(position)))
            case "diagram":
                position = _position(query)
                page: str = self._in_main(lambda: self._explorer.diagram(position))
                return _HTML, page.encode()
            case _:
                return None

    def _post(self, path: str, body: bytes) -> tuple[str, bytes] | None:
        if path != "save":
            return None
        request = msgspec.json.decode(body, type=_SaveRequest)
        if request.kind not in ("replay", "test"):
            raise msgspec.ValidationError("kind is neither replay nor test")
        position = ExploredPosition.read(request.choices, str(request.at))
        return _JSON, msgspec.json.encode(self._in_main(lambda: self._save(request.kind, position)))

    def answer(
        self, path: str, headers: Message, query: str, body: bytes | None
    ) -> tuple[HTTPStatus, str, bytes]:
        """Return status, content type and content of the answer to a request.

        Args:
            path: of the request.
            headers: of the request.
            query: of its address.
            body: what it saves; ``None``: it only reads.
        """
        host = headers.get("Host", "")
        is_own = headers.get("Origin") == f"http://{host}" and headers.get_content_type() == _JSON
        token, slash, rest = path.removeprefix("/").partition("/")
        if host not in self._hosts:
            return HTTPStatus.FORBIDDEN, _JSON, _error("this is another host")
        if not slash or not hmac.compare_digest(token.encode(), self._token.encode()):
            return HTTPStatus.NOT_FOUND, _JSON, _error("the address has no valid token")
        if body is not None and not is_own:
            return HTTPStatus.FORBIDDEN, _JSON, _error("only the page itself can save")
        try:
            fields = parse_qs(query, keep_blank_values=True)
            content = self._get(rest, fields) if body is None else self._post(rest, body)
        except (HeadraceError, msgspec.MsgspecError) as error:
            return HTTPStatus.BAD_REQUEST, _JSON, _error(str(error))
        except Exception as error:  # noqa: BLE001  a defect is shown on the page, and the page stays
            text = f"a defect of Headrace: {type(error).__name__}: {error}"
            return HTTPStatus.INTERNAL_SERVER_ERROR, _JSON, _error(text)
        if content is None:
            return HTTPStatus.NOT_FOUND, _JSON, _error("there is no such page")
        return HTTPStatus.OK, *content


def _handler_of(server: ExplorerServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 60

        def do_GET(self) -> None:
            """Answer what is at a position."""
            self._answer(None)

        def do_POST(self) -> None:
            """Save a schedule."""
            length = self.headers.get("Content-Length", "")
            is_short = length.isdecimal() and int(length) <= _LONGEST_BODY
            self._answer(self.rfile.read(int(length)) if is_short else b"")

        def _answer(self, body: bytes | None) -> None:
            url = urlsplit(self.path)
            code, kind, content = server.answer(url.path, self.headers, url.query, body)
            self.send_response(code)
            headers = {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            """Log nothing: the page shows what matters."""

    return Handler


def _position(query: Mapping[str, list[str]]) -> ExploredPosition:
    return ExploredPosition.read(query.get("choices", [""])[0], query.get("at", ["0"])[0])


def _error(text: str) -> bytes:
    return msgspec.json.encode({"error": visible(text)})
