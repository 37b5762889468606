"""The report of ``headrace verify`` on a Spark job or sink, for people and as JSON."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console

from headrace_cli.reports.search_end import SearchEnd
from headrace_cli.reports.stated import HINT, UNDISTURBED, print_proposals, stated_document
from headrace_cli.terminal.documents import finding_document, invariants_document
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.render import print_lines, print_result, print_sentences
from headrace_properties.findings import Family, Finding
from headrace_properties.promises.guesses import Proposal
from headrace_properties.verdict import Holds, Unknown, Verdict

if TYPE_CHECKING:
    from headrace_properties.query_search import QuerySearch
    from headrace_properties.spark_jobs.targets import SparkReport
    from headrace_properties.spark_trials import SparkTrials
    from headrace_sim.spark.query.schedules import Feed


_LINES = 25
"""Choice: a brief report fits a terminal."""
_MOST_DETAILS = 10
_MOST_NAMES = 5
"""Choice: a brief report has this many lines on what was tried, and names of findings that it has no room for."""


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
        """Print it for people: the findings, the cause first; what was not judged; and what was tried.

        A brief report has at most 25 lines, unless its first finding takes more: it names the findings that do not fit.

        Args:
            console: where to.
            verbose: all findings, with their whole input, and all notes.
        """
        blocks = list(self._blocks(console, verbose=verbose))
        details = list(dict.fromkeys(self._details(verbose=verbose)))
        if not verbose:
            details = _shortened(details, _MOST_DETAILS)
        tail = partial(self._print_tail, console, details, verbose=verbose)
        left = _LINES - _height(console, tail) - _height(console, partial(self._print_omitted, console, 1))
        for number, block in enumerate(blocks):
            left -= _height(console, block)
            if number and left < 0 and not verbose:
                self._print_omitted(console, number)
                break
            block()
        tail()

    def _blocks(self, console: Console, *, verbose: bool) -> Iterator[Callable[[], None]]:
        """Yield a function that prints each finding, and each thing that was not judged; or that nothing was found."""
        findings, why_open = self.trials.findings, self.trials.why_open
        for number, finding in enumerate(findings):
            yield partial(self._print_finding, console, number, finding, verbose=verbose)
        for number, why in enumerate(why_open, len(findings)):
            yield partial(_print_paragraph, console, f"UNKNOWN: {why}", number)
        if not findings and not why_open:
            yield partial(print_result, console, self._nothing_found, self.end.code)

    @property
    def _nothing_found(self) -> str:
        """The result in a line, of a search without findings."""
        reports = [part.report for part in self.trials.parts if part.report is not None]
        held = ["no failure changes the output"] if any(each.job or each.sink for each in reports) else []
        held += ["every promise is kept"] if any(part.target.promises for part in self.trials.parts) else []
        return f"{self.end.result.upper()}: {', '.join(held) or 'it ran once without failures'}"

    def _print_finding(self, console: Console, number: int, finding: Finding, *, verbose: bool) -> None:
        part = self.trials.part_of(finding)
        _print_paragraph(console, f"{finding.finding_class.name}: {self._title(finding)}", number)
        print_sentences(console, str(finding), indent=2)
        if finding.trial is not None:
            print_lines(console, f"  Seen in {_seen(finding)}.")
        if verbose and part is not None and finding.trial is not None:
            _print_input(console, finding, part.target.feed)
        if (path := self.end.session.files.get(number)) is not None:
            print_lines(console, f"  headrace replay {shlex.quote(str(path))}{self._variables} --explain")

    def _print_omitted(self, console: Console, shown: int) -> None:
        """Name what a brief report has no room for. ``shown``: how many of the findings and open questions it has."""
        names = [*map(self._title, self.trials.findings), *("UNKNOWN" for _ in self.trials.why_open)][shown:]
        if names:
            counts = (f"{name} (of {times})" if times > 1 else name for name, times in Counter(names).items())
            named = ", ".join(_shortened(list(counts), _MOST_NAMES))
            console.print()
            print_sentences(console, f"With it: {named} (--verbose shows each)")

    def _print_tail(self, console: Console, details: Sequence[str], *, verbose: bool) -> None:
        """Print what was tried of each query, on what assumptions, and for how long."""
        console.print()
        for line in details:
            print_sentences(console, line)
        for part in self.trials.parts:
            if part.report is not None and verbose:
                _print_stated(console, part)
        by = f" with PySpark {self.trials.pyspark.rpartition('.')[0]}"
        print_lines(console, f"{self.end.result.capitalize()}{by}, after {self.end.elapsed_s:.1f} s.")

    def _details(self, *, verbose: bool) -> Iterator[str]:
        """Yield what was tried, with notes; and what was assumed, unless a violation stands alone in a brief report."""
        is_whole = verbose or self.end.code is not ExitCode.VIOLATED
        yield from (f"Note: {note}" for note in self.trials.notes)
        for part in self.trials.parts:
            report = part.report
            if report is None:
                continue
            yield from _tried(report)
            if is_whole:
                yield f"Assumed of the source: {part.feed_source.assumed}"
                if not verbose and (unsaid := _unsaid(part)):
                    yield f"{unsaid}{HINT}"
            yield from (f"Note: {note}" for note in _notes(report))
        yield from self.end.session.kept

    def _title(self, finding: Finding) -> str:
        """Return what is broken, and of which query, if there are several."""
        part = self.trials.part_of(finding)
        whose = f"{part.source.query}: " if part is not None and len(self.trials.parts) > 1 else ""
        return f"{whose}{finding.kind.title}"

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


def _tried(report: "SparkReport") -> Iterator[str]:
    """Yield what was tried of a query."""
    if report.job is not None:
        late = f"; up to {report.job.late:,} rows were late" if report.job.late else ""
        left_out = f"; {report.job.left_out}" if report.job.left_out else ""
        yield f"{report.name}: {report.job.schedules:,} schedules{late}{left_out}"
    if report.sink is not None and report.sink.effects:
        effects = ", ".join(map(str, report.sink.effects))
        yield f"{report.name}: a sink with {effects} effects in {len(report.sink.effects)} batches"
        yield f"{report.sink.trials:,} trials: each effect of each batch under every fault"
    if report.written:
        rows = ", ".join(map(str, report.written))
        yield f"{report.name}: {rows} rows in {len(report.written)} batches reach the sink"


def _unsaid(part: "QuerySearch") -> str:
    """Return by what the run without failures was judged, if no promise says what is right; else ""."""
    report = part.report
    if report is None or part.target.promises or not report.is_run:
        return ""
    return UNDISTURBED if report.job or report.sink else _ALONE


def _print_stated(console: Console, part: "QuerySearch") -> None:
    """Print what could be promised of a query, if nothing is."""
    if unsaid := _unsaid(part):
        script = part.source.name if part.source.is_program and part.source.name.endswith(".py") else ""
        where = f"{script.removesuffix('.py')}_promises.py, beside it" if script else "its module"
        print_proposals(console, unsaid, _proposals(part), where)


_ALONE = "Run once, without failures. No promise says whether that run is right"


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


def _print_paragraph(console: Console, text: str, number: int) -> None:
    """Print a paragraph, set apart if it is not the first."""
    if number:
        console.print()
    print_sentences(console, text)


def _height(console: Console, block: Callable[[], None]) -> int:
    """Return how many lines a function prints, and print none of them."""
    with console.capture() as capture:
        block()
    return capture.get().count("\n")


def _shortened(lines: Sequence[str], most: int) -> list[str]:
    """Return the first lines, and how many more there are."""
    kept = list(lines[:most])
    return kept if len(lines) <= most else [*kept, f"and {len(lines) - most} more: --verbose"]


def _seen(finding: Finding) -> str:
    fault, trials = getattr(finding.trial, "fault", None), finding.trials
    if fault.kind.value == "undisturbed" if fault else finding.trial.schedule is None:
        return "a run without faults"
    return f"{trials:,} {'trial' if fault else 'schedule'}{'s' * (trials != 1)}"
