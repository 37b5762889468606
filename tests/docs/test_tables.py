"""The tables of docs are those of the rules and the mutants, and every rule has a mutant that breaks it."""

import re
from pathlib import Path

import pytest

from docs.scripts import tables
from docs.scripts.rule_table import COST_ONLY, ENGINE, RuleRow, departures, rule_rows
from headrace.rules import Rules
from headrace_properties.proof.mutants import CATALOGUE
from tests.readme_blocks import DOCS, ROOT

ROWS = rule_rows()


@pytest.mark.parametrize("page", tables.TABLES)
def test_a_page_has_the_current_tables(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == tables.pasted(page), "python -m docs.scripts.tables"


def test_a_page_without_a_place_for_its_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TABLES", {"index.md": {"rules": tables.rules_table}})
    with pytest.raises(ValueError, match=r"docs/index\.md has no place for its table"):
        tables.pasted("index.md")


def test_every_rule_has_its_row() -> None:
    public = {name for name in vars(Rules) if not name.startswith("_")}
    assert {row.name for row in ROWS} == public
    assert len(ROWS) == len(public)


def test_the_rows_are_in_the_order_of_the_papers_sections() -> None:
    first = [tuple(map(int, row.sections[0].split("."))) for row in ROWS]
    assert first == sorted(first)


def test_a_row_names_the_line_on_which_its_rule_is_defined() -> None:
    lines = (ROOT / "core" / "headrace" / "rules.py").read_text(encoding="utf-8").splitlines()
    for row in ROWS:
        assert lines[row.line - 1].startswith(f"    def {row.name}("), row.name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_rule_is_broken_by_a_mutant_or_has_a_reason_why_none_is_caught(row: RuleRow) -> None:
    assert bool(row.mutants) != (row.name in COST_ONLY)


def test_few_rules_decide_costs_only() -> None:
    assert set(COST_ONLY) <= {row.name for row in ROWS}
    assert len(COST_ONLY) <= 6


def test_every_mutant_of_rules_is_in_the_row_of_each_rule_that_it_overrides() -> None:
    for mutant in CATALOGUE.values():
        assert {row.name for row in ROWS if mutant in row.mutants} == set(mutant.rules)


@pytest.mark.parametrize(
    "words",
    [
        "invalidate any extant sequencers",
        "coalesced into a single checkpoint",
        "CPU load or memory pressure",
        "a scan can often be asynchronous",
    ],
)
def test_a_reader_finds_a_sentence_by_the_papers_own_words(words: str) -> None:
    (row,) = [row for row in ROWS if words in row.sentence]
    assert re.search(rf"\| {re.escape(row.sentence)} \| \[`{row.name}`\]", (DOCS / "protocol.md").read_text())


def test_every_marked_departure_is_in_the_table() -> None:
    marks = sum(
        len(re.findall(r"Deviation: ", path.read_text(encoding="utf-8"))) for path in ENGINE.rglob("*.py")
    )
    assert marks == len(departures()) > 0


def test_a_departure_is_listed_with_its_sections_and_its_place(tmp_path: Path) -> None:
    module = tmp_path / "core" / "engine" / "acks.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        '"""Acks.\n\n* Deviation: none is sent (6.1.1, 6.2), because\n  ``nobody`` listens.\n* More.\n"""\n\n\n'
        'def ack():\n    """ACK.\n\n    Deviation: twice (4.5).\n\n    Args:\n        none.\n    """\n',
        encoding="utf-8",
    )
    first, second = departures(module.parent)
    assert (first.path, first.line, first.name, first.sections) == ("core/engine/acks.py", 9, "ack", ("4.5",))
    assert first.text == "Twice (4.5)."
    assert (second.line, second.name, second.sections) == (1, "acks", ("6.1.1", "6.2"))
    assert second.text == "None is sent (6.1.1, 6.2), because `nobody` listens."


def test_a_departure_must_say_from_which_section(tmp_path: Path) -> None:
    module = tmp_path / "core" / "engine" / "acks.py"
    module.parent.mkdir(parents=True)
    module.write_text('"""Deviation: none is sent."""\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"core/engine/acks\.py:1: a deviation must name the section"):
        departures(module.parent)
