"""Failures that are kept and tried first next time: replay files in the project's directory, which CI can share.

Rules of this file:

* A failure stays until a run of it shows that what it violated holds, and is then retired: moved to ``retired``, never deleted.
  If that is undecided, because the property was not exercised or not checked, it stays.
* One with implausible numbers is not run, and stays: a plan from an edited file could run for days.
* A file that cannot be read, such as one that was cut off, is told of, skipped and left as it is.
* An unwritable directory hides no verdict.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from headrace import HistoryFormatError
from headrace_properties.checkers.catalogue import is_about_code
from headrace_properties.findings import Finding, FindingClass, Kind, ranked
from headrace_properties.replays import ERROR, Replay, kind_of, read_replay
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.origins import input_digest
from headrace_properties.search.parallel import Jobs, runner, useful_jobs
from headrace_properties.search.plausible import implausible, missing_records
from headrace_properties.search.verification import Verification
from headrace_properties.target import Source
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.user_code.review import CodeReview, review
from headrace_properties.verdict import Holds, Verdict, Violated
from headrace_properties.whole_files import write_whole
from headrace_sim import Protocol

FOLDER = Path(".headrace/failures")
"""Where failures are kept, in the directory of the project."""

_RETIRED = "retired"
_DIGITS = 8


@dataclass(frozen=True, slots=True)
class KeptFailure:
    """A failure of an earlier search.

    Attributes:
        path: of the file.
        replay: its content.
    """

    path: Path
    replay: Replay


@dataclass(frozen=True, slots=True)
class Retried:
    """A kept failure that has been run again.

    Attributes:
        kept: the failure.
        verdicts: what the run says of what was found, and of what it shows now; nothing if that would do harm.
        changes: what it was recorded from and has changed since: ``code``, ``input``.
        wrong: why it cannot be run: somebody has edited the file, or the input has fewer records now.
        judged: the run, if a cluster made one.
        found: what a Spark job or a sink shows again, or what only the author can say of code.
    """

    kept: KeptFailure
    verdicts: Mapping[Kind, Verdict] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    wrong: str = ""
    judged: JudgedRun | None = None
    found: Finding | None = None

    @property
    def path(self) -> Path:
        """Of its file."""
        return self.kept.path

    @property
    def broken(self) -> tuple[Kind, ...]:
        """What it violates."""
        return tuple(kind for kind, verdict in self.verdicts.items() if isinstance(verdict, Violated))

    @property
    def failed(self) -> bool:
        """Whether it was run and violates something."""
        return bool(self.broken)

    @property
    def passed(self) -> bool:
        """Whether what it violated was exercised and holds."""
        return not (self.wrong or self.broken) and all(
            isinstance(self.verdicts.get(kind), Holds) for kind in self.kept.replay.kinds
        )

    def __str__(self) -> str:
        """Report the result."""
        if self.wrong:
            return f"{self.path}: skipped, as it cannot be run: {self.wrong}"
        if self.found is not None:
            return f"{self.path}: {self.found.finding_class.value} again: {self.found.kind.title}"
        if self.broken:
            return f"{self.path}: violated again: {shown(self.broken)}"
        recorded = ", ".join(kind.title for kind in self.kept.replay.kinds)
        if not self.passed:
            return f"{self.path}: kept; nothing can be said of {recorded}, which this run does not exercise"
        since = f"; its {' and '.join(self.changes)} changed" if self.changes else ""
        return f"{self.path}: no longer violates {recorded}{since}"


def shown(kinds: Sequence[Kind]) -> str:
    """Say what a run shows."""
    titles = (kind.title for kind in kinds)
    return "the run stopped with an error" if ERROR in kinds else ", ".join(titles)


class KeptFailures:
    """The kept failures of one target.

    Args:
        folder: where those of all targets are.
        source: of the target. Failures of another input, protocol or other versions say nothing of it.
    """

    def __init__(self, folder: Path, source: Source) -> None:
        self.folder = folder / source.name.replace(":", ".")
        self._source = source
        self._unreadable: dict[Path, HistoryFormatError] = {}
        self._told: set[Path] = set()

    def load(self) -> tuple[KeptFailure, ...]:
        """Read the failures, in order of their names, without those that cannot be read: see `unreadable`."""
        kept = []
        for path in sorted(self.folder.glob("*.json")):
            if path.name.startswith("."):
                continue
            try:
                replay = read_replay(path)
            except HistoryFormatError as error:
                self._unreadable[path] = error
            else:
                kept += [KeptFailure(path, replay)] if replay.source.is_like(self._source) else []
        return tuple(kept)

    def unreadable(self) -> tuple[str, ...]:
        """Return a line for each file that could not be read, once."""
        lines = {
            path: f"{path}: skipped, as it cannot be read: {error.reason}. Restore it, or delete it"
            for path, error in self._unreadable.items()
            if path not in self._told
        }
        self._told |= lines.keys()
        return tuple(lines.values())

    def keep(self, data: bytes) -> Path:
        """Keep what `headrace_properties.replays.to_replay` made of a finding, and return the file's path.

        Raises:
            OSError: it cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = free_name(self.folder, data)
        write_whole(path, lambda part: part.write_bytes(data))
        return path

    def retire(self, path: Path) -> Path:
        """Retire the failure of a file, and return the file's new path.

        Raises:
            OSError: it cannot be moved.
        """
        folder = self.folder / _RETIRED
        folder.mkdir(exist_ok=True)
        return path.replace(folder / path.name)


