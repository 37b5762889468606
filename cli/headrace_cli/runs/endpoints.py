"""Endpoints of a served job over HTTP: ``/healthz``, ``/readyz`` and ``/metrics``, the last in Prometheus' text format.

Rules of this file: an answer depends on nothing but the supervisor's last word, so it comes at once even if Spark hangs.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from headrace import MAX_TIME, MIN_TIME, SECOND, ComputationProgress
from headrace_cli.terminal.usage_errors import WrongOptionError

if TYPE_CHECKING:
    from headrace.spark.jobs.supervision import Status

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"

_COMPUTATION_METRICS: tuple[tuple[str, str, str, Callable[[ComputationProgress], float | None]], ...] = (
    ("records_total", "counter", "Records received", lambda row: row.records),
    ("late_records_total", "counter", "Records received behind the low watermark", lambda row: row.late_records),
    ("dropped_elements_total", "counter", "Elements that groupings dropped as too late", lambda row: row.dropped),
    ("outputs_total", "counter", "Records produced", lambda row: row.outputs),
    ("low_watermark_seconds", "gauge", "Low watermark, event time since 1970", lambda row: _time(row.low_watermark)),
    ("lag_seconds", "gauge", "From the low watermark to the newest timestamp, event time",
     lambda row: None if row.lag_us is None else row.lag_us / SECOND),
    ("pending_timers", "gauge", "Pending timers", lambda row: row.timers),
    ("keys", "gauge", "Keys with a row", lambda row: row.keys),
    ("state_bytes", "gauge", "Size of the rows", lambda row: row.state_bytes),
    ("hot_key_share", "gauge", "Part of the latest records that a hot key got; 0: no key is hot", lambda row: row.hot_share),
)  # fmt: skip


@contextmanager
def endpoints(host: str, port: int, status: "Callable[[], Status]") -> Iterator[int]:
    """Answer requests within, and yield the port.

    Args:
        host: address to listen on.
        port: port to listen on; 0: any free one.
        status: returns how the job is.

    Raises:
        WrongOptionError: the address cannot be used.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer a request."""
            code, kind, text = answer(self.path.partition("?")[0], status())
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            """Log nothing: a probe comes every few seconds."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        remedy = "Choose others with --host and --port"
        raise WrongOptionError(f"cannot listen on {host}:{port}", str(error), remedy) from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(path: str, status: "Status") -> tuple[HTTPStatus, str, str]:
    """Return code, content type and text of the answer to a request."""
    phase = status.phase.value
    state = phase if status.error is None else f"{phase}; last error: {status.error}"
    match path:
        case "/healthz":
            is_well = phase not in ("failed", "stopped")
        case "/readyz":
            is_well = phase == "running"
        case "/metrics":
            return HTTPStatus.OK, _METRICS, metrics_text(status)
        case _:
            return HTTPStatus.NOT_FOUND, _TEXT, "There are /healthz, /readyz and /metrics\n"
    return HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{state}\n"


def metrics_text(status: "Status") -> str:
    """Return all metrics in Prometheus' text format."""
    lines = []
    for name, kind, text, value in (
        ("up", "gauge", "Whether the job runs", int(status.phase.value == "running")),
        ("restarts_total", "counter", "Restarts after a failure", status.restarts),
    ):
        lines += [
            f"# HELP headrace_{name} {text}",
            f"# TYPE headrace_{name} {kind}",
            f"headrace_{name} {value}",
        ]
    for name, kind, text, of in _COMPUTATION_METRICS:
        values = [(row.name, of(row)) for row in status.progress]
        lines += [f"# HELP headrace_{name} {text}", f"# TYPE headrace_{name} {kind}"]
        lines += [
            f'headrace_{name}{{computation="{_escaped(computation)}"}} {value}'
            for computation, value in values
            if value is not None
        ]
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _time(time_us: int) -> float | None:
    return time_us / SECOND if MIN_TIME < time_us < MAX_TIME else None
