"""``headrace skip``: let a job on Spark go on without a record that its user code keeps failing on."""

from pathlib import Path
from typing import Annotated

import typer

from headrace_cli._consoles import output_console
from headrace_cli._exit import tidy_errors

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Example[/]

  headrace skip jobs/counts counter mail/0:17

[bold]Exit codes[/]

  0 it is noted; 2 wrong use"""


@app.command("skip", epilog=_EXAMPLES)
def skip(
    directory: Annotated[Path, typer.Argument(help="The job's, as given to deploy.")],
    computation: Annotated[str, typer.Argument(help="The computation that fails.")],
    record: Annotated[str, typer.Argument(help="Id of the record or timer; the error names it.")],
) -> None:
    """Move a record that stops a job on Spark to the job's dead letters, and let the job go on.

    It counts from the next start of the job. Then the record is tried once more; if it fails again, it is written to
    DIRECTORY/dead-letters, once, and nothing else comes of it. No other record is affected.
    """
    with tidy_errors():
        from headrace.spark import skip_record  # noqa: PLC0415  it needs PySpark, which the rest does without

        letter = skip_record(directory, computation, record)
        output_console().print(
            f"Noted: from its next start, the job in {directory} goes on without {record}, should {computation!r} fail on it "
            f"again.\nIts dead letter will be {letter}.",
            soft_wrap=True, markup=False, highlight=False,
        )  # fmt: skip
