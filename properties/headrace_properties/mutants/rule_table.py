"""From the paper to the invariants: each rule of the protocol with the mutants that break it and the invariants that catch them.

Rules of this file:

* Nothing is listed by hand. What a rule carries out is its docstring; who breaks it is what the catalogue says.
* Every rule has a mutant, or a reason in `COST_ONLY` why none can be caught.
"""

import inspect
import re
from dataclasses import dataclass

from headrace.rules import Rules
from headrace_properties.mutants import CATALOGUE
from headrace_properties.mutants.mutant import RULE_NAMES, Mutant

COST_ONLY = {
    "is_straggler": "no invariant: waiting longer delays senders, waiting less writes more checkpoints (REPORT.md, 6.1.3)",
    "weight": "no invariant: it decides which worker does the work (REPORT.md, 8.4)",
    "is_overloaded": "no invariant: any worker may own any interval (REPORT.md, 8.4)",
    "is_relief": "no invariant: a needless move costs a scan",
    "is_idle": "no invariant: a needless merge costs a scan",
    "eviction_order": "no invariant: a row that has left is read again (REPORT.md, Figure 16)",
}
"""Rules that decide what a run costs and not what it results in, each with the reason: no invariant can notice a mutant of it."""

_SECTIONS = re.compile(r"\((\d(?:\.\d)*(?:, \d(?:\.\d)*)*)\)")
_LITERAL = re.compile(r"``(.+?)``")


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
