"""The work of ``headrace paper scenario``."""

from pathlib import Path
from typing import Any

import typer

from headrace import UserCodeError
from headrace_cli.options.showing import Showing
from headrace_cli.reports.pictures import print_saved, print_story, save_pictures, story_document
from headrace_cli.targets.protocols import protocol_asked
from headrace_cli.terminal.consoles import output_console
from headrace_cli.terminal.documents import fields_of, invariants_document, print_document, show
from headrace_cli.terminal.exit import RESULT_WORDS, ExitCode, exit_code_of_run, print_stop
from headrace_cli.terminal.render import (
    plain_table,
    print_heading,
    print_lines,
    print_table,
    print_text,
    print_verdicts,
    print_violations,
)
from headrace_cli.terminal.usage_errors import UnknownChoiceError
from headrace_properties.explain.pictures.event_time_chart import ChartError, check_chart
from headrace_scenarios.catalogue import SCENARIOS
from headrace_scenarios.scenario import Scenario, ScenarioRun
from headrace_sim import Protocol


def print_catalogue(*, as_json: bool) -> None:
    """Print the scenarios."""
    rows = [(scenario.name, scenario.title, scenario.source) for scenario in SCENARIOS.values()]
    show(
        lambda: [_summary(scenario) for scenario in SCENARIOS.values()],
        lambda console: print_table(console, plain_table("name", "what happens", "in the papers", rows=rows)),
        as_json=as_json,
    )


def tell_scenario(
    name: str, showing: Showing, asked: tuple[str | None, str | None], chart: Path | None, *, as_json: bool
) -> ExitCode:
    """Run a scenario, print what happens, and return the exit code.

    ``asked``: the protocol, and what it lacks, as in `protocol_asked`.
    """
    scenario = _find(name)
    protocol = protocol_asked(*asked)
    files = showing.files()
    if chart is not None:
        _check_chart(scenario, chart)
        files.claim(chart, "--chart")
    scenario_run = _tell(scenario, protocol)
    code = exit_code_of_run(scenario_run.verdicts)
    subtitle = f"{scenario.source}; protocol: {scenario_run.protocol}"
    if as_json:
        story = story_document(showing, scenario_run.history, scenario_run.verdicts, [scenario_run.pipeline])
        print_document(_document(scenario_run, code) | story)
    else:
        _print(scenario_run)
        print_story(
            showing, output_console(), scenario_run.history, scenario_run.verdicts, [scenario_run.pipeline]
        )
    save_pictures(
        showing, files, scenario_run.history, scenario_run.verdicts,
        title=scenario.title, subtitle=subtitle, pipelines=[scenario_run.pipeline], names=scenario_run.names,
    )  # fmt: skip
    if chart is not None and scenario_run.drawing is not None:
        files.write(chart, "--chart", scenario_run.drawing.save)
    if not as_json:
        print_saved(output_console(), files.saved)
    return files.code(code)


def _find(name: str) -> Scenario:
    if name not in SCENARIOS:
        raise UnknownChoiceError("scenario", name, tuple(SCENARIOS))
    return SCENARIOS[name]


def _check_chart(scenario: Scenario, path: Path) -> None:
    """Check before the run that there is a figure to draw."""
    if not scenario.drawn:
        raise ChartError(
            str(path), f"{scenario.name} has no figure of the Dataflow paper; --html draws any run"
        )
    check_chart(path)


def _tell(scenario: Scenario, protocol: Protocol) -> ScenarioRun:
    """Run it. Without a part of the protocol, the scenario's own code may fail: that is the result."""
    try:
        return scenario.run(protocol)
    except UserCodeError as error:
        print_stop(error)
        raise typer.Exit(ExitCode.VIOLATED) from error


def _print(scenario_run: ScenarioRun) -> None:
    console = output_console()
    scenario = scenario_run.scenario
    print_text(console, scenario.title, style="bold")
    print_text(console, f"{scenario.source}; protocol: {scenario_run.protocol}", style="dim")
    console.print()
    for paragraph in scenario.story.split("\n\n"):
        print_text(console, " ".join(paragraph.split()))
    console.print()
    print_lines(console, scenario_run.timeline)
    print_heading(console, "What happened")
    for sentence in scenario_run.conclusion:
        print_text(console, sentence, indent=2)
    print_heading(console, "Invariants")
    print_verdicts(console, scenario_run.verdicts)
    print_violations(console, scenario_run.verdicts)


def _summary(scenario: Scenario) -> dict[str, Any]:
    return fields_of(scenario, "name", "title", "source", "story")


def _document(scenario_run: ScenarioRun, code: ExitCode) -> dict[str, Any]:
    return {
        **_summary(scenario_run.scenario),
        "protocol": scenario_run.protocol,
        "result": RESULT_WORDS[code],
        "digest": scenario_run.history.digest(),
        "conclusion": scenario_run.conclusion,
        "invariants": invariants_document(scenario_run.verdicts),
        "timeline": scenario_run.timeline.splitlines(),
    }
