"""The journal of a long search: the outcome of each run, in a file from which the same search can resume.

The order of a search's runs depends only on their outcomes. So a repeated search takes outcomes from the journal until it
ends. If the source of the user's code or of the engine has changed, the journal is refused.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

import headrace
import headrace_properties
import headrace_sim
from headrace import HeadraceError
from headrace.api.json_text import read_json
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.coverage import Spot
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.origins import code_digest
from headrace_properties.search.parallel import RunTrials
from headrace_properties.search.user_lines import modules_of
from headrace_properties.verdict import Holds, Unknown, Verdict


class JournalError(HeadraceError):
    """A search cannot resume from a file. Fields: path, why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        """Say why, and what to do."""
        return f"cannot resume from {self.path}: {self.why}. Name another file to begin anew"


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """A run in which nothing was broken, without its behaviour."""

    held: dict[str, int]
    unknown: dict[str, tuple[str, bool]]
    cases: dict[str, int]
    covered: list[tuple[str, str, str, int]]
    strikes: dict[str, int]
    dropped: dict[str, int]
    events: int
    digest: str
    further: int | None

    @classmethod
    def of(cls, run: JudgedRun) -> "_Entry":
        verdicts = run.verdicts.items()
        return cls(
            {name: verdict.reached for name, verdict in verdicts if isinstance(verdict, Holds)},
            {name: (verdict.why, verdict.cut_short) for name, verdict in verdicts if isinstance(verdict, Unknown)},
            dict(run.cases), [(*spot, times) for spot, times in run.covered.items()], dict(run.strikes), dict(run.dropped),
            run.events, run.digest, run.further,
        )  # fmt: skip

    def run(self) -> JudgedRun:
        held: dict[str, Verdict] = {name: Holds(reached) for name, reached in self.held.items()}
        unknown: dict[str, Verdict] = {
            name: Unknown(why, cut_short) for name, (why, cut_short) in self.unknown.items()
        }
        spots = Counter({Spot(role, step, fault): times for role, step, fault, times in self.covered})
        return JudgedRun(
            held | unknown, self.cases, spots, Counter(self.strikes), self.events, self.digest,
            dropped=Counter(self.dropped), further=self.further,
        )  # fmt: skip


class RunJournal:
    """Takes runs from a file as long as it has them, and appends new ones.

    Args:
        path: of the file; a new one is begun.
        search: what the search is, in words that differ for different searches.
        application: what is searched.

    Raises:
        JournalError: the file is no journal, or that of another search.
    """

    def __init__(self, path: Path, search: str, application: Application) -> None:
        self._path = path
        header = [search, _code_of(application)]
        self._entries: list[_Entry] = []
        if path.exists() and path.stat().st_size:
            self._read(header)
        else:
            path.write_bytes(msgspec.json.encode(header) + b"\n")

    def _read(self, header: list[str]) -> None:
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        try:
            first, *lines = whole.splitlines()
            known = read_json(first, msgspec.json.Decoder(list[str]).decode)
            self._entries = [read_json(line, msgspec.json.Decoder(_Entry).decode) for line in lines]
        except ValueError as error:  # or no first line
            raise JournalError(self._path, f"it is no journal of a search ({error})") from error
        if known != header:
            search = f"it has {known[0]}, and this is {header[0]}"
            raise JournalError(self._path, _CHANGED if known[:1] == header[:1] else search)
        if len(whole) < len(data):  # the last line was being written when the search was stopped
            with self._path.open("r+b") as file:
                file.truncate(len(whole))

    def through(self, run: RunTrials) -> RunTrials:
        """Return a runner that takes runs from the journal first. ``run``: makes the others."""
        done, taken = self._entries, 0

        def make(trials: Sequence[PipelineTrial]) -> Iterator[JudgedRun]:
            nonlocal taken
            known = done[taken : taken + len(trials)]
            if known and not taken:
                self._compare(next(iter(run(trials[:1]))), known[0])
            taken += len(known)
            yield from (entry.run() for entry in known)
            if len(known) == len(trials):
                return
            with self._path.open("ab") as file:
                for judged in run(trials[len(known) :]):
                    if not judged.failed:
                        file.write(msgspec.json.encode(_Entry.of(judged)) + b"\n")
                        file.flush()
                    yield judged

        return make

    def _compare(self, run: JudgedRun, known: _Entry) -> None:
        if run.digest != known.digest:
            raise JournalError(
                self._path, "the pipeline, its input or the engine has changed since it was written"
            )


_CHANGED = "the pipeline, its input or the engine has changed since it was written"


def _code_of(application: Application) -> str:
    """Return a digest of all source that a run depends on."""
    digest = hashlib.sha256(code_digest(modules_of(application)).encode())
    for package in (headrace, headrace_sim, headrace_properties):
        for folder in package.__path__:
            for file in sorted(Path(folder).rglob("*.py")):
                digest.update(file.read_bytes())
    return digest.hexdigest()
