"""What nobody has stated of a target, and what could be promised, for people and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from headrace_cli.terminal.render import print_lines, print_sentences
from headrace_properties.promises import Promise
from headrace_properties.promises.guesses import Proposal

UNDISTURBED = "Compared with a run without failures. No promise says whether that run is right"
HINT = ": --verbose proposes promises"


def print_proposals(console: Console, unsaid: str, proposals: Sequence[Proposal], where: str) -> None:
    """Print what nobody has said, and promises as code to paste. ``where``: the module that may make them."""
    print_sentences(console, unsaid)
    if not proposals:
        sentence = (
            "No promise is guessed from what it leaves. Write your own: how-to/promises in the documentation"
        )
        print_sentences(console, sentence)
        return
    names = sorted({proposal.code.partition("(")[0] for proposal in proposals})
    print_lines(console, f"What could be promised, in {where}:")
    print_lines(console, f"  from headrace_properties.promises import {', '.join(names)}")
    print_lines(console, "  promises = [")
    for proposal in proposals:
        sentence = f"broken by this run: {proposal.broken}" if proposal.broken else "kept by this run"
        print_lines(console, f"      {proposal.code},  # {sentence}")
    print_lines(console, "  ]")


def stated_document(promises: Sequence[Promise], proposals: Sequence[Proposal]) -> dict[str, Any]:
    """Return whether nobody has said what is right, and what could be promised."""
    return {"nobody_said": not promises, "proposals": [asdict(proposal) for proposal in proposals]}
