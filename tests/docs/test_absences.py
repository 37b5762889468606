"""What the documents say that Headrace does not do: each claim is listed, and read for each release."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.readme_blocks import ROOT

LIST = tomllib.loads((ROOT / "tests" / "docs" / "absences.toml").read_text(encoding="utf-8"))
PAGES = tuple(LIST["pages"])
ABSENCE = re.compile(
    r"\b(?:Headrace|[Ii]t) (?:(?:does|can|is) ?not|proves nothing)\b|\b(?:is|are) refused\b|\bsimulated only\b|\bis not tried\b"
)
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def claims(text: str) -> list[str]:
    """Return the sentences of a page that say what is absent, of Headrace or of one of its parts."""
    plain = CODE.sub("", text)
    blocks = re.split(r"\n\n|\n(?=[-*|#] ?)", plain)
    sentences = [one for block in blocks for one in re.split(r"(?<=[.:])\s+", " ".join(block.split()))]
    return [one for one in sentences if ABSENCE.search(one)]


@pytest.mark.parametrize("page", PAGES)
def test_each_claim_of_absence_is_listed_with_what_would_make_it_false(page: str) -> None:
    listed = {row["claim"] for row in LIST["claim"] if row["page"] == page}
    made = claims((ROOT / page).read_text(encoding="utf-8"))
    assert {each for each in made if not any(part in each for part in listed)} == set(), "not listed"
    assert {part for part in listed if not any(part in each for each in made)} == set(), (
        "no page says so any more"
    )


def test_each_row_says_what_would_make_its_claim_false() -> None:
    for row in LIST["claim"]:
        assert row.keys() == {"page", "claim", "false_when"}
        assert row["page"] in PAGES
        assert len(row["false_when"].split()) > 2
    assert len({(row["page"], row["claim"]) for row in LIST["claim"]}) == len(LIST["claim"])


def test_claims_were_read_for_this_release() -> None:
    assert LIST["read_for"] == version("headrace"), "read them all, then say so in absences.toml"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It does not run Flink.", ["It does not run Flink."]),
        ("- It is not read.\n- It writes.", ["- It is not read."]),
        ("A job runs; in\nKafka it cannot: see below.", ["A job runs; in Kafka it cannot:"]),
        ("```console\n$ it does not\n```", []),
        ("A job cannot.", []),
    ],
)
def test_sentences_that_say_what_is_absent_are_seen(text: str, found: list[str]) -> None:
    assert claims(text) == found


def test_the_pages_exist() -> None:
    assert all((Path(ROOT) / page).exists() for page in PAGES)
