"""Failures that are kept and tried first next time: replay files in the project's directory, which CI can share.

Rules of this file:

* A failure stays until a run of it shows that what it violated holds, and is then retired: moved to ``retired``, never deleted.
  If that is undecided, because the property was not exercised or not checked, it stays.
* One with implausible numbers is not run, and stays: a plan from an edited file could run for days.
* A file that cannot be read, such as one that was cut off, is reported, skipped and left as it is.
* An unwritable directory hides no verdict.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace import HistoryFormatError
from headrace_properties.findings import Finding, Kind
from headrace_properties.replays import ERROR, ReplayFile, read_replay
from headrace_properties.search.judging import JudgedRun
from headrace_properties.target import Source
from headrace_properties.verdict import Holds, Verdict, Violated
from headrace_properties.whole_files import write_whole

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
    replay: ReplayFile


@dataclass(frozen=True, slots=True)
class Retried:
    """A kept failure that has been run again.

    Attributes:
        kept: the failure.
        verdicts: what the run says of what was found, and of what it shows now; nothing if that would do harm.
        changes: what it was recorded from and has changed since: ``code``, ``input``.
        wrong: why it cannot be run: somebody has edited the file, or the input has fewer records now.
        judged: the run, if a cluster made one.
        finding: what a Spark job or a sink shows again, or what only the author can say of code.
    """

    kept: KeptFailure
    verdicts: Mapping[Kind, Verdict] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    wrong: str = ""
    judged: JudgedRun | None = None
    finding: Finding | None = None

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
        if self.finding is not None:
            return f"{self.path}: {self.finding.finding_class.value} again: {self.finding.kind.title}"
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
        self.folder = folder / re.sub(r"[:/\\]+", ".", source.name).lstrip(".")
        self._source = source
        self._unreadable: dict[Path, HistoryFormatError] = {}
        self._named: set[Path] = set()

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
            if path not in self._named
        }
        self._named |= lines.keys()
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


def is_fit_for_files(folder: Path) -> bool:
    """Return whether a project may be there: no files are written unasked to a home directory or the root."""
    place = folder.resolve()
    return place not in (Path.home().resolve(), Path(place.anchor))


def free_name(folder: Path, data: bytes, form: str = "headrace-failure-{}.json") -> Path:
    """Name a file by its content: as many digits as it takes to replace no other file.

    Args:
        folder: of the file.
        data: its content.
        form: of its name.
    """
    digest = hashlib.sha256(data).hexdigest()
    names = [folder / form.format(digest[:digits]) for digits in range(_DIGITS, len(digest) + 1)]
    return next((name for name in names if not name.exists() or name.read_bytes() == data), names[-1])
