"""The report of ``headrace verify`` on a Spark job or sink, for people and as JSON."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from headrace_cli.reports.search_end import SearchEnd
from headrace_cli.reports.stated import UNDISTURBED, print_hint, print_proposals, stated_document
from headrace_cli.terminal.documents import finding_document, invariants_document
from headrace_cli.terminal.render import print_lines, print_sentences
from headrace_properties.findings import Family, Finding
from headrace_properties.promises.guesses import Proposal
from headrace_properties.verdict import Holds, Unknown, Verdict

if TYPE_CHECKING:
    from headrace_properties.query_search import QuerySearch
    from headrace_properties.spark_jobs.targets import SparkReport
    from headrace_properties.spark_trials import SparkTrials
    from headrace_sim.spark.query.schedules import Feed


@dataclass(slots=True)
class SparkSearchReport:
    """The report on a Spark job, a sink, or a program's queries.

    Attributes:
        trials: Of it.
        end: Of the search.
    """

    trials: "SparkTrials"
    end: SearchEnd

    def print(self, console: Console, *, verbose: bool = False) -> None:
        """Print it for people.

        Args:
            console: where to.
            verbose: with the whole input of each finding.
        """
        for line in self.end.session.kept:
            print_sentences(console, line)
        for note in self.trials.notes:
            print_sentences(console, f"Note: {note}")
        for tried in self.trials.parts:
            if tried.report is not None:
                _print_query(console, tried.report)
                print_sentences(console, f"Assumed of the source: {tried.feed_source.assumed}")
                _print_stated(console, tried, verbose=verbose)
                for note in _notes(tried.report):
                    print_sentences(console, f"Note: {note}")
        for number, finding in enumerate(self.trials.findings):
            part = self.trials.part_of(finding)
            console.print()
            print_sentences(console, f"{finding.finding_class.name}: {self._whose(part)}{finding.kind.title}")
            print_sentences(console, str(finding), indent=2)
            if finding.trial is not None:
                print_lines(console, f"  Seen in {_seen(finding)}.")
            if verbose and part is not None and finding.trial is not None:
                _print_input(console, finding, part.target.feed)
            if (path := self.end.session.files.get(number)) is not None:
                print_lines(console, f"  headrace replay {shlex.quote(str(path))}{self._variables} --explain")
        for why in self.trials.why_open:
            console.print()
            print_sentences(console, f"UNKNOWN: {why}")
        by = f" with PySpark {self.trials.pyspark.rpartition('.')[0]}"
        print_lines(console, f"\n{self.end.result.capitalize()}{by}, after {self.end.elapsed_s:.1f} s.")

    def _whose(self, part: "QuerySearch | None") -> str:
        """Return the query that a finding is about, of several."""
        return f"{part.source.query}: " if part is not None and len(self.trials.parts) > 1 else ""

    @property
    def _variables(self) -> str:
        """The options that a program's replay needs. Their values may be secrets."""
        return "".join(f" --env {name}=..." for name in self.trials.source.environment)

    def document(self) -> dict[str, Any]:
        """Return it as JSON: of one query, or with a list of them."""
        trials, files = self.trials, self.end.session.files
        queries = [_query_document(part) for part in trials.parts]
        findings = [
            finding_document(finding) | {"replay_file": files.get(number)} | self._query_of(finding)
            for number, finding in enumerate(trials.findings)
        ]
        document: dict[str, Any] = {
            "target": trials.name,
            "result": self.end.result,
            "pyspark": trials.pyspark,
        }
        document["kept"] = self.end.session.kept
        if trials.source.is_program:
            document |= {"queries": queries, "notes": trials.notes}
        else:
            document |= queries[0]
        return document | {"findings": findings, "unknown": self.trials.why_open}

    def _query_of(self, finding: Finding) -> dict[str, str]:
        """Return the query of a program that a finding is about."""
        part = self.trials.part_of(finding)
        return {"query": part.source.query} if part is not None and part.source.query else {}


