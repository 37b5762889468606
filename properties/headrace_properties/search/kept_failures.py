"""Failures that are kept and tried first next time: replay files in the project's directory, which CI can share.

Rules of this file:

* A failure stays until a run of it shows that what it violated holds, and is then retired: moved to ``retired``, never deleted.
  If that is undecided, because the property was not exercised or not checked, it stays.
* One with implausible numbers is not run, and stays: a plan from an edited file could run for days.
* A file that cannot be read, such as one that was cut off, is told of, skipped and left as it is.
* An unwritable directory hides no verdict.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headrace import HistoryFormatError
from headrace_properties.search.application import Application
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.parallel import Jobs, runner, useful_jobs
from headrace_properties.search.plausible import implausible
from headrace_properties.search.replay_file import ReplayFile, is_spark_file, read_replay
from headrace_properties.search.verification import Verification
from headrace_properties.verdict import Holds
from headrace_properties.whole_files import write_whole
from headrace_sim import Protocol

FOLDER = Path(".headrace/failures")
"""Where failures are kept, in the directory of the project."""

T = TypeVar("T")

_RETIRED = "retired"
_DIGITS = 8


@dataclass(frozen=True, slots=True)
class KeptFailure:
    """A failure of an earlier search.

    Attributes:
        path: of the file.
        file: its content.
    """

    path: Path
    file: ReplayFile


@dataclass(frozen=True, slots=True)
class Retried:
    """A kept failure that has been run again.

    Attributes:
        kept: the failure.
        judged: what its run's outcome; ``None``: it was not run.
        changes: what it was recorded from and has changed since: ``code``, ``input``.
        wrong: why it cannot be run: somebody has edited the file, or the input has fewer records now.
    """

    kept: KeptFailure
    judged: JudgedRun | None
    changes: tuple[str, ...] = ()
    wrong: str = ""

    @property
    def path(self) -> Path:
        """Of its file."""
        return self.kept.path

    @property
    def failed(self) -> bool:
        """Whether it was run and violates something."""
        return self.judged is not None and self.judged.failed

    @property
    def passed(self) -> bool:
        """Whether what it violated was exercised and holds."""
        if self.judged is None or self.judged.failed:
            return False
        verdicts = self.judged.verdicts
        return all(
            isinstance(verdicts.get(name), Holds) for name in self.kept.file.violations.keys() - {"error"}
        )

    def __str__(self) -> str:
        """Report the result."""
        if self.judged is None:
            return f"{self.kept.path}: skipped, as it cannot be run: {self.wrong}"
        broken = ", ".join(self.kept.file.violations)
        if self.judged.failed:
            again = ", ".join(self.judged.broken) or "the run stopped with an error"
            return f"{self.kept.path}: violated again: {again}"
        if not self.passed:
            return (
                f"{self.kept.path}: kept; nothing can be said of {broken}, which this run does not exercise"
            )
        since = f"; its {' and '.join(self.changes)} changed" if self.changes else ""
        return f"{self.kept.path}: no longer violates {broken}{since}"


class KeptFailures:
    """The kept failures of one pipeline on one protocol.

    Args:
        folder: where those of all pipelines are.
        pipeline: ``MODULE:PIPELINE``.
        versions: further versions, in the same form.
        protocol: name of the state machines.
        feed: name of what makes the input: a failure says nothing of another one's.
    """

    def __init__(
        self,
        folder: Path,
        pipeline: str,
        versions: Sequence[str] = (),
        protocol: str = "sound",
        feed: str = "feed",
    ) -> None:
        self.folder = folder / pipeline.replace(":", ".")
        self._of = (pipeline, tuple(versions), protocol, feed)
        self._unreadable: dict[Path, HistoryFormatError] = {}
        self._told: set[Path] = set()

    def load(self) -> tuple[KeptFailure, ...]:
        """Read the failing runs, in order of their names."""
        return tuple(failure for failure in self._all() if not failure.file.about_code)

    def findings(self) -> tuple[KeptFailure, ...]:
        """Read the findings about user code, in order of their names."""
        return tuple(failure for failure in self._all() if failure.file.about_code)

    def _all(self) -> tuple[KeptFailure, ...]:
        return tuple(
            KeptFailure(path, file)
            for path, file in self.read(lambda path: None if is_spark_file(path) else read_replay(path))
            if (file.pipeline, file.versions, file.protocol, file.feed) == self._of
        )

    def read(self, reader: Callable[[Path], T | None]) -> Iterator[tuple[Path, T]]:
        """Read all files, in order of their names, without those that cannot be read: see `unreadable`.

        Args:
            reader: reads one; ``None``: it is about something else.
        """
        for path in sorted(self.folder.glob("*.json")):
            if path.name.startswith("."):
                continue
            try:
                file = reader(path)
            except HistoryFormatError as error:
                self._unreadable[path] = error
            else:
                if file is not None:
                    yield path, file

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
        """Keep what `headrace_properties.search.replay_file.to_replay` made of a failure, and return the file's path.

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


def retry(
    application: Application, kept: Sequence[KeptFailure], protocol: Protocol, jobs: Jobs = 1
) -> tuple[Retried, ...]:
    """Run kept failures again.

    Args:
        application: what is under test.
        kept: the failures.
        protocol: the state machines to host.
        jobs: processes that share the runs.
    """
    wrong = [
        implausible(failure.file.plan, application.feed(failure.file.feed_seed), failure.file.kept)
        for failure in kept
    ]
    fit = [failure for failure, why in zip(kept, wrong, strict=True) if not why]
    changes = [failure.file.changes(application) for failure in fit]
    with runner(application, protocol, useful_jobs(jobs, len(fit))) as run:
        judged = list(run([failure.file.trial for failure in fit]))
    done = map(Retried, fit, judged, changes)
    return tuple(
        Retried(failure, None, wrong=why) if why else next(done)
        for failure, why in zip(kept, wrong, strict=True)
    )


def found_again(retried: Sequence[Retried]) -> Verification | None:
    """Return the runs' verification if one of them failed; the first one is the failure."""
    runs = [(retry.kept.file, retry.judged) for retry in retried if retry.judged is not None]
    seeds = tuple(dict.fromkeys(file.feed_seed for file, _ in runs))
    found = Verification(feed_seeds=seeds, feeds_asked=len(seeds))
    for file, judged in runs:
        found.take(file.trial, judged)
    return None if found.failure is None else found


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
