"""The work of ``headrace job serve``."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace import HeadraceError
from headrace_cli.runs.endpoints import endpoints
from headrace_cli.targets.loading import load_named
from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.signals import stop_requested
from headrace_properties.target import TargetError

if TYPE_CHECKING:
    from headrace.spark.jobs.supervision import Status


def serve_job(
    target: str, host: str, port: int, restarts: int, first_delay_s: float, longest_delay_s: float
) -> ExitCode:
    """Run a job until a signal stops it or it fails for good, and return the exit code."""
    from headrace.spark.jobs.supervision import RestartPolicy, Supervisor, SupervisorPhase

    start = _function(target)
    policy = RestartPolicy(restarts, round(first_delay_s * 1e6), round(longest_delay_s * 1e6))
    with stop_requested() as stop:
        supervisor = Supervisor(start, policy, should_stop=stop, on_change=_print_change)
        with endpoints(host, port, supervisor.status) as listening:
            _say(f"{target}: http://{host}:{listening} has /healthz, /readyz and /metrics")
            ended = supervisor.run()
    if ended.phase is SupervisorPhase.FAILED:
        if not isinstance(ended.error, HeadraceError) and ended.error is not None:
            raise ended.error  # with its traceback: it is the user's, or our own bug
        return ExitCode.VIOLATED
    return ExitCode.HOLDS


def _function(target: str) -> Callable[[], Any]:
    _, function = load_named(target)
    if not callable(function) or any(
        parameter.default is parameter.empty for parameter in inspect.signature(function).parameters.values()
    ):
        raise TargetError(
            target,
            "this is not a function without arguments",
            "Write one that starts Spark and returns deploy(...): see docs/how-to/operate.md",
        )

    def start() -> Any:
        deployment = function()
        if not all(hasattr(deployment, name) for name in ("progress", "await_termination", "stop")):
            from headrace.spark import SparkHostError

            raise SparkHostError(
                f"{target} returned {deployment!r:.60}", "Return what deploy(...) returns, a Deployment"
            )
        return deployment

    return start


def _print_change(status: "Status", wait_s: float) -> None:
    reason = (
        "" if status.error is None else f": {status.error}" if str(status.error) else f": {status.error!r}"
    )
    match status.phase.value:
        case "waiting to restart":
            _say(f"The job failed; restart in {wait_s:.1f} s{reason}")
        case "failed":
            _say(f"The job failed for good{reason}")
        case "starting":
            _say(f"Restart {status.restarts}")
        case phase:
            _say(f"The job is {phase}")


def _say(text: str) -> None:
    error_console().print(text, soft_wrap=True)
