"""docs/tutorial/harness.md keeps in step with the invariants; docs/mutants.md is generated (tests/docs/test_tables.py)."""

from pathlib import Path

from headrace_properties.checkers.invariant_catalogue import rules

GUIDE = Path(__file__).parents[4] / "docs" / "tutorial" / "harness.md"


def test_every_invariant_is_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for rule in rules().values():
        assert f"| {rule.name} | {rule.section} | {rule.title} |\n" in text
