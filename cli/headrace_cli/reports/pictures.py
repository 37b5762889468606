"""Show a run: pictures and traces as files, and its explanation in sentences."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from headrace import Pipeline
from headrace.history import Event
from headrace_cli.options.showing import Showing
from headrace_cli.terminal.files import OutputFiles, write_bytes
from headrace_cli.terminal.render import print_heading, print_text
from headrace_properties.explain.narrative import Narrative, narrate
from headrace_properties.explain.pictures.compared_runs import compared_html
from headrace_properties.explain.pictures.perfetto import perfetto_json
from headrace_properties.explain.pictures.spacetime import spacetime_html
from headrace_properties.explain.pictures.spacetime.still import spacetime_svg
from headrace_properties.explanation import Explanation
from headrace_properties.findings import Finding
from headrace_properties.search.inevitability import FailureRates
from headrace_properties.verdict import Verdict


def save_pictures(
    showing: Showing,
    files: OutputFiles,
    history: Sequence[Event],
    verdicts: Mapping[str, Verdict],
    *,
    title: str,
    subtitle: str,
    rates: FailureRates | None = None,
    pipelines: Sequence[Pipeline] = (),
    names: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the requested files; for the arguments see `spacetime_html`."""
    said: Any = {"title": title, "subtitle": subtitle, "rates": rates, "pipelines": pipelines, "names": names}
    makers = {
        "html": lambda: spacetime_html(history, verdicts, **said).encode(),
        "svg": lambda: spacetime_svg(history, verdicts, **said).encode(),
        "perfetto": lambda: perfetto_json(history, title),
    }
    for option, path in showing.paths:
        if path is not None:
            files.write(path, f"--{option}", write_bytes(makers[option]()))


def save_comparison(
    path: Path | None, files: OutputFiles, name: str, finding: Finding | None, explanation: Explanation | None
) -> None:
    """Write the page of a finding that two runs tell. ``path``: ``None``: not requested. ``finding``: ``None``: it is fixed."""
    if path is None:
        return
    said = ("Nothing is violated.",) if finding is None else (finding.kind.title, str(finding))
    files.write(path, "--html", write_bytes(compared_html(explanation, title=name, said=said).encode()))


def story_document(
    showing: Showing,
    history: Sequence[Event],
    verdicts: Mapping[str, Verdict],
    pipelines: Sequence[Pipeline],
) -> dict[str, Any]:
    """Return the additions to ``--json``. ``pipelines``: have the codecs."""
    return {"explanation": narrate(history, verdicts, pipelines=pipelines)} if showing.explain else {}


def print_story(
    showing: Showing,
    console: Console,
    history: Sequence[Event],
    verdicts: Mapping[str, Verdict],
    pipelines: Sequence[Pipeline],
) -> None:
    """Print how the first rule was violated, if requested. ``pipelines``: have the codecs."""
    if showing.explain:
        print_narrative(console, narrate(history, verdicts, pipelines=pipelines))


def print_narrative(console: Console, narrative: Narrative | None) -> None:
    """Print an explanation."""
    if narrative is None:
        print_heading(console, "Nothing is violated, so there is nothing to explain")
        return
    print_heading(console, f"How {narrative.invariant} was violated")
    for paragraph in narrative.paragraphs:
        print_text(console, paragraph, indent=2)


def print_saved(console: Console, saved: Sequence[Path]) -> None:
    """List the files that were saved."""
    if saved:
        print_heading(console, "Saved")
    for path in saved:
        console.print(f"  {path}", markup=False, highlight=False, soft_wrap=True)
