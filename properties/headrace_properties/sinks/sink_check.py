"""The trials of one sink, judged: an undisturbed run, then each fault at each effect, deliveries and restarts."""

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headrace_properties.sinks.baseline import Baseline, Batches, by_pattern, pattern_of
from headrace_properties.sinks.bursts import BURST_ROWS, between_parts, may_split
from headrace_properties.sinks.calm_effects import assumed, failing, left_open, nothing_left, questions_of
from headrace_properties.sinks.delivered import RedeliveryTrial
from headrace_properties.sinks.lost_rows import (
    ALLOWED,
    RowsOf,
    evaluated_apart,
    last_effect,
    swallowed_in_trial,
    told_losses,
)
from headrace_properties.sinks.new_checkpoints import (
    REMEDY,
    noted,
    restarts,
)
from headrace_properties.sinks.parallel_trials import in_order
from headrace_properties.sinks.points import fault_points, of_own_source, thinned
from headrace_properties.sinks.restart_trials import RestartTrials
from headrace_properties.sinks.sink_reports import LeftOf, OneTrial, PointOutcome, Progress, SinkReport
from headrace_properties.sinks.story import (
    ONE_ROW_OF_EACH_KEY,
    OtherRows,
    SinkFinding,
    SinkQuestion,
    SinkTopic,
    TrialStory,
    Wrong,
    distinct,
    merged_twice,
    uncommitted,
)
from headrace_sim.deliveries import REPEATS, UNSAID, FeedSource, RowDelivery, burst
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.sink_faults import REPLACED_CHECKPOINTS, SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.processes import AttemptHost, Sink
from headrace_sim.spark.sinks.sink_effects import (
    DEADLY,
    Effect,
    Entry,
    Returned,
    StateCall,
    Swallowed,
)
from headrace_sim.spark.sinks.sink_runs import (
    Sight,
    SinkFailsError,
    Trial,
    UnfollowableSinkError,
    Watcher,
    restarted,
    stuck_at,
    tried,
    undisturbed,
)
from headrace_sim.spark.sinks.trial_contents import Contents, ExpectedContents, Item, expected, ids
from headrace_sim.spark.tables.row_changes import MULTIPLE_MATCHES
from headrace_sim.spark.tables.table_versions import TableVersion


class _StoppedError(Exception):
    """The search is to stop, and no trial under a fault has been made."""


_PLAIN_DEATHS = {SinkFaultKind.KILL, SinkFaultKind.TEAR}

_BY_KEY = {Wrong.TWICE, Wrong.DIFFERS, Wrong.STALE, Wrong.OVERWRITTEN, Wrong.REDELIVERED}
"""What depends on the key by which a connector writes."""

_UNSTEADY = "{} differs from one undisturbed run to the next, and is not compared: draw with a seed, take times from the rows"

_UNSTEADY_SOURCE = (
    "{} differs from one undisturbed run to the next, and is not compared: does its source give other rows at another time? Leave"
    " --source keep out, and rows are drawn; or let the sink draw with a seed, and take times from the rows"
)

_MORE_CHANCES = range(2, 8)
"""Choice: the seeds of six further undisturbed runs. Of rows that are drawn by halves, all are the same in one of a hundred."""


