"""Planted bugs and their fixed twins, verified as a user would: each by a separate command."""

import importlib
import os
import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tests import forked

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

BUGS = tuple(sorted(file.stem for file in HERE.glob("*.py") if "\nCAUSE = " in file.read_text()))
"""Modules with a planted bug.

Each has ``pipeline`` with the bug, ``mended`` without it, ``feed``, perhaps ``promises``, and ``CAUSE``: words that the first
sentences of the explanation must have. ``ASKED``: it may be meant, so that its author is asked, and nothing is violated.
"""

HANGS_S = 300
"""Time limit of a command with the default number of runs, whatever user code does."""

HANGS_RUN_S = 1
"""Additional time allowed for each requested run."""

SENTENCES = 3
"""The number of sentences that must name the cause."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A pipeline, verified.

    Attributes:
        name: module and pipeline.
        code: exit code of ``headrace verify``.
        cpu_s: CPU time of the command, with all of its processes.
        output: what it printed and, if that does not name the cause, what ``headrace replay --explain`` says of the failure.
    """

    name: str
    code: int
    cpu_s: float
    output: str

    @property
    def cause(self) -> tuple[str, ...]:
        """The words that the explanation must have."""
        return tuple(importlib.import_module(self.name.partition(":")[0]).CAUSE)

    @property
    def is_found(self) -> bool:
        """Whether the bug is violated, or its author is asked where it may be meant."""
        may_be_meant = getattr(importlib.import_module(self.name.partition(":")[0]), "ASKED", False)
        return self.code == (3 if may_be_meant else 1)

    @property
    def explanations(self) -> tuple[tuple[str, ...], ...]:
        """The first sentences of each explanation."""
        return first_sentences(self.output)

    @property
    def explanation(self) -> str:
        """The explanation that names the cause; if none does, all of them."""
        texts = [" ".join(sentences) for sentences in self.explanations]
        return next((text for text in texts if self._is_cause(text)), " | ".join(texts))

    @property
    def is_explained(self) -> bool:
        """Whether the first sentences of an explanation name the cause."""
        return any(self._is_cause(" ".join(sentences)) for sentences in self.explanations)

    def _is_cause(self, text: str) -> bool:
        return all(word in text for word in self.cause)


def verify(bug: str, pipeline: str = "pipeline", *options: str, runs: int = 0) -> Trial:
    """Run ``headrace verify`` on a planted pipeline, and explain what it finds.

    Args:
        bug: the module.
        pipeline: ``pipeline``, or ``mended``.
        options: of the command; default: none but that it may use one core, and knows of no kept failure.
        runs: how many to make; 0: as many as by default.
    """
    examples = ("--examples", str(runs)) if runs else ()
    name = f"tests.planted.{bug}:{pipeline}"
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "failure.json"
        kept = ("--save", str(saved), "--failures", folder)
        found = _headrace(
            "verify", name, "--jobs", "1", *kept, *examples, *options, more_s=runs * HANGS_RUN_S
        )
        trial = Trial(name, found.returncode, found.cpu_s, found.stdout + found.stderr)
        if saved.exists() and not trial.is_explained:
            story = _headrace("replay", str(saved), "--explain").stdout
            trial = replace(trial, output=trial.output + story)
    return trial


def first_sentences(output: str) -> tuple[tuple[str, ...], ...]:
    """Take the first sentences of each explanation out of what was printed."""
    found = re.findall(
        r"^(?:(?:UNDECLARED: )?[a-z][a-z-]+|How .*|The run stopped)\n((?:  .*\n)+)", output, re.MULTILINE
    )
    texts = (" ".join(text.split()) for text in found)
    return tuple(tuple(re.split(r"(?<=[.!?]) (?=[A-Z'\"])", text)[:SENTENCES]) for text in texts)


def _headrace(*arguments: str, more_s: int = 0) -> forked.Ended:
    return forked.headrace(arguments, cwd=ROOT, env=os.environ, timeout_s=HANGS_S + more_s)
