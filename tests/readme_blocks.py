"""The blocks of the README and of the pages in docs, and what they claim: commands with what they print, code, and pictures.

A ``console`` block has commands behind ``$``, each followed by what it prints. There, ``...`` stands for anything: a line of just
that for any number of lines, at the end of a line for the rest of it. ``# exit code N`` behind a command says how it
ends; without, with 0.
On a page with commands, a ``python`` block begins with ``# NAME.py`` and is that file. What a command saves with
``--svg NAME`` is the picture ``docs/img/NAME``.

``python -m tests.readme_blocks`` pastes what the commands print today into the README, or into the pages that are named, and
saves their pictures; ``git diff`` then shows what has changed.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests import forked

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
IMAGES = DOCS / "img"

NOT_RUN = {
    "make demo": "makes a virtual environment and takes minutes; CI's fresh clone and the commands below cover what it runs",
    "make test": "would run this test again, within itself",
}
"""The only commands of all pages that are not run, with the reason."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\w+\.py)\b")
_EXIT_CODE = re.compile(r"  # exit code (\d+)$")
_NUMBER = re.compile(r"\d[\d,.]*")
_DIGEST = re.compile(r"\b[0-9a-f]{16}\b")
_SVG = re.compile(r"--svg (\S+)")
_COUNT = re.compile(r"^ +[\d,]+ +")
_PLAIN = re.compile(r"headrace (?!.*--on |chaos)[^|&;<>$*?~`]+")
"""A command that needs no shell, and does not start Spark."""
_REST = "..."


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the README: as written, with what it is said to print and how to end."""

    line: str
    output: tuple[str, ...]

    @property
    def shell(self) -> str:
        """What the reader types."""
        return _EXIT_CODE.sub("", self.line)

    @property
    def exit_code(self) -> int:
        """How it is said to end."""
        found = _EXIT_CODE.search(self.line)
        return int(found[1]) if found else 0

    @property
    def pictures(self) -> list[str]:
        """The names of the pictures that it draws."""
        return _SVG.findall(self.line)


def pages() -> list[Path]:
    """The README and every page of docs that has commands."""
    return [README, *(page for page in sorted(DOCS.rglob("*.md")) if "console" in kinds(page.read_text()))]


def commands(text: str) -> list[Command]:
    """All commands, in order."""
    found = []
    for kind, body in _BLOCK.findall(text):
        if kind == "console":
            _, *parts = re.split(r"^\$ ", body, flags=re.MULTILINE)
            for part in parts:
                line, *output = part.rstrip("\n").split("\n")
                found.append(Command(line, tuple(output)))
    return found


def commands_of(page: Path) -> list[Command]:
    """Those of a page that are run, in order."""
    return [command for command in commands(page.read_text()) if command.shell not in NOT_RUN]


def files(text: str) -> dict[str, str]:
    """All Python blocks, by the name of the file that they are."""
    found = {}
    for kind, body in _BLOCK.findall(text):
        if kind == "python":
            name = _FILE.match(body)
            assert name is not None, f"a Python block begins with its file's name: {body[:40]!r}"
            found[name[1]] = body
    return found


def kinds(text: str) -> set[str]:
    """The languages of all blocks."""
    return {kind for kind, _ in _BLOCK.findall(text)}


def run(shell: str, folder: Path, *, forks: bool = True) -> subprocess.CompletedProcess[str] | forked.Ended:
    """Run a command there as the reader would, with the `headrace` and `pytest` of this environment.

    Args:
        shell: the command.
        folder: its current directory.
        forks: whether ``headrace`` may be forked off a process that has imported it; not where this module is the main one, which
            the fork would import again.
    """
    binaries = Path(sys.executable).parent
    if not (
        binaries / "headrace"
    ).exists():  # not installed, as in a linked checkout: stand in for the script
        binaries = folder / "bin"
        _stand_in(binaries)
    search_path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path if folder)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "FORCE_COLOR"},
        "PATH": os.pathsep.join([str(binaries), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": search_path,
    }
    if forks and _PLAIN.fullmatch(shell):
        return forked.headrace(shlex.split(shell)[1:], cwd=folder, env=environment)
    return subprocess.run(
        ["/bin/sh", "-c", shell], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def _stand_in(binaries: Path) -> None:
    binaries.mkdir(exist_ok=True)
    script = binaries / "headrace"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace_cli "$@"\n')
    script.chmod(0o755)


def without_numbers(line: str) -> str:
    """A line with its numbers and blanks made equal."""
    return re.sub(r"\s+", " ", _NUMBER.sub("N", _DIGEST.sub("DIGEST", line)))


def as_printed(claimed: tuple[str, ...], printed: list[str]) -> list[str]:
    """Find the claimed lines in what was printed, in order, but for numbers; return them as they were printed.

    Raises:
        LookupError: some are not there, or not in their place.
    """
    found: list[str] = []
    at = 0
    parts = _parts(claimed)
    for number, part in enumerate(parts):
        if number:
            found.append(_REST)
        places = range(at, len(printed) - len(part) + 1)
        if number == 0:
            places = places[:1]
        if number == len(parts) - 1 and part:
            places = places[-1:]
        at = _place(part, printed, places)
        found += [_keep(wanted, line) for wanted, line in zip(part, printed[at:], strict=False)]
        at += len(part)
    if at < len(printed) and claimed[-1:] != (_REST,):
        raise LookupError(f"this is printed after the last line: {printed[at]!r}")
    return found


def not_printed(claimed: tuple[str, ...], printed: list[str]) -> list[str]:
    """The claimed lines that are nowhere in what was printed, but for numbers. What is counted may be named without a number."""
    text = " ".join(" ".join(printed).split())

    def is_there(line: str) -> bool:
        return any(_matches(line, shown) for shown in printed) or _COUNT.sub("", line) in text

    return [line for line in claimed if line != _REST and not is_there(line)]


def _parts(claimed: tuple[str, ...]) -> list[list[str]]:
    """The lines between those that stand for any number of lines."""
    parts: list[list[str]] = [[]]
    for line in claimed:
        if line == _REST:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _place(part: list[str], printed: list[str], places: range) -> int:
    """The first of these places where all lines of a part are printed, one after the other."""
    for place in places:
        if all(_matches(wanted, line) for wanted, line in zip(part, printed[place:], strict=False)):
            return place
    raise LookupError("this is not printed, or not here:\n" + "\n".join(part))


def _keep(claimed: str, printed: str) -> str:
    return claimed if claimed.endswith(_REST) else printed


def _matches(claimed: str, printed: str) -> bool:
    if claimed.endswith(_REST):
        return without_numbers(printed).startswith(without_numbers(claimed.removesuffix(_REST)))
    return without_numbers(claimed) == without_numbers(printed)


def paste(page: Path) -> None:
    """Run every command of a page, and put what it prints into the page where the page says that."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, source in files(text).items():
            (folder / file).write_text(source)
        for command in commands_of(page):
            print(f"$ {command.line}")  # noqa: T201  it takes a while
            printed = run(command.shell, folder, forks=False).stdout.splitlines()
            if not command.output:
                continue
            for picture in command.pictures:
                shutil.copy(folder / picture, IMAGES / picture)
            claimed = "\n".join(["$ " + command.line, *command.output])
            actual = "\n".join(["$ " + command.line, *as_printed(command.output, printed)])
            assert text.count(claimed) == 1, f"this is there twice:\n{claimed}"
            text = text.replace(claimed, actual)
    page.write_text(text)


if __name__ == "__main__":
    for one in sys.argv[1:] or [str(README)]:
        paste(Path(one))
