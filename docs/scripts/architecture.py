"""The picture of the architecture: ``python docs/scripts/architecture.py`` draws docs/img/architecture.svg.

A package imports only packages below it in the picture, and a room (a folder of a package) only rooms in rows below its own: the
rows are those of the import contracts in pyproject.toml.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

PICTURE = Path(__file__).parents[1] / "img" / "architecture.svg"
CONTRACTS = Path(__file__).parents[2] / "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the picture.

    Attributes:
        folder: at the top of the repository.
        name: what one imports.
        about: what it is, in a few words.
        rows: its rooms with what is in them, from the top down.
    """

    folder: str
    name: str
    about: str
    rows: list[list[tuple[str, str]]]


ABOUT = {
    "cli": "the headrace command",
    "benchmarks": "the paper's measurements; what the harness itself costs",
    "scenarios": "stories of the papers, example pipelines",
    "properties": "what must hold, and the search for a run in which it does not",
    "sim": "the simulated cluster: processes, network, store, clocks, faults",
    "core": "the protocol, as state machines without I/O; hosts drive them",
}
"""The packages' folders, from the top down."""

ROOMS = {
    "scenarios": {
        "figures": "the papers'", "zeitgeist": "spikes, dips", "examples": "to read",
        "nexmark": "its queries", "chaos": "Spark, killed",
    },
    "properties": {
        "recheck": "runs recorded runs again by today's code", "proof": "of the house: broken protocols",
        "explorer": "a person chooses what happens",
        "explain": "causes in words and pictures", "mutation": "small mistakes made",
        "user_code": "users' own bugs", "spark_jobs": "Spark's own API",
        "histories": "recorded runs, judged", "search": "draws faults, shrinks", "promises": "what users mean, as code",
        "sinks": "Spark sinks at each of their effects",
        "checkers": "judge a History by the invariants", "reference": "runs a pipeline plainly",
    },
    "core": {
        "spark": "the host on PySpark", "dataflow": "windows, triggers, panes", "injector": "brings records in",
        "ownership": "who owns which keys", "worker": "runs user code, commits, recovers",
        "watermarks": "the authority, minima", "store": "rows, sequencers, journals", "histories": "their files",
        "history": "the events of a run", "delivery": "sending until ACKed", "rules": "every decision of the protocol",
        "wire": "messages, effects, rows", "api": "what users write: computations, pipelines",
    },
}  # fmt: skip
"""What is in the rooms that the picture shows. Where they stand, the contracts in pyproject.toml say."""


def packages() -> list[Package]:
    """Return the packages from the top down, with their rooms as the contracts have them."""
    contracts = tomllib.loads(CONTRACTS.read_text())["tool"]["importlinter"]["contracts"]
    found = []
    for folder, about in ABOUT.items():
        name = "headrace" if folder == "core" else f"headrace_{folder}"
        layers: list[str] = next((c["layers"] for c in contracts if c.get("containers") == [name]), [])
        words = ROOMS.get(folder, {})
        rows = [
            [(room, words[room]) for room in re.findall(r"\w+", layer) if room in words] for layer in layers
        ]
        found.append(Package(folder, name, about, [row for row in rows if row]))
    return found


_WIDTH, _MARGIN, _HEAD, _ROOM, _GAP = 860, 16, 30, 34, 8
_FILLS = {
    "cli": "#eef1f4",
    "benchmarks": "#eef1f4",
    "scenarios": "#eef6ee",
    "properties": "#f1eef8",
    "sim": "#fdf3e4",
    "core": "#e8f0fa",
}


def draw() -> str:
    """Return the picture."""
    parts: list[str] = []
    y = _MARGIN
    for package in packages():
        parts.extend(_package(package, y))
        y += _height(package) + _GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y + _MARGIN}"'
        ' font-family="Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12">'
    )
    title = "<title>The packages of Headrace and their rooms; each imports only what is below it</title>"
    ground = f'<rect width="{_WIDTH}" height="{y + _MARGIN}" fill="#ffffff"/>'
    return "\n".join([head, title, ground, *parts, "</svg>"]) + "\n"


def _height(package: Package) -> int:
    return _HEAD + len(package.rows) * (_ROOM + _GAP)


def _package(package: Package, y: int) -> Iterator[str]:
    yield _box(_MARGIN, y, _WIDTH - 2 * _MARGIN, _height(package), _FILLS[package.folder])
    label = (
        f'<tspan font-weight="700">{escape(package.folder)}/</tspan> '
        f'<tspan font-family="monospace">{escape(package.name)}</tspan>'
    )
    yield f'<text x="{_MARGIN + 10}" y="{y + 20}">{label}</text>'
    yield (
        f'<text x="{_WIDTH - _MARGIN - 10}" y="{y + 20}" text-anchor="end" fill="#6b6b6b">{escape(package.about)}</text>'
    )
    for number, row in enumerate(package.rows):
        top = y + _HEAD + number * (_ROOM + _GAP)
        width = (_WIDTH - 2 * _MARGIN - 10 - _GAP * len(row)) // len(row)
        for place, (room, words) in enumerate(row):
            x = _MARGIN + 10 + place * (width + _GAP)
            yield _box(x, top, width - 2, _ROOM, "#ffffff")
            yield (
                f'<text x="{x + 8}" y="{top + 21}"><tspan font-weight="700">{escape(room)}</tspan>'
                f' <tspan dx="4" fill="#6b6b6b" font-size="11">{escape(words)}</tspan></text>'
            )


def _box(x: int, y: int, width: int, height: int, fill: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="#b9c2cc"/>'


if __name__ == "__main__":
    PICTURE.write_text(draw())
