"""docs/mutants.md keeps in step with the catalogue, and docs/tutorial/harness.md with the invariants."""

import re
from pathlib import Path

from headrace_properties.checkers.catalogue import rules
from headrace_properties.mutants import CATALOGUE

DOCUMENT = Path(__file__).parents[3] / "docs" / "mutants.md"


def tables() -> dict[str, list[list[str]]]:
    """The rows of each section's table, without its head."""
    found: dict[str, list[list[str]]] = {}
    for section in re.split(r"^## ", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        lines = [line for line in text.splitlines() if line.startswith("|")]
        found[title] = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return found


def test_its_catalogue_is_the_catalogue() -> None:
    rows = [
        [
            one.name,
            one.section,
            ", ".join(one.breaks),
            one.wrong,
            ("a directed scenario on " if one.directed else "") + one.workload,
        ]
        for one in CATALOGUE.values()
    ]
    assert tables()["The catalogue"] == rows


def test_each_sentence_of_the_paper_is_broken_by_mutants_that_there_are() -> None:
    promises = tables()["What the paper promises"]
    assert len(promises) >= 20
    for section, sentence, broken_by in promises:
        assert section.startswith(("6.", "7."))
        assert sentence
        assert set(broken_by.split("; ")) <= set(CATALOGUE), sentence


def test_every_invariant_is_in_the_guide() -> None:
    text = DOCUMENT.parent.joinpath("tutorial", "harness.md").read_text(encoding="utf-8")
    for one in rules().values():
        assert f"| {one.name} | {one.section} | {one.title} |\n" in text
