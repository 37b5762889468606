"""Documents of ``--json`` are made from the values that they show."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace_cli.terminal.documents import finding_document, invariants_document, print_document
from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.user_frames import Place
from headrace_properties.verdict import Awaited, AwaitedKind, Holds, Unknown, Verdict, Violated


@dataclass(frozen=True, slots=True)
class _Report:
    path: Path
    counts: Counter[str]
    claim: FindingClass


def test_values_are_their_fields(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_document({"report": _Report(Path("a/b"), Counter("aab"), FindingClass.NOTE)})
    document = json.loads(capfdbinary.readouterr().out)
    assert document == {"report": {"path": "a/b", "counts": {"a": 2, "b": 1}, "claim": "note"}}


def test_what_has_no_form_in_json_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="a document cannot have a generator"):
        print_document({"rows": (row for row in "ab")})


def test_verdicts_say_which_they_are_and_what_is_known_of_them() -> None:
    awaited = Awaited(AwaitedKind.TIMER, "counter", 7, "a", "end")
    verdicts: dict[str, Verdict] = {
        "held": Holds(3),
        "broken": Violated("lost", ()),
        "stuck": Violated("waits", (), awaited),
        "rare": Unknown("no timer"),
        "open": Unknown("the run ended", cut_short=True),
    }
    document = invariants_document(verdicts, {"held": "Each view counts."})
    assert document["held"] == {"title": "Each view counts.", "verdict": "holds", "reached": 3}
    assert document["broken"] == {"title": "", "verdict": "violated", "message": "lost", "witness": ()}
    assert document["stuck"]["awaited"]["kind"] == "timer"
    assert document["rare"] == {"title": "", "verdict": "unknown", "why": "no timer"}
    assert document["open"]["cut_short"] is True


def test_findings_have_their_kinds_name_class_and_title() -> None:
    kind = Kind(Family.OUTCOME, "order", FindingClass.UNDECLARED)
    document = finding_document(Finding(kind, "the last row wins", Place("job.py", 3), "ordered=True"))
    assert (document["kind"], document["class"], document["name"]) == (
        "order", "undeclared", "the same outcome always (order)",
    )  # fmt: skip
    assert document["place"] == {"file": "job.py", "line": 3, "function": ""}
    assert (document["message"], document["remedy"]) == ("the last row wins", "ordered=True")
