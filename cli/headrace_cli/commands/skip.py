"""``headrace job skip``: let a job on Spark skip a record on which its user code keeps failing."""

from typing import Annotated

import typer

from headrace_cli.terminal.consoles import output_console
from headrace_cli.terminal.exit import tidy_errors

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Example[/]
  headrace job skip jobs/counts counter mail/0:17
  headrace job skip hdfs://cluster/jobs/counts counter mail/0:17

[bold]Exit codes[/]
  0 the skip is recorded; 2 usage error"""


@app.command("skip", epilog=_EXAMPLES)
def skip(
    directory: Annotated[str, typer.Argument(help="The job's directory, as given to deploy.")],
    computation: Annotated[str, typer.Argument(help="The computation that fails.")],
    record: Annotated[str, typer.Argument(help="Id of the record or timer, as in the error.")],
) -> None:
    """Move a record that stops a job on Spark to the job's dead letters, so that the job can continue.

    The skip applies from the next start of the job. Then the record is tried once more; if it fails again, it is written
    once to DIRECTORY/dead-letters and has no other effect. No other record is affected.
    """
    with tidy_errors():
        from headrace.spark import skip_record  # noqa: PLC0415  needs PySpark; the other commands do not

        letter = skip_record(directory, computation, record)
        output_console().print(
            f"Recorded: from its next start, the job in {directory} skips {record} if {computation!r} fails on it again.\n"
            f"Its dead letter will be {letter}.",
            soft_wrap=True, markup=False, highlight=False,
        )  # fmt: skip
