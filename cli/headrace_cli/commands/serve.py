"""``headrace job serve``: keep a job on Spark running, and tell over HTTP how it is."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace import HeadraceError
from headrace_cli.options.option_groups import LONGEST_S
from headrace_cli.runs.endpoints import endpoints
from headrace_cli.targets.loading import load_named
from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.exit import ExitCode, tidy_errors
from headrace_cli.terminal.signals import stop_requested
from headrace_properties.target import TargetError

if TYPE_CHECKING:
    from headrace.spark.jobs.supervision import Status

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Example[/]
  headrace job serve my_job:deployment --host 0.0.0.0 --port 8080

[bold]Exit codes[/]
  0 stopped by SIGTERM, SIGINT or SIGHUP after its current micro-batch; 1 the job failed for good; 2 usage error"""


@app.command("serve", epilog=_EXAMPLES)
def serve(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION",
            help="A function without arguments that starts Spark, calls deploy and returns the Deployment.",
        ),
    ],
    host: Annotated[str, typer.Option(help="Address of the endpoints.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the endpoints; 0: any free one.")
    ] = 8080,
    restarts: Annotated[int, typer.Option(min=0, help="Give up after this many restarts in a row.")] = 10,
    first_delay: Annotated[
        float,
        typer.Option(
            min=0,
            max=LONGEST_S,
            metavar="SECONDS",
            help="Time before the first restart; doubled for each further one.",
        ),
    ] = 1.0,
    longest_delay: Annotated[
        float, typer.Option(min=0, max=LONGEST_S, metavar="SECONDS", help="Longest time before a restart.")
    ] = 300.0,
) -> None:
    """Run a job on Spark until a signal stops it, and restart it when it fails.

    GET /healthz: 200 unless the job failed for good. GET /readyz: 200 while it runs. GET /metrics: Prometheus' text format.
    It is not restarted after an error that the next start would repeat (a record on which user code fails, a damaged checkpoint,
    wrong options), nor if another driver has taken over.
    """
    with tidy_errors():
        from headrace.spark.jobs.supervision import RestartPolicy, Supervisor, SupervisorPhase  # noqa: PLC0415  needs PySpark

        start = _function(target)
        policy = RestartPolicy(restarts, round(first_delay * 1e6), round(longest_delay * 1e6))
        with stop_requested() as stop:
            supervisor = Supervisor(start, policy, should_stop=stop, on_change=_print_change)
            with endpoints(host, port, supervisor.status) as listening:
                _say(f"{target}: http://{host}:{listening} has /healthz, /readyz and /metrics")
                ended = supervisor.run()
    if ended.phase is SupervisorPhase.FAILED:
        if not isinstance(ended.error, HeadraceError) and ended.error is not None:
            raise ended.error  # with its traceback: it is the user's, or our own bug
        raise typer.Exit(ExitCode.VIOLATED)


def _function(target: str) -> Callable[[], Any]:
    _, found = load_named(target)
    if not callable(found) or any(
        parameter.default is parameter.empty for parameter in inspect.signature(found).parameters.values()
    ):
        raise TargetError(
            target,
            "this is not a function without arguments",
            "Write one that starts Spark and returns deploy(...): see docs/how-to/operate.md",
        )

    def start() -> Any:
        deployment = found()
        if not all(hasattr(deployment, name) for name in ("progress", "await_termination", "stop")):
            from headrace.spark import SparkHostError  # noqa: PLC0415  needs PySpark

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
