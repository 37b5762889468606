"""The subject of a verdict: the user's promises, the user's code, or the protocol."""

import enum
from collections.abc import Mapping

from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.explain.descriptions import titles
from headrace_properties.verdict import Verdict


class Concern(enum.Enum):
    """The subject of a verdict."""

    PROMISES = "promises"
    CODE = "code"
    PROTOCOL = "protocol"


def concern_of(name: str) -> Concern:
    """Return the subject of a named verdict; a promise may have any name that no invariant has."""
    if is_about_code(name):
        return Concern.CODE
    return Concern.PROTOCOL if name in titles() else Concern.PROMISES


def about(concern: Concern, verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Pick the verdicts of one concern."""
    return {name: verdict for name, verdict in verdicts.items() if concern_of(name) is concern}
