"""Recorded trials of Spark jobs and sinks that are made again."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from headrace import HistoryFormatError
from headrace_cli._documents import finding_document
from headrace_cli._files import OutputFiles, write_bytes
from headrace_cli._reruns import ReplayOptions
from headrace_cli._spark_targets import load_spark_target
from headrace_properties.findings import Finding, Kind
from headrace_properties.replays import Replay
from headrace_properties.spark_jobs.trials import QueryTrial, SinkTrial
from headrace_properties.target import SparkSource
from headrace_scenarios.pictures.side_by_side import side_by_side_html

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.explaining import Explanation


@dataclass(frozen=True, slots=True)
class SparkRerun:
    """A trial of a Spark job or a sink that was made again.

    Attributes:
        replay: what was recorded.
        options: what is shown.
        kinds: see `headrace_cli._reruns.Rerun`; so is ``changes``.
        changes: what has changed.
        finding: what is found.
        explanation: how it comes about, if that was asked for.
    """

    replay: Replay
    options: ReplayOptions
    kinds: tuple[Kind, ...]
    changes: tuple[str, ...]
    finding: Finding | None
    explanation: "Explanation | None"
    stopped: KeyboardInterrupt | None = None

    def document(self) -> dict[str, Any]:
        """Return it as JSON, without its result."""
        document = {
            "target": self.replay.source.name,
            "recorded": {kind.title: self.replay.found[kind.family][kind.name] for kind in self.replay.kinds},
            "finding": None if self.finding is None else finding_document(self.finding),
        }
        return document | ({"explanation": self.explanation} if self.options.showing.explain else {})

    def print(self, console: Console) -> None:
        """Print all but its headline."""
        lines = [] if self.finding is None else [f"  {self.finding}"]
        if self.kinds and not any(map(self.replay.shows, self.kinds)):
            lines.append(f"Recorded was: {', '.join(kind.title for kind in self.replay.kinds)}")
        if self.explanation is not None and self.options.showing.explain:
            lines += self.explanation.paragraphs()
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    def save(self, files: OutputFiles) -> None:
        """Save the page with both runs, if it is asked for."""
        path = self.options.showing.html
        if path is None:
            return
        said = "Nothing is violated." if self.finding is None else f"{self.kinds[0].title}: {self.finding}"
        runs, difference = (
            (self.explanation.runs, self.explanation.difference) if self.explanation else ((), ())
        )
        page = side_by_side_html(runs, title=self.replay.source.name, said=said, difference=difference)
        files.write(path, "--html", write_bytes(page.encode()))


def rerun_spark(
    replay: Replay, source: SparkSource, trial: QueryTrial | SinkTrial, options: ReplayOptions
) -> SparkRerun:
    """Make a trial of a Spark job or a sink again.

    Args:
        replay: what was recorded.
        source: its source.
        trial: its trial.
        options: what is shown.

    Raises:
        HistoryFormatError: the file has implausible numbers.
        HeadraceError: the job is not there, or PySpark is missing.
    """
    loaded = load_spark_target(source.name, source.schemas, source.feed, trial.feed_seed)
    from headrace_properties.spark_jobs.again import (  # noqa: PLC0415  it needs PySpark
        Again,
        digest_of_rows,
        implausible_rows,
        with_keys,
    )

    target = replace(with_keys(loaded, source.keys), limits=options.limits)
    if wrong := implausible_rows(trial, target):
        raise HistoryFormatError("replay file", str(options.path), wrong)
    again = Again(trial, replay.kinds, target)
    found, showing = again.finding, options.showing
    explanation = again.explanation() if showing.explain or showing.html is not None else None
    kinds = () if found is None else (found.kind,)
    return SparkRerun(
        replay, options, kinds, replay.changes(digest_of_rows(target, trial)), found, explanation
    )
