"""``headrace check`` on what Spark itself records: event logs, and progress as JSON."""

from collections.abc import Container, Mapping
from pathlib import Path

from rich.console import Console

from headrace_cli.terminal.consoles import output_console
from headrace_cli.terminal.documents import invariants_document, print_document, stdout_reserved
from headrace_cli.terminal.exit import RESULT_WORDS, ExitCode, exit_code_of_run
from headrace_cli.terminal.render import (
    print_heading,
    print_lines,
    print_result,
    print_text,
    print_verdicts,
)
from headrace_properties.explain.descriptions import titles
from headrace_properties.histories.batch_checks import UNREACHED, judge_queries
from headrace_properties.histories.micro_batches import QueryLog, read_spark_logs
from headrace_properties.search.judging import violations
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated


def answered(verdicts: Mapping[str, Verdict], allowed: Container[str]) -> dict[str, Verdict]:
    """Return verdicts without the questions that are answered. What is violated stays so."""
    return {
        name: Unknown("what it asks about is meant: --allow")
        if isinstance(verdict, Unknown) and verdict.cut_short and name in allowed
        else verdict
        for name, verdict in verdicts.items()
    }


def check_spark_logs(path: Path, allowed: Container[str] = (), *, as_json: bool) -> ExitCode:
    """Judge the streaming queries of a log, or of a folder of logs, and print the verdicts.

    Args:
        path: the log.
        allowed: the checks whose questions are answered.
        as_json: print one JSON document.

    Raises:
        HistoryFormatError: the log cannot be read.
    """
    with stdout_reserved():
        queries = read_spark_logs(path)
        verdicts = answered(judge_queries(queries), allowed)
    questions = {
        name: verdict
        for name, verdict in verdicts.items()
        if isinstance(verdict, Unknown) and verdict.cut_short
    }
    code = exit_code_of_run(verdicts)
    if code is ExitCode.HOLDS and questions:
        code = ExitCode.UNKNOWN
    if as_json:
        document = {
            "log": path,
            "queries": [
                {"id": query.id, "name": query.name, "batches": len(query.batches)} for query in queries
            ],
            "result": RESULT_WORDS[code],
            "invariants": invariants_document(verdicts),
        }
        print_document(document)
    else:
        _print(output_console(), path, queries, verdicts, questions, code)
    return code


def _print(
    console: Console,
    path: Path,
    queries: list[QueryLog],
    verdicts: dict[str, Verdict],
    questions: dict[str, Unknown],
    code: ExitCode,
) -> None:
    named = ", ".join(violations(verdicts) or questions)
    print_result(console, f"{RESULT_WORDS[code].upper()}{f': {named}' if named else ''}", code)
    batches = sum(len(query.batches) for query in queries)
    print_lines(console, f"{path}: Spark, streaming queries: {len(queries)}, micro-batches: {batches:,}")
    for query in queries:
        if query.gaps:
            print_lines(
                console, f"{query.title}: batches that are not in the log, and not judged: {query.gaps:,}"
            )
    print_heading(console, "Verdicts")
    messages = {
        name: verdict for name, verdict in verdicts.items() if _message(verdict) not in {"", *UNREACHED}
    }
    print_verdicts(
        console,
        verdicts | {name: Unknown("see below") for name in messages if name not in violations(verdicts)},
    )
    for name, verdict in messages.items():
        print_heading(
            console, f"{name}, {titles()[name]}: {'VIOLATED' if isinstance(verdict, Violated) else 'unknown'}"
        )
        for paragraph in _message(verdict).splitlines():
            print_text(console, paragraph, indent=2)


def _message(verdict: Verdict) -> str:
    match verdict:
        case Violated(message=text) | Unknown(why=text):
            return text
        case Holds():
            return ""
