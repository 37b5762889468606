"""A broken engine of the user's own: a unified diff of the engine's sources, applied in memory.

Rule of this file: a hunk applies where its lines are, at the line that it names or the nearest to it, or it is an error; nothing
is left out or guessed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace import HeadraceError
from headrace_properties.proof.mutation.sampling import Module

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class PatchError(HeadraceError):
    """A patch cannot be applied. Fields: path, line, problem."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path, self.line, self.problem = path, line, problem

    def __str__(self) -> str:
        """Say where and what to give instead."""
        where = f"{self.path}, line {self.line}" if self.line else self.path
        return (
            f"{where}: {self.problem}. Give a unified diff of the engine's modules (git diff -- core/headrace), or a file of"
            " Python (.py) that defines protocol, a headrace_sim.Protocol"
        )


@dataclass(frozen=True, slots=True)
class PatchedModule:
    """A module with a patch applied.

    Attributes:
        module: the sound one.
        source: its text now.
        lines: the lines of the sound source that change, or between which something is put.
    """

    module: Module
    source: str
    lines: tuple[int, ...]


@dataclass(slots=True)
class _Hunk:
    at: int
    place: int
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    """Numbers of the lines of `old` that change, from 0."""


def apply_patch(path: str, modules: Sequence[Module]) -> list[PatchedModule]:
    """Apply a unified diff.

    Args:
        path: of the diff.
        modules: what it may change.

    Raises:
        PatchError: it cannot be read, changes something else, or does not fit.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PatchError(path, 0, f"cannot read it: {error}") from error
    files = _files(path, text.splitlines())
    if not files:
        raise PatchError(path, 0, "it has no hunk (@@ -1,2 +1,2 @@)")
    return [_applied(path, _module(path, name, hunks, modules), hunks) for name, hunks in files.items()]


def _files(path: str, lines: Sequence[str]) -> Mapping[str, list[_Hunk]]:
    """Return the hunks by the name of their file."""
    found: dict[str, list[_Hunk]] = {}
    name, number = "", 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("+++ ") and number > 1 and lines[number - 2].startswith("--- "):
            name = line[4:].partition("\t")[0].strip()
        elif header := _HUNK.match(line):
            if not name:
                raise PatchError(path, number, "a hunk comes before the name of a file (+++ b/...)")
            hunk = _Hunk(int(header[1]), number)
            left = [int(header[2] or 1), int(header[3] or 1)]
            number = _body(path, lines, number, hunk, left)
            found.setdefault(name, []).append(hunk)
    return found


def _body(path: str, lines: Sequence[str], number: int, hunk: _Hunk, left: list[int]) -> int:
    while left != [0, 0]:
        if number >= len(lines) or (lines[number][:1] or " ") not in " +-\\" or min(left) < 0:
            raise PatchError(path, number + 1, "the hunk is not as long as its first line says")
        sign, text = lines[number][:1] or " ", lines[number][1:]
        number += 1
        if sign in " -":
            left[0] -= 1
            hunk.old.append(text)
        if sign in " +":
            left[1] -= 1
            hunk.new.append(text)
        if sign in "+-":
            hunk.changed.append(max(len(hunk.old) - 1, 0))
    return number


def _module(path: str, name: str, hunks: Sequence[_Hunk], modules: Sequence[Module]) -> Module:
    wanted = name.partition("/")[2] if name.startswith(("a/", "b/")) else name
    for module in modules:
        if Path(module.file).match(wanted) or wanted.endswith("/".join(_tail(module))):
            return module
    raise PatchError(path, hunks[0].place, f"{name} is no module of the engine")


def _tail(module: Module) -> Iterator[str]:
    parts = module.name.split(".")
    yield from parts[:-1]
    file = Path(module.file)
    yield from (parts[-1], file.name) if file.name == "__init__.py" else (file.name,)


def _applied(path: str, module: Module, hunks: Sequence[_Hunk]) -> PatchedModule:
    old, new, done = module.source.splitlines(), list[str](), 0
    changed: list[int] = []
    for hunk in hunks:
        wanted = hunk.at - 1 if hunk.old else hunk.at
        places = [at for at in range(done, len(old) + 1) if old[at : at + len(hunk.old)] == hunk.old]
        if not places:
            raise PatchError(path, hunk.place, f"the hunk does not fit into {module.file}")
        at = min(places, key=lambda place: abs(place - wanted))
        new += old[done:at] + hunk.new
        done = at + len(hunk.old)
        changed += [at + line + 1 for line in hunk.changed]
    source = "\n".join([*new, *old[done:]]) + "\n"
    try:
        compile(source, module.file, "exec")
    except SyntaxError as error:
        raise PatchError(path, hunks[0].place, f"{module.file} is no Python with it: {error}") from error
    return PatchedModule(module, source, tuple(dict.fromkeys(changed)))
