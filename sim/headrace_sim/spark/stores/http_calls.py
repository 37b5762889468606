"""What requests and httpx do, by Python's own `http.client`, which a trial answers."""

import base64
import http.client
import json as json_text
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlencode, urljoin, urlsplit

from headrace_sim.spark.stores.client_objects import client_errors, error_of

_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_REFUSED_FROM = 400


class Response:
    """A response.

    ``client``: the module that was asked. ``status``: the status code. ``content``: the body. ``headers``: its headers.
    """

    def __init__(self, client: str, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self._client, self.status_code, self.content, self.headers = client, status, content, dict(headers)
        self.text, self.reason = content.decode(errors="replace"), http.client.responses.get(status, "")
        self.ok = self.is_success = status < _REFUSED_FROM

    def json(self, **_: Any) -> Any:
        return json_text.loads(self.content)

    def raise_for_status(self) -> Self:
        if not self.ok:
            name = "HTTPError" if self._client == "requests" else "HTTPStatusError"
            raise error_of(self._client, f"{self.status_code} {self.reason}", name)
        return self


class HttpSession:
    """What keeps the headers, and the base of addresses, of several requests.

    ``client``: the module. ``base_url``: the base, which httpx has. ``headers``: of each request.
    """

    def __init__(
        self, client: str, base_url: str = "", headers: Any = None, auth: Any = None, **_: Any
    ) -> None:
        self._client, self._base, self.headers, self.auth = client, base_url, dict(headers or {}), auth
        for method in _METHODS:
            setattr(self, method, _of_method(self, method))

    def request(
        self, method: str, url: str, *, params: Any = None, data: Any = None, json: Any = None, content: Any = None,
        headers: Any = None, auth: Any = None, **_: Any,
    ) -> Response:  # fmt: skip
        """Send a request."""
        address = urlsplit(urljoin(f"{self._base.rstrip('/')}/", url.lstrip("/")) if self._base else url)
        path = (address.path or "/") + (f"?{address.query}" if address.query else "")
        if params:
            path += ("&" if address.query else "?") + urlencode(params, doseq=True)
        sent = {**self.headers, **(headers or {})}
        body = content if content is not None else data
        if json is not None:
            body, sent = json_text.dumps(json), {"Content-Type": "application/json", **sent}
        elif isinstance(body, Mapping | list):
            body = urlencode(body, doseq=True)
        login = auth or self.auth
        if isinstance(login, tuple):
            sent["Authorization"] = f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"
        return self._sent(method.upper(), address.scheme, address.netloc, path, body, sent)

    def _sent(
        self, method: str, scheme: str, host: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> Response:
        kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        with client_errors(self._client):
            connection = kind(host)
            connection.request(method, path, body.encode() if isinstance(body, str) else body, dict(headers))
            answer = connection.getresponse()
            return Response(self._client, answer.status, answer.read(), dict(answer.headers))

    def mount(self, *_: Any) -> None:
        """Do nothing: requests are not tried again here."""

    def close(self) -> None:
        """Do nothing: each request has a connection of its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


def _of_method(session: HttpSession, method: str) -> Any:
    return lambda url, data=None, **options: session.request(method, url, data=data, **options)


def http_rows(client: str) -> dict[str, Any]:
    """Return the functions of a module that sends requests."""
    once = HttpSession(client)

    def make(**options: Any) -> HttpSession:
        return HttpSession(client, **options)

    return {
        "request": once.request, **{name: getattr(once, name) for name in _METHODS}, "Session": make, "session": make,
        "Client": make,
    }  # fmt: skip
