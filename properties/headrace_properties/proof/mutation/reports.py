"""Reports of automatic mutants, to judge those again that survived."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from headrace import HeadraceError
from headrace.api.json_text import JsonError, read_json
from headrace_properties.proof.mutation.equivalents import Key, key_of, reason_of
from headrace_properties.proof.mutation.sampling import AutomaticMutant


class ReportError(HeadraceError):
    """A report of automatic mutants cannot be read. Fields: path, problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem

    def __str__(self) -> str:
        """Say what makes one."""
        return (
            f"cannot read {self.path}: {self.problem}. Give what headrace mutants --automatic --json printed"
        )


class _Judged(msgspec.Struct):
    module: str
    function: str
    text: str
    before: str
    after: str
    killed: bool


class _Report(msgspec.Struct):
    mutants: list[_Judged]


def survivors_of(
    path: Path, mutants: Sequence[AutomaticMutant], notes: Mapping[Key, str]
) -> list[AutomaticMutant]:
    """Return the mutants that survived according to a report, and that nobody has noted as equivalent since.

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
    return [mutant for mutant in mutants if (key := key_of(mutant)) in alive and not reason_of(notes, key)]
