"""The invariants by name, for people: what each says, and where the paper does."""

import inspect
from dataclasses import dataclass
from functools import cache

from headrace import Computation, Pipeline, Productions
from headrace_properties.checkers import all_checkers
from headrace_properties.checkers.finding import Checker


@dataclass(frozen=True, slots=True)
class Rule:
    """An invariant in words.

    Attributes:
        name: short, such as ``S6``.
        title: what holds, in a line.
        section: of the MillWheel paper.
        meaning: what exactly it forbids.
    """

    name: str
    title: str
    section: str
    meaning: str = ""


@cache
def rules() -> dict[str, Rule]:
    """All of them. Checkers come with a pipeline; this one has whatever a checker asks for."""
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
    """The checker's docstring without the name that it begins with."""
    return inspect.cleandoc(type(checker).__doc__ or "").removeprefix(f"{checker.name}: ")


def is_invariant(name: str) -> bool:
    """Tell whether a name is an invariant's, and not that of a promise or a finding about user code."""
    return name in rules()


def rule(name: str) -> Rule:
    """One of them; a rule without words for a name that no checker has."""
    return rules().get(name, Rule(name, "an invariant", "?"))
