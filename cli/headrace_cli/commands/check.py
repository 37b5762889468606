"""``headrace check``: judge a recorded History, of any engine."""

from pathlib import Path
from typing import Annotated

import typer

from headrace_cli.options.option_groups import JsonOption

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace check history.jsonl
  headrace check history.jsonl --pipeline my_job:pipeline
  headrace check consumer.jsonl --follow --promises my_checks:promises
  headrace check /var/log/spark-events/eventlog_v2_app-1
  headrace check spark-events --allow H13,H14

[bold]Exit codes[/]
  0 holds, 1 violated, 2 usage error or malformed file, 3 unknown: a question that the file leaves open, 130 interrupted"""


FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="HISTORY.jsonl",
        help="The file (see docs/reference/history.md); or an event log of Spark, progress of a StreamingQueryListener as JSON,"
        " or a folder of such logs.",
    ),
]
PipelineOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:PIPELINE",
        help="The pipeline that ran: its codecs, and the promises beside it, apply.",
    ),
]
PromisesOption = Annotated[
    str | None, typer.Option(metavar="MODULE:NAME", help="Promises to judge by, too: a list, or one.")
]
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="Wait for more lines, until the run ends, something is violated, or you press Ctrl-C.",
    ),
]
AllowOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Checks whose questions are answered: what they ask about is meant. What is violated stays so.",
    ),
]


def _print_schema(wanted: bool) -> None:
    if wanted:
        from headrace.histories import history_schema
        from headrace_cli.terminal.documents import print_document

        print_document(history_schema())
        raise typer.Exit


SchemaOption = Annotated[
    bool,
    typer.Option(
        "--schema", is_eager=True, callback=_print_schema, help="Print the format of the file as JSON Schema."
    ),
]


@app.command("check", epilog=_EXAMPLES)
def check(
    history: FileArgument,
    pipeline: PipelineOption = None,
    promises: PromisesOption = None,
    allow: AllowOption = None,
    follow: FollowOption = False,
    schema: SchemaOption = False,
    as_json: JsonOption = False,
) -> None:
    """Judge a recorded run: a History of Headrace, of a job or of another engine, or Spark's own log.

    What the file does not record is unknown.
    """
    del schema
    from headrace_cli.actions.check_action import check_history

    raise typer.Exit(check_history(history, pipeline, promises, allow, follow=follow, as_json=as_json))
