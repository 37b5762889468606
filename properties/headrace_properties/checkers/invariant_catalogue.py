"""The invariants by name, for readers: what each says, and where the paper says it."""

import inspect
from dataclasses import dataclass
from functools import cache

from headrace import Computation, Pipeline, Productions
from headrace_properties.checkers import all_checkers
from headrace_properties.checkers.checker import Checker
from headrace_properties.checkers.writes import WeakRerunsAgree


@dataclass(frozen=True, slots=True)
class Rule:
    """An invariant, described.

    Attributes:
        name: short, such as ``S6``.
        title: what holds, in a line.
        section: of the MillWheel paper.
        meaning: exactly what it forbids.
    """

    name: str
    title: str
    section: str
    meaning: str = ""


@cache
def rules() -> dict[str, Rule]:
    """Return all of them. Checkers need a pipeline; this one has every feature that a checker asks for."""
    pipeline = Pipeline("any")
    pipeline.injector("in", skew_limit_us=1)
    pipeline.add(Computation(), name="strong", inputs=["in"], outputs=["between"])
    pipeline.add(
        Computation(), name="weak", inputs=["between"], productions=Productions.WEAK, watermark_percentile=99
    )
    return {
        checker.name: Rule(checker.name, checker.title, checker.section, _meaning(checker))
        for checker in all_checkers([pipeline])
    }


def _meaning(checker: Checker) -> str:
    """Return the checker's docstring without its leading name."""
    return inspect.cleandoc(type(checker).__doc__ or "").removeprefix(f"{checker.name}: ")


def is_invariant(name: str) -> bool:
    """Return whether a name is an invariant's, not that of a promise or a finding about user code."""
    return name in rules()


def is_about_code(name: str) -> bool:
    """Return whether a verdict is about user code under weak productions, and not about the protocol."""
    return name == WeakRerunsAgree.name


def rule(name: str) -> Rule:
    """Return one of them; for an unknown name, an entry without text."""
    return rules().get(name, Rule(name, "an invariant", "?"))