def _query_document(part: "QuerySearch") -> dict[str, Any]:
    report = part.report
    if report is None:
        return {"query": part.source.query, "target": part.target.name}
    named = {"query": part.source.query, "place": part.target.job.sink.place} if part.source.query else {}
    return named | {
        "target": report.name,
        "schedules": report.job.schedules if report.job else 0,
        "late": report.job.late if report.job else 0,
        "left_out": report.job.left_out if report.job else "",
        "trials": report.sink.trials if report.sink else 0,
        "effects": report.sink.effects if report.sink else (),
        "written": report.written,
        "promises": invariants_document(
            _verdicts(part, report.asked), {promise.name: promise.title for promise in part.target.promises}
        ),
        **stated_document(part.target.promises, _proposals(part)),
        "assumed": part.feed_source.assumed,
        "notes": _notes(report),
    }


def _notes(report: "SparkReport") -> tuple[str, ...]:
    parts = (report, report.job, report.sink)
    return tuple(note for part in parts if part is not None for note in part.notes)


def _print_query(console: Console, report: "SparkReport") -> None:
    """Print what was tried of a query."""
    if report.job is not None:
        late = f"; up to {report.job.late:,} rows were late" if report.job.late else ""
        left_out = f"; {report.job.left_out}" if report.job.left_out else ""
        print_sentences(console, f"{report.name}: {report.job.schedules:,} schedules{late}{left_out}")
    if report.sink is not None and report.sink.effects:
        effects = ", ".join(map(str, report.sink.effects))
        print_lines(
            console, f"{report.name}: a sink with {effects} effects in {len(report.sink.effects)} batches"
        )
        print_lines(console, f"{report.sink.trials:,} trials: each effect of each batch under every fault")
    if report.written:
        rows = ", ".join(map(str, report.written))
        print_lines(console, f"{report.name}: {rows} rows in {len(report.written)} batches reach the sink")


def _print_stated(console: Console, part: "QuerySearch", *, verbose: bool) -> None:
    """Print by what the run without failures was judged; if by nothing, that, and what could be promised."""
    report = part.report
    assert report is not None
    if part.target.promises or not report.is_run:
        return
    unsaid = UNDISTURBED if report.job or report.sink else _ALONE
    if not verbose:
        print_hint(console, unsaid)
        return
    script = part.source.name if part.source.is_program and part.source.name.endswith(".py") else ""
    where = f"{script.removesuffix('.py')}_promises.py, beside it" if script else "its module"
    print_proposals(console, unsaid, _proposals(part), where)


_ALONE = "Run once, without failures. Whether that run is right, nobody said"


def _proposals(part: "QuerySearch") -> tuple[Proposal, ...]:
    """Return what could be promised of a query, if nothing is."""
    from headrace_properties.spark_jobs.proposals import proposals

    report = part.report
    is_proposed = report is not None and report.is_run and not part.target.promises
    return proposals(part.target, report.calm) if report and is_proposed else ()


def _verdicts(part: "QuerySearch", asked: Mapping[str, str]) -> dict[str, Verdict]:
    """Return the verdict of each promise about a query."""
    broken = {
        finding.kind.name: finding.verdict
        for finding in part.findings
        if finding.kind.family is Family.PROMISE
    }
    names = [promise.name for promise in part.target.promises]
    others = ((name, asked.get(name, "was not asked")) for name in names)
    return {name: Unknown(why) if why else Holds(1) for name, why in others} | broken


def _print_input(console: Console, finding: Finding, feed: "Feed") -> None:
    from headrace_properties.spark_jobs.smaller_feeds import narrowed

    for number, rows in enumerate(narrowed(feed, finding.trial.kept)):
        for row in rows:
            print_lines(console, f"  batch {number} has {row}")


def _seen(finding: Finding) -> str:
    fault, trials = getattr(finding.trial, "fault", None), finding.trials
    if fault.kind.value == "undisturbed" if fault else finding.trial.schedule is None:
        return "a run without faults"
    return f"{trials:,} {'trial' if fault else 'schedule'}{'s' * (trials != 1)}"
