"""From the paper to the invariants: each rule of the protocol with the mutants that break it and the invariants that catch them.

Rules of this file:

* Nothing is listed by hand. What a rule carries out is its docstring; who breaks it is what the catalogue says.
* Every rule has a mutant, or a reason in `COST_ONLY` why none can be caught.
* Every departure from the paper is marked ``Deviation:`` in the docstring of the rule, function or module that departs.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import headrace
from headrace.rules import Rules
from headrace_properties.proof.mutants import CATALOGUE
from headrace_properties.proof.mutants.mutant import RULE_NAMES, Mutant

COST_ONLY = {
    "is_straggler": "no invariant: waiting longer delays senders, waiting less writes more checkpoints (REPORT.md, 6.1.3)",
    "weight": "no invariant: it decides which worker does the work (REPORT.md, 8.4)",
    "is_overloaded": "no invariant: any worker may own any interval (REPORT.md, 8.4)",
    "is_relief": "no invariant: a needless move costs a scan",
    "is_idle": "no invariant: a needless merge costs a scan",
}
"""Rules that decide what a run costs and not what it results in, each with the reason: no invariant can notice a mutant of it."""

_SECTIONS = re.compile(r"\((\d(?:\.\d)*(?:, \d(?:\.\d)*)*)\)")
_LITERAL = re.compile(r"``(.+?)``")
_DEVIATION = re.compile(r"Deviation: (.+?)(?=\n\n|\n\* |\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule, and how it is tested.

    Attributes:
        name: of the rule.
        line: of `headrace.rules`, where its definition begins.
        sections: of the paper, that its docstring names, in that order.
        sentence: what it carries out, in the paper's verbs; Markdown.
        mutants: that break it, in the order of the catalogue.
    """

    name: str
    line: int
    sections: tuple[str, ...]
    sentence: str
    mutants: tuple[Mutant, ...]

    @property
    def invariants(self) -> tuple[str, ...]:
        """The oracles that catch a mutant of it."""
        return tuple(dict.fromkeys(name for mutant in self.mutants for name in mutant.breaks))


def rule_rows() -> list[RuleRow]:
    """All rules, in the order of the first section that each names."""
    rows = [_row(name) for name in RULE_NAMES]
    return sorted(rows, key=lambda row: [int(part) for part in row.sections[0].split(".")])


def _row(name: str) -> RuleRow:
    rule = getattr(Rules, name)
    text = _said(rule)
    named = [section for found in _SECTIONS.findall(text) for section in found.split(", ")]
    mutants = tuple(mutant for mutant in CATALOGUE.values() if name in mutant.rules)
    return RuleRow(name, inspect.getsourcelines(rule)[1], tuple(dict.fromkeys(named)), text, mutants)


def _said(rule: object) -> str:
    """A rule's docstring on one line, without its arguments."""
    text = inspect.getdoc(rule) or ""
    return " ".join(_LITERAL.sub(r"`\1`", text.partition("\n\nArgs:")[0]).split())


@dataclass(frozen=True, slots=True)
class Departure:
    """A departure from the paper, as the engine's code marks it.

    Attributes:
        path: of the file, from the root of the repository.
        line: where the definition begins whose docstring marks it; 1: the file's.
        name: of the rule, function or class; of the file, if it departs as a whole.
        sections: of the paper, that the text names.
        text: what is done instead, and why; Markdown.
    """

    path: str
    line: int
    name: str
    sections: tuple[str, ...]
    text: str


ENGINE = Path(inspect.getfile(headrace)).parent
"""Where the engine's files are."""


def departures(root: Path = ENGINE) -> list[Departure]:
    """All departures from the paper that the code marks, in the order of the first section that each names.

    Args:
        root: the folder of the code; paths begin two folders above it.

    Raises:
        ValueError: one names no section of the paper.
    """
    found = [
        departure
        for path in sorted(root.rglob("*.py"))
        for departure in _departures_in(path, root.parents[1])
    ]
    return sorted(found, key=lambda one: [int(part) for part in one.sections[0].split(".")])


def _departures_in(path: Path, root: Path) -> Iterator[Departure]:
    text = path.read_text(encoding="utf-8")
    if "Deviation:" not in text:
        return
    here = path.relative_to(root).as_posix()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        line, name = (1, path.stem) if isinstance(node, ast.Module) else (node.lineno, node.name)
        for said in _DEVIATION.findall(ast.get_docstring(node) or ""):
            sections = tuple(
                dict.fromkeys(section for listed in _SECTIONS.findall(said) for section in listed.split(", "))
            )
            if not sections:
                raise ValueError(
                    f"{here}:{line}: a deviation must name the section of the paper it departs from"
                )
            reason = " ".join(_LITERAL.sub(r"`\1`", said).split())
            yield Departure(here, line, name, sections, reason[0].upper() + reason[1:])