def retry_runs(
    application: Application, kept: Sequence[KeptFailure], protocol: Protocol, jobs: Jobs = 1
) -> tuple[Retried, ...]:
    """Run kept failures of a cluster again; leave out the others.

    Args:
        application: what is under test.
        kept: the failures.
        protocol: the state machines to host.
        jobs: processes that share the runs.
    """
    runs = [
        (failure, failure.replay.trial) for failure in kept if isinstance(failure.replay.trial, PipelineTrial)
    ]
    wrong = [implausible(trial.plan, application.feed(trial.feed_seed), trial.kept) for _, trial in runs]
    fit = [trial for (_, trial), why in zip(runs, wrong, strict=True) if not why]
    with runner(application, protocol, useful_jobs(jobs, len(fit))) as run:
        done = iter(list(run(fit)))
    return tuple(
        Retried(failure, wrong=why) if why else _judged(failure, next(done), application, trial)
        for (failure, trial), why in zip(runs, wrong, strict=True)
    )


def _judged(
    failure: KeptFailure, judged: JudgedRun, application: Application, trial: PipelineTrial
) -> Retried:
    changes = failure.replay.changes(input_digest(application.input_of(trial)))
    return Retried(failure, verdicts_of(judged), changes, judged=judged)


def verdicts_of(judged: JudgedRun) -> dict[Kind, Verdict]:
    """Return the verdicts of a run by kind, those that are violated first and in order of their causes."""
    ended: Verdict = Violated(str(judged.error), ()) if judged.error else Holds(1)
    verdicts = {
        **judged.broken,
        **{name: verdict for name, verdict in judged.verdicts.items() if not is_about_code(name)},
    }
    return {ERROR: ended} | {kind_of(name): verdict for name, verdict in verdicts.items()}


def found_again(retried: Sequence[Retried]) -> Verification | None:
    """Return the runs' verification if one of them failed; the first one is the failure."""
    runs = [
        (again.kept.replay.trial, again.judged)
        for again in retried
        if isinstance(again.kept.replay.trial, PipelineTrial) and again.judged is not None
    ]
    seeds = tuple(dict.fromkeys(trial.feed_seed for trial, _ in runs))
    found = Verification(feed_seeds=seeds, feeds_asked=len(seeds))
    for trial, judged in runs:
        found.take(trial, judged)
    return None if found.failure is None else found


def retry_code(
    application: Application, kept: Sequence[KeptFailure], known: CodeReview
) -> tuple[CodeReview, tuple[Retried, ...]]:
    """Look for kept findings about user code again; return the review with them added, and the result of each.

    Args:
        application: what is under test.
        kept: the failures; those of runs are left out.
        known: today's findings. What it contains is not looked for; nothing is if it says that runs do harm.
    """
    retried = []
    for failure in kept:
        replay, trial = failure.replay, failure.replay.trial
        if not isinstance(trial, CodeTrial):
            continue
        wrong = missing_records(application.feed(trial.feed_seed), trial.kept)
        if wrong:
            retried.append(Retried(failure, wrong=wrong))
            continue
        found: dict[Kind, Verdict] = {
            kind: verdict for kind, verdict in known.verdicts.items() if replay.shows(kind)
        }
        if not found and not known.why_no_runs:
            again = shown_again(application, trial, replay.kinds)
            found = dict(again.verdicts) or dict.fromkeys(replay.kinds, Holds(1))
            known = replace(known, findings=ranked([*known.findings, *again.findings]))
        changes = replay.changes(input_digest(application.input_of(trial)))
        asked = known.of(FindingClass.UNDECLARED) if Violated not in map(type, found.values()) else ()
        question = next((finding for finding in asked if finding.kind in found), None)
        retried.append(Retried(failure, found, changes, found=question))
    return known, tuple(retried)


def shown_again(application: Application, trial: CodeTrial, kinds: Collection[Kind]) -> CodeReview:
    """Look for findings in the input that a trial keeps; if they do not show, return any other finding.

    Args:
        application: what is under test.
        trial: what showed them.
        kinds: what was found.
    """
    feed = {trial.feed_seed: application.input_of(trial)}
    found = review(
        application.versions, feed, seed=trial.seed, limits=application.limits, promises=application.promises
    )
    names = {kind.name for kind in kinds}
    shown = tuple(finding for finding in found.findings if finding.trial is not None)
    same = tuple(finding for finding in shown if finding.kind.name in names)
    numbers = trial.kept or ()
    whole = (
        replace(
            finding,
            trial=structs.replace(
                finding.trial, kept=tuple(numbers[number] for number in finding.trial.kept)
            ),
        )
        for finding in same or shown
    )
    return replace(found, findings=tuple(whole))


def is_fit_for_files(folder: Path) -> bool:
    """Return whether a project may be there: no files are written unasked to a home directory or the root."""
    place = folder.resolve()
    return place not in (Path.home().resolve(), Path(place.anchor))


def free_name(folder: Path, data: bytes) -> Path:
    """Name a file by its content: as many digits as it takes to replace no other file."""
    digest = hashlib.sha256(data).hexdigest()
    names = [
        folder / f"headrace-failure-{digest[:digits]}.json" for digits in range(_DIGITS, len(digest) + 1)
    ]
    return next((name for name in names if not name.exists() or name.read_bytes() == data), names[-1])