@dataclass(slots=True)
class SinkCheck:
    """The trials of one sink."""

    sink: Sink
    # destinations that need not be the same, such as a log of attempts: ``out.db: attempts``
    ignore: Collection[str] = frozenset()
    rows_of: RowsOf = RowsOf.SOURCE  # where the rows come from: a source may deliver them in other batches
    # what is meant of what the undisturbed run loses: ``batching``, ``order``, ``loss``
    allow: Collection[str] = frozenset()
    # the numbers of rows, over all batches, of which the second one is a newer result for the key of the first one
    revised: Sequence[tuple[int, int]] = ()
    # whether it is judged what a new checkpoint, or an older one, does; False: not tried; None: told in a note
    new_checkpoint: bool | None = None
    findings: dict[Any, SinkFinding] = field(default_factory=dict)
    questions: dict[str, SinkQuestion] = field(default_factory=dict)
    asked: dict[str, SinkQuestion] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    replaced: frozenset[str] = frozenset()
    swallowed: tuple[Swallowed, ...] = ()
    progress: Progress | None = None
    on_finding: Callable[[SinkFinding], object] = lambda _: (
        None
    )  # told of what is found, once of each kind and place
    shown: dict[SinkFault, set[tuple[Wrong, str]]] = field(default_factory=dict)
    drawn: frozenset[str] | None = None
    doubled: dict[str, str] = field(
        default_factory=dict
    )  # what is there twice in a trial, where nothing can be compared
    processes: int = 1  # how many share the trials, each with a host like the sink's
    watcher: Watcher | None = None  # told what is seen
    filters: bool = False  # whether the query before the sink may leave no row of a batch
    source: FeedSource = UNSAID  # what the source promises
    calm_steps: tuple[Contents | None, ...] = ()  # as in `OneTrial`

    def run(self, progress: Progress | None = None, *, overtaken: bool = True) -> SinkReport:
        """Make all trials.

        Args:
            progress: Called after each; a true result stops the search.
            overtaken: Whether a process that was replaced may go on (a zombie). Leave it out if something else fences it off.

        Raises:
            UnfollowableSinkError: If it does something that cannot be simulated.

        """
        self.progress = progress
        try:
            return self._searched(progress, overtaken=overtaken)
        except _StoppedError:
            why = "the search was stopped before its first trial"
            return SinkReport(tuple(self.findings.values()), (why,), 0, (), stopped=True)

    def _searched(self, progress: Progress | None, *, overtaken: bool) -> SinkReport:
        try:
            usual, by_batch, noted = self._calm()
        except SinkFailsError as error:
            return SinkReport((failing(error),), (), 0, ())
        unknown = [self._unsteady(name) for name in usual.unsteady if name not in self.ignore]
        if not any(by_batch):
            unknown.append("no effect of the sink was seen: nothing was tried")
        elif not (any(usual.contents.values()) or usual.unsteady or self.findings):
            unknown.append(nothing_left(by_batch))
        else:
            self._judge_calm(usual, by_batch)
        if any(by_batch):
            asks = self.source.once is None and SinkTopic.DUPLICATES.value not in self.allow
            self._deliver(usual, by_batch, duplicates=self.source.once is False, asks=asks)
        tasks = self.sink.host.runs_tasks_again
        points = fault_points(by_batch, noted, overtaken=overtaken, tasks=tasks)
        if self.sink.of_pipeline:
            points = thinned(points, by_batch)
        begins = self.sink.begins
        if begins is not None:
            called = any(isinstance(entry, Returned) and entry.batch >= 0 for entry in noted)
            points = of_own_source(points, by_batch, begins, has_function=called)
        faults = list(points) if any(by_batch) else []
        judged = 0
        with contextlib.closing(in_order(self._trial_on, self.sink.host, faults, self.processes)) as trials:
            for done, (fault, trial) in enumerate(zip(faults, trials, strict=True), 1):
                if progress is not None and progress(
                    done, len(faults)
                ):  # a signal may have ended this trial's process, too
                    unknown.append(f"the search was stopped after {judged:,} of {len(faults):,} trials")
                    break
                self._judge(trial, fault, usual, by_batch)
                judged = done
        if judged == len(faults) and self.sink.host.shares_java:
            unknown += self._kill_with_java(faults, usual, by_batch, progress)
        unknown += map(self._unsteady, sorted(self.drawn or ()))
        unknown += self.doubled.values()
        if judged == len(faults) and any(by_batch) and not self.findings:
            self._burst(by_batch)
        if judged == len(faults) and (
            self.new_checkpoint or not (self.findings or self.new_checkpoint is False)
        ):
            why = self._restart(usual, by_batch, is_judged=self.new_checkpoint is True)
            unknown += [f"a new checkpoint was not tried: {why}"] if why and self.new_checkpoint else []
            self.notes = (
                (*self.notes, *self._restarts(usual).restored()) if self.new_checkpoint else self.notes
            )
        counts = tuple(len(batch) for batch in by_batch[begins:])
        findings = self._found()
        outcomes = (PointOutcome(fault, frozenset(self.shown.get(fault, ()))) for fault in faults[:judged])
        return SinkReport(
            findings, tuple(unknown), judged, counts, judged < len(faults), self.notes, self._asked(findings), usual.contents,
            tuple(outcomes),
        )  # fmt: skip

    def _unsteady(self, name: str) -> str:
        is_own = self.sink.begins is not None
        return (_UNSTEADY_SOURCE if is_own else _UNSTEADY).format(name)

    def one(self, fault: SinkFault, rows: OtherRows | None = None) -> OneTrial:
        """Return what one fault shows, which the search has found before. ``rows``: to be compared, if no fault shows it."""
        self.drawn = frozenset()  # the search has told chance apart
        if fault.of_burst:
            fault, self.sink = replace(fault, of_burst=False), self._with_burst()
        try:
            usual, by_batch, noted = self._calm(stepping=True)
        except SinkFailsError as error:
            return OneTrial((failing(error),), (), ())
        calm = tuple(effect for effects in by_batch for effect in effects)
        if fault.kind is SinkFaultKind.NONE or fault.kind is SinkFaultKind.DELIVERED:
            if fault.kind is SinkFaultKind.NONE and any(usual.contents.values()):
                self._judge_calm(usual, by_batch)
            elif calm:
                self._deliver(
                    usual,
                    by_batch,
                    duplicates=[*RowDelivery][fault.effect] in REPEATS,
                    asks=fault.effect == 1,
                )
            findings = self._found()
            beside = findings if fault.kind is SinkFaultKind.NONE else ()
            return OneTrial(
                findings, calm, (), calm=usual.contents, calm_steps=self.calm_steps, questions=self._asked(beside),
                batches=self.sink.batches,
                compared=None if rows is None else (self._left(usual, self.sink.batches), self._left(usual, rows.batches)),
            )  # fmt: skip
        if fault.kind in REPLACED_CHECKPOINTS:
            self._restart(usual, by_batch, is_judged=True, only=fault)
            life = next((life for life in restarts(self.sink.batches) if life.fault == fault), None)
            if life is None or not self.findings:
                return OneTrial(self._found(), calm, (), calm=usual.contents)
            trial = restarted(replace(self.sink, in_order=True, stepping=True), life)
            what = f"the query starts again {life.how}, and what is written stays"
            left = usual.read(trial.contents, trial.effects)
            effects = tuple(effect for effect in trial.effects if effect.batch >= 0)
            steps = _behind_effects(trial, usual)
            return OneTrial(
                self._found(), calm, effects, fault, what, usual.contents, None, left, steps, self.calm_steps
            )
        is_call = fault.kind is SinkFaultKind.STATE and fault.effect < sum(
            isinstance(entry, StateCall) and entry.batch == fault.batch for entry in noted
        )
        if (
            fault.batch >= len(by_batch)
            or not (is_call or fault.effect <= len(by_batch[fault.batch]))
            or not calm
        ):
            return OneTrial((), calm, ())
        if fault.kind is SinkFaultKind.PAUSE and any(usual.contents.values()):
            self._judge_calm(usual, by_batch)  # an older whole result is mended by the next one
            self.findings.clear()
        with_java = self.sink.host.shares_java and fault.kind in DEADLY
        trial = tried(replace(self.sink, stepping=True), fault, looking=True, with_java=with_java)
        of_batches = tuple(effect for effect in trial.effects if effect.batch >= 0)
        struck = usual.read(trial.struck.contents, trial.struck.effects) if trial.struck else None
        self._judge(trial, fault, usual, by_batch)
        findings = self._found()
        return OneTrial(
            findings, calm, of_batches, fault, TrialStory(fault, trial.entries, by_batch).struck(), usual.contents,
            struck, usual.read(trial.contents, trial.effects), _behind_effects(trial, usual),
            self.calm_steps, self._asked(findings),
        )  # fmt: skip

    def _left(self, usual: ExpectedContents, batches: Batches) -> LeftOf:
        """Run the sink undisturbed on other batches; return its effects, and what it leaves."""
        try:
            trial = self._heard(batches, stepping=True)
        except SinkFailsError as error:
            return LeftOf(batches, failure=f"batch {error.batch} fails: {error.error}: {error.message}")
        except UnfollowableSinkError as error:
            return LeftOf(batches, failure=str(error))
        effects = tuple(effect for effect in trial.effects if effect.batch >= 0)
        left = usual.read(trial.contents, trial.effects)
        return LeftOf(batches, effects, left, steps=_behind_effects(trial, usual))

    def _asked(self, findings: Iterable[SinkFinding]) -> tuple[SinkQuestion, ...]:
        """Return what is asked of destinations of which nothing else is found."""
        wrong = {finding.destination for finding in findings}
        return tuple(question for name, question in self.asked.items() if name not in wrong)

    def _found(self) -> tuple[SinkFinding, ...]:
        """Return what was found; a merge that fails for ever says more than the rows that it inserts side by side."""
        findings = [
            finding
            for finding in self.findings.values()
            if finding.remedy != ONE_ROW_OF_EACH_KEY
            or finding.wrong is Wrong.STUCK
            or (Wrong.STUCK, finding.place) not in self.findings
        ]
        return distinct([self._caused(finding) for finding in findings])

    def _caused(self, finding: SinkFinding) -> SinkFinding:
        """Blame an error that the sink caught in the trial, and not in the undisturbed run, for what is missing."""
        if finding.wrong is not Wrong.MISSING or finding.fault.kind in {
            SinkFaultKind.FAIL,
            SinkFaultKind.REFUSE,
        }:
            return finding
        usual = {(entry.error, entry.place) for entry in self.swallowed}
        heard = tried(self.sink, finding.fault, heard=True).entries
        errors = (entry for entry in heard if isinstance(entry, Swallowed))
        caught = next((entry for entry in errors if (entry.error, entry.place) not in usual), None)
        return finding if caught is None else swallowed_in_trial(finding, caught)

    def _calm(self, *, stepping: bool = False) -> tuple[ExpectedContents, list[list[Effect]], list[Entry]]:
        """Run the sink undisturbed, twice; return its results, its effects by batch, and all that it has noted."""
        first = self._undisturbed(replace(self.sink, heard=True, stepping=stepping), 0)
        calm = [first, self._undisturbed(replace(self.sink, heard=False), 1)]
        if self.sink.begins is not None:
            ran = (entry.batch + 1 for entry in calm[0].entries if isinstance(entry, Effect | Returned))
            self.sink = replace(self.sink, batches=((),) * max([self.sink.begins, *ran]))
        self._watch(calm[0].at_end(len(self.sink.batches)))
        effects = calm[0].effects
        by_batch = [
            [effect for effect in effects if effect.batch == batch] for batch in range(len(self.sink.batches))
        ]
        self.questions = questions_of(effects, self.sink.keys)
        self.notes = assumed(effects)
        for effect in left_open(calm[0].entries):
            self._add(uncommitted(effect, len(by_batch[effect.batch])))
        self.swallowed = tuple(entry for entry in calm[0].entries if isinstance(entry, Swallowed))
        for question in evaluated_apart(calm[0].entries, calm[0].contents, self.allow):
            self.asked.setdefault(question.destination, question)
        usual = expected([(trial.contents, trial.effects) for trial in calm])
        if self.sink.by_clock:
            usual = replace(usual, unsteady=tuple(usual.contents))
        self.calm_steps = _behind_effects(first, usual)
        return usual, by_batch, calm[0].entries

    def _undisturbed(self, sink: Sink, chance: int) -> Trial:
        """Run a sink without faults, as `undisturbed` does. Raise `_StoppedError` if the search is to stop."""
        try:
            return undisturbed(sink, chance)
        finally:  # a signal may have ended its process, too: nothing may be said of it
            if self.progress is not None and self.progress(0, 0):
                raise _StoppedError

    def _judge_calm(self, usual: ExpectedContents, by_batch: list[list[Effect]]) -> None:
        """Judge the undisturbed run: each row leaves a trace, and what stays does not depend on how batches are cut."""

        def run(batches: Batches) -> Contents | None:
            trial = self._plain(batches)
            return None if trial is None else by_pattern(usual.read(trial.contents, trial.effects))

        left_out = {pattern_of(name) for name in (*usual.unsteady, *self.ignore)}
        if self.sink.of_pipeline or self.sink.begins is not None or self._merges_twice(by_batch):
            return
        patterns = Counter(map(pattern_of, usual.contents))
        compared = {
            pattern_of(name): name if patterns[pattern_of(name)] == 1 else pattern_of(name)
            for name in usual.contents
            if pattern_of(name) not in left_out
        }
        caught = frozenset(entry.batch for entry in self.swallowed)
        baseline = Baseline(self.sink.batches, run, compared, caught, self.sink.host.most_runs)

        def errors_without(rows: Collection[int]) -> set[tuple[str, str]]:
            trial = self._plain(baseline.without(rows))
            entries = [] if trial is None else trial.entries
            return {(entry.error, entry.place) for entry in entries if isinstance(entry, Swallowed)}

        losses = told_losses(
            baseline, by_batch, self.swallowed, self.rows_of, self.allow, usual.names, errors_without, self.revised,
        )  # fmt: skip
        for finding in losses.findings:
            self._add(finding)
        for question in losses.questions:
            self.asked.setdefault(question.destination, question)
        self.notes, self.replaced = (*self.notes, *losses.notes), losses.replaced

    def _merges_twice(self, by_batch: list[list[Effect]]) -> bool:
        """Merge all rows in one batch, as after an outage; return whether a table then has a key twice, or the merge fails."""
        merges = any(effect.action.startswith("merge ") for effects in by_batch for effect in effects)
        if not merges or self.rows_of is not RowsOf.SOURCE or SinkTopic.BATCHING.value in self.allow:
            return False
        before = len(self.findings)
        whole = OtherRows("all rows in one batch", [[row for batch in self.sink.batches for row in batch]])
        trial = self._plain(whole.batches)
        effects = [] if trial is None else trial.effects
        twice = [
            effect for effect in effects if isinstance(effect.payload, TableVersion) and effect.payload.twins
        ]
        for effect in twice:
            self._add(merged_twice(effect, effect.payload.twins, whole))
        return len(self.findings) > before

    def _plain(self, batches: Batches, chance: int = 0, first_id: int = 0) -> Trial | None:
        """Run the sink undisturbed on other batches, whose rows come in order; None if it fails."""
        rows = tuple(map(tuple, batches))
        try:
            sink = replace(
                self.sink, batches=rows, in_order=True, heard=bool(self.swallowed), first_id=first_id
            )
            return self._undisturbed(sink, chance)
        except SinkFailsError as error:
            if (
                MULTIPLE_MATCHES in error.message
                and self.rows_of is RowsOf.SOURCE
                and SinkTopic.BATCHING.value not in self.allow
            ):
                self._add(replace(failing(error), rows=OtherRows("the rows in other batches", batches)))
            return None
        except UnfollowableSinkError:
            return None

    def _with_other_ids(self) -> ExpectedContents | None:
        """Return what is left whatever the ids of the batches are, or None if the sink fails then."""
        calm = [self._plain(self.sink.batches), self._plain(self.sink.batches, 1, len(self.sink.batches))]
        runs = [(trial.contents, trial.effects) for trial in calm if trial is not None]
        return expected(runs) if len(runs) == len(calm) else None

    def _in_order(self) -> ExpectedContents | None:
        """Return what is left if the rows of a batch come in their order, or None if the sink fails then."""
        trial = self._plain(self.sink.batches)
        return None if trial is None else expected([(trial.contents, trial.effects)] * 2)

    def _deliver(
        self, usual: ExpectedContents, by_batch: list[list[Effect]], *, duplicates: bool, asks: bool
    ) -> None:
        """Deliver the rows as their source may: repeated, if that is said, or to ask whether it may; and empty, or spoiled."""
        from_source = self.rows_of in {RowsOf.SOURCE, RowsOf.UNKNOWN} and not self.sink.host.shares_java
        if not (from_source or duplicates):
            return
        in_order = self._with_other_ids() or usual if duplicates else self._in_order()
        if in_order is None:
            return
        compared = sorted(set(in_order.contents) - {*usual.unsteady, *in_order.unsteady, *self.ignore})
        delivered = RedeliveryTrial(
            self.sink.batches, self._heard, in_order, by_batch, compared, self.swallowed, self.source.keys_alike, self.filters,
            lambda trial: self._watch(trial.at_end(len(self.sink.batches))),
        )  # fmt: skip
        ways = [delivered.again] if duplicates else []
        if from_source:
            ways += [delivered.asked_of_repeats] * asks + [delivered.spelled_otherwise]
            ways += [delivered.spoiled_or_empty if self.rows_of is RowsOf.SOURCE else delivered.empty]
        for way in ways:
            with contextlib.suppress(UnfollowableSinkError):
                way()
        for finding in delivered.findings:
            if ALLOWED.get(finding.wrong) not in self.allow:
                self._add(finding)
        for question in (asked for asked in delivered.questions if asked.about.value not in self.allow):
            self.asked.setdefault(question.destination, question)
        self.notes = (*self.notes, *delivered.notes)

    def _with_burst(self) -> Sink:
        return replace(self.sink, batches=(tuple(burst(self.sink.batches, BURST_ROWS)),), in_order=True)

    def _burst(self, by_batch: list[list[Effect]]) -> None:
        """Kill the sink between the parts into which it splits a large batch, and no other."""
        if self.rows_of is not RowsOf.SOURCE or self.sink.host.shares_java or self.sink.of_pipeline:
            return
        large, rows = self._with_burst(), [*map(len, self.sink.batches)]
        if not may_split(rows, by_batch):
            return
        try:
            faults = between_parts(rows, by_batch, self._undisturbed(large, 0).effects)
            if not faults:
                return
            again = replace(self, sink=large, asked={}, shown={}, watcher=None, progress=None)
            usual, of_burst, _ = again._calm()
            for fault in faults:
                in_burst = replace(fault, of_burst=False)
                again.findings = {}
                again._judge(tried(large, in_burst), in_burst, usual, of_burst)
                for finding in again._found():
                    story = f"Of one batch of {BURST_ROWS:,} rows, which it splits: {finding.story}"
                    self._add(replace(finding, fault=fault, story=story))
        except (
            SinkFailsError,
            UnfollowableSinkError,
            _StoppedError,
        ):  # its rows may not be what the sink takes
            return

    def _heard(self, batches: Batches, *, stepping: bool = False) -> Trial:
        """Run the sink undisturbed on other batches, and note what it catches. Raise `SinkFailsError`."""
        rows = tuple(map(tuple, batches))
        sink = replace(self.sink, batches=rows, in_order=True, heard=True, stepping=stepping)
        return self._undisturbed(sink, 0)

    def _restart(
        self,
        usual: ExpectedContents,
        by_batch: list[list[Effect]],
        *,
        is_judged: bool,
        only: SinkFault | None = None,
    ) -> str:
        """Replace the checkpoint; return why that cannot be tried, or "". ``only``: the restart to try."""
        trials = self._restarts(usual)
        if trials.why_not:
            return trials.why_not
        try:
            differing = trials.differing(only)
        except _StoppedError:
            return "the search was stopped"
        except UnfollowableSinkError as error:
            return str(error)
        wrong = {finding.destination for finding in self.findings.values()}
        differing = [after for after in differing if after.destination not in wrong]
        blamed = [last_effect(after.destination, by_batch, usual.names) for after in differing]
        if differing and not is_judged:
            text = noted(differing, shown_place(blamed[0].place))
            self.notes = (*self.notes, text, *trials.restored())
            return ""
        for after, effect in zip(differing, blamed, strict=True):
            text = str(after)[0].upper() + f"{str(after)[1:]}."
            self._add(
                SinkFinding(
                    Wrong.RESTARTED, after.destination, (), effect.place, effect.action, text, REMEDY, after.restart.fault
                )
            )  # fmt: skip
        return ""

    def _restarts(self, usual: ExpectedContents) -> RestartTrials:
        return RestartTrials(self.sink, usual, self.rows_of, self.ignore, self._plain, self._with_other_ids)

    def _kill_with_java(
        self,
        faults: list[SinkFault],
        usual: ExpectedContents,
        by_batch: list[list[Effect]],
        progress: Progress | None,
    ) -> list[str]:
        """Try the deaths that showed something, and two that did not, once more with kill -9 of the driver and Java.

        What that shows counts. Return what it does not show, which is not judged then.
        """
        deadly = dict.fromkeys(
            finding.fault for finding in self.findings.values() if finding.fault.kind in DEADLY
        )
        calm = [fault for fault in faults if fault.kind in _PLAIN_DEATHS and fault not in self.shown]
        sample = [*deadly, *dict.fromkeys([*calm[len(calm) // 2 :][:1], *calm[-1:]])]
        unlike, done = list[str](), 0
        for fault in sample:
            trial = tried(self.sink, fault, with_java=True)
            if progress is not None and progress(len(faults) + done + 1, len(faults) + len(sample)):
                break
            done += 1
            again = replace(self, findings={}, asked={}, shown={})
            again._judge(trial, fault, usual, by_batch)
            known, shown = self.shown.get(fault, set()), again.shown.get(fault, set())
            struck = TrialStory(fault, trial.entries, by_batch).struck()
            for wrong, where in sorted(known ^ shown, key=str):
                only = "only" if (wrong, where) in shown else "not"
                unlike.append(f"{struck}: {wrong.value} in {where} shows {only} if Java dies, too")
            kept = [finding for finding in self.findings.items() if _of(finding[1]) not in known - shown]
            new = [finding for finding in again.findings.items() if _of(finding[1]) not in known]
            self.findings = dict(new) | dict(kept)
        if done:
            sample_of = f"{done} crashes, {min(done, len(deadly))} of them with a finding"
            outcome = "another" if unlike else "the same"
            note = f"{sample_of}, were repeated with kill -9 of the driver and its Java: {outcome} outcome"
            self.notes = (*self.notes, note)
        return unlike

    def _trial_on(self, host: AttemptHost, fault: SinkFault) -> Trial:
        return tried(
            replace(self.sink, host=host), fault, looking=self.watcher is not None and self.watcher.at_deaths
        )

    def _watch(self, sight: Sight | None) -> None:
        if self.watcher is not None and sight is not None:
            self.watcher.tell(sight)

    def _judge(
        self, trial: Trial, fault: SinkFault, usual: ExpectedContents, by_batch: list[list[Effect]]
    ) -> None:
        story = TrialStory(fault, trial.entries, by_batch)
        failure = stuck_at(trial.entries)
        if failure is not None:
            self._add(story.stuck(failure))
            return
        self._watch(trial.struck)
        self._watch(trial.at_end(len(self.sink.batches)))
        left = usual.read(trial.contents, trial.effects)
        for destination in sorted({*left, *usual.contents}):
            if self.sink.by_clock or destination in usual.unsteady or destination in self.ignore:
                if self.sink.begins is not None and destination not in self.doubled:
                    self.doubled |= story.doubled(destination, left, usual)
                continue
            if fault.kind is SinkFaultKind.FAIL and destination not in usual.contents:
                continue  # where the function notes errors
            surplus = left.get(destination, Counter()) - usual.contents.get(destination, Counter())
            missing = usual.contents.get(destination, Counter()) - left.get(destination, Counter())
            only_order = fault.kind is SinkFaultKind.REORDER and _letters(surplus) == _letters(missing)
            if (surplus or missing) and not only_order and destination not in self._drawn(usual):
                self._add(story.different(destination, surplus, missing, usual))
        drawn = ids(trial.contents, usual.names)
        for one, other in usual.joins:
            lost = drawn.get(one, set()) - drawn.get(other, set())
            same = all(left.get(name) == usual.contents.get(name) for name, _ in (one, other))
            if lost and same and not {one[0], other[0]}.intersection(self.ignore):
                self._add(story.apart(one, other, min(lost), usual.names))

    def _drawn(self, usual: ExpectedContents) -> frozenset[str]:
        """Return the destinations that chance alone makes differ, where two undisturbed runs happened to agree.

        They are looked for once, when a trial first shows a difference.
        """
        if self.drawn is None:
            self.drawn = frozenset()
            for chance in _MORE_CHANCES[: self.sink.host.most_runs // 2]:
                with contextlib.suppress(SinkFailsError):
                    trial = undisturbed(self.sink, chance)
                    left = usual.read(trial.contents, trial.effects)
                    names = {*left, *usual.contents} - {*usual.unsteady, *self.ignore}
                    self.drawn |= {name for name in names if left.get(name) != usual.contents.get(name)}
        return self.drawn

    def _add(self, finding: SinkFinding) -> None:
        older = finding.fault.kind is SinkFaultKind.PAUSE and finding.destination in self.replaced
        if older and finding.wrong is Wrong.DIFFERS:
            return
        self.shown.setdefault(finding.fault, set()).add(_of(finding))
        question = self.questions.get(finding.destination)
        if question is not None and finding.wrong in _BY_KEY:
            self.asked.setdefault(finding.destination, replace(question, fault=finding.fault))
            return
        key = (finding.wrong, finding.place)
        known = self.findings.get(key)
        self.findings[key] = finding if known is None else replace(known, trials=known.trials + 1)
        if known is None:
            self.on_finding(finding)


def _letters(items: Counter[Item]) -> Counter[str]:
    """Return a form that is equal for the same rows in another order, however they are written."""
    return Counter("".join(map(str, items.elements())))


def _of(finding: SinkFinding) -> tuple[Wrong, str]:
    """Return what is wrong, and where."""
    return finding.wrong, finding.destination


def _behind_effects(trial: Trial, usual: ExpectedContents) -> tuple[Contents | None, ...]:
    """Return what was there behind each effect of a batch, as far as somebody looked."""
    seen = {len(sight.effects): usual.read(sight.contents, sight.effects) for sight in trial.steps}
    return tuple(seen.get(number) for number, effect in enumerate(trial.effects, 1) if effect.batch >= 0)
