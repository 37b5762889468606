"""Mutants that somebody has looked at: found equivalent, with the reason; or survivors in a report, to judge them again.

A note names a mutant by text: module, function, line and change. So it survives when code moves, and is void when the code
changes. A note with ``*`` as its line and its change stands for all mutants of a function, or of a class: code that decides what
a run costs, and not what it results in. A mutant that is noted and killed counts as killed.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace import HeadraceError
from headrace.api.json_text import JsonError, read_json
from headrace_properties.mutation.sampling import CodeMutant

ALL = "*"
"""In the place of a line and a change: whichever."""

_FIELDS = ("module", "function", "line", "change", "reason")


class NotesError(HeadraceError):
    """A file of notes cannot be read. Fields: path, problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem

    def __str__(self) -> str:
        """Say what a note looks like."""
        fields = ", ".join(_FIELDS)
        return f"{self.path}: {self.problem}. Write each note as [[equivalent]] with these strings: {fields}"


@dataclass(frozen=True, slots=True)
class Key:
    """What names a mutant.

    Attributes:
        module: its name.
        function: the function that is changed, with its class.
        line: the text of the line.
        change: what becomes what.
    """

    module: str
    function: str
    line: str
    change: str


def key_of(mutant: CodeMutant) -> Key:
    """Return what names a mutant in a note."""
    return Key(mutant.module.name, mutant.mutation.function, mutant.text, mutant.change)


def load_notes(path: Path) -> Mapping[Key, str]:
    """Read notes: mutant to the reason why it is equivalent.

    Raises:
        NotesError: the file cannot be read, or a note lacks something.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotesError(str(path), f"cannot read it: {error}") from error
    notes = document.get("equivalent", [])
    if set(document) - {"equivalent"} or not isinstance(notes, list):
        raise NotesError(str(path), "it may have nothing but [[equivalent]]")
    reasons: dict[Key, str] = {}
    for number, note in enumerate(notes, 1):
        if not isinstance(note, dict) or set(note) != set(_FIELDS):
            raise NotesError(str(path), f"note {number} has other fields")
        if not all(isinstance(value, str) for value in note.values()) or not note["reason"].strip():
            raise NotesError(str(path), f"note {number} lacks a reason, or has something other than strings")
        reasons[Key(note["module"], note["function"], note["line"], note["change"])] = note["reason"]
    return reasons


def reason_of(notes: Mapping[Key, str], mutant: CodeMutant) -> str:
    """Return why a mutant is equivalent; ``""``: no note says so."""
    key = key_of(mutant)
    return notes.get(key) or next((notes[where] for where in _around(key) if where in notes), "")


def _around(key: Key) -> Iterator[Key]:
    """Give the notes that would stand for all mutants of its function, and of what that is in."""
    parts = key.function.split(".")
    return (Key(key.module, ".".join(parts[:count]), ALL, ALL) for count in range(len(parts), 0, -1))


def void(notes: Iterable[Key], mutants: Iterable[CodeMutant]) -> list[Key]:
    """Return the notes on modules of these mutants that name none of them: the code has changed since.

    Args:
        notes: all notes.
        mutants: every mutant of some modules.
    """
    known = {key_of(mutant) for mutant in mutants}
    modules = {key.module for key in known}
    named = known | {where for key in known for where in _around(key)}
    return [key for key in notes if key.module in modules and key not in named]


class ReportError(HeadraceError):
    """A report of mutants cannot be read. Fields: path, problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem

    def __str__(self) -> str:
        """Say what makes one."""
        return f"cannot read {self.path}: {self.problem}. Give what headrace mutate --json printed"


class _Judged(msgspec.Struct):
    module: str
    function: str
    text: str
    before: str
    after: str
    killed: bool


class _Report(msgspec.Struct):
    mutants: list[_Judged]


def survivors_of(path: Path, mutants: Sequence[CodeMutant], notes: Mapping[Key, str]) -> list[CodeMutant]:
    """Return the mutants that survived according to a report and have not been noted as equivalent since.

    Args:
        path: the report.
        mutants: every mutant of today. What the report names and the code has no more is left out.
        notes: why somebody takes a mutant for equivalent.

    Raises:
        ReportError: the report cannot be read.
    """
    try:
        report = read_json(path.read_bytes(), msgspec.json.Decoder(_Report).decode)
    except (OSError, JsonError) as error:
        raise ReportError(str(path), str(error)) from error
    alive = {
        Key(mutant.module, mutant.function, mutant.text, f"{mutant.before} -> {mutant.after}")
        for mutant in report.mutants
        if not mutant.killed
    }
    return [mutant for mutant in mutants if key_of(mutant) in alive and not reason_of(notes, mutant)]
