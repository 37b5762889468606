"""The invariants by name, for people: what each says, and where the paper does."""

from functools import cache

from millrace import Computation, Pipeline, Productions
from millrace_properties.checkers import all_checkers


@cache
def titles() -> dict[str, str]:
    """Invariant to what it says, in a line. Checkers come with a pipeline; this one has whatever a checker asks for."""
    pipeline = Pipeline("any")
    pipeline.injector("in")
    pipeline.add(Computation(), name="strong", inputs=["in"], outputs=["between"])
    pipeline.add(Computation(), name="weak", inputs=["between"], productions=Productions.WEAK)
    return {checker.name: checker.title for checker in all_checkers([pipeline])}
