"""Two runs of a Spark job, or of its sink, beside each other, step by step: one HTML page, for a browser.

Steps that both runs have are on one line, whichever driver took them. Until the fault strikes, they are the same ones; where it
does, what is done again and what only one of the runs has are marked, each in its own way, and come with links.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from itertools import zip_longest

from headrace_properties.explanation import Run, StepKind
from headrace_properties.printable import visible

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; width: 100%; table-layout: fixed; }}
th {{ text-align: left; padding: .5em .8em .3em 0; }}
td {{ font: 12px/1.5 ui-monospace, monospace; padding: .1em .8em; white-space: pre-wrap; overflow-wrap: anywhere;
  vertical-align: top; border-left: 3px solid transparent; }}
.only {{ background: color-mix(in srgb, #b3261e 14%, transparent); border-left-color: #b3261e; }}
.strike {{ background: color-mix(in srgb, #b26a00 26%, transparent); border-left-color: #b26a00; font-weight: 600; }}
.again {{ background: color-mix(in srgb, #1f5fbf 12%, transparent); border-left-color: #1f5fbf; }}
.outcome td {{ border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); }}
</style></head><body>
<h1>{title}</h1>
{paragraphs}
<table><thead><tr>{heads}</tr></thead>
<tbody>
{steps}
</tbody>
<tbody class="outcome">
{outcomes}
</tbody></table>
</body></html>
"""
_DRIVER = re.compile(r"^driver \d+, ")
_ANCHORS = (
    ("fault", "strike", "Where the fault strikes"),
    ("again", "again", "What is done again"),
    ("first-difference", "only", "The first difference"),
)
"""What has a link: its anchor, the class of its cell, and the text."""


def side_by_side_html(runs: Sequence[Run], *, title: str, said: str, difference: Sequence[str] = ()) -> str:
    """Return the page.

    Args:
        runs: the undisturbed run and, if there is one, the run that differs; none: nothing is wrong any more.
        title: what was run.
        said: what was found.
        difference: what the outcomes differ in, line by line.
    """
    other = runs[1] if len(runs) > 1 else None
    columns = [[(line, step) for step in run.steps for line in step.lines] for run in runs]
    marked = enumerate(step for _, step in (columns[1] if other is not None else ()))
    marks = {
        number: "strike" if step.kind is StepKind.FAULT else "again"
        for number, step in marked if step.again or step.kind is StepKind.FAULT
    }  # fmt: skip
    steps = [_row(line, marks) for line in _lines([[line for line, _ in column] for column in columns])]
    outcomes = [_row(line, {}) for line in _lines([run.outcome for run in runs])]
    rows, paragraphs = [*steps, *outcomes], [f"<p>{_text(said)}</p>"]
    for anchor, mark, text in _ANCHORS:
        place = next((place for place, row in enumerate(rows) if f'class="{mark}"' in row), None)
        if place is not None:
            rows[place] = rows[place].replace("<tr", f'<tr id="{anchor}"', 1)
            paragraphs.append(f'<p><a href="#{anchor}">{text}</a></p>')
    if difference:
        items = "".join(f"<li>{_text(line)}</li>" for line in difference)
        paragraphs.append(f"<p>In the end, unlike the undisturbed run:</p><ul>{items}</ul>")
    return _PAGE.format(
        title=_text(title),
        paragraphs="\n".join(paragraphs),
        heads="".join(f"<th>{_text(run.title)}</th>" for run in runs),
        steps="\n".join(rows[: len(steps)]),
        outcomes="\n".join(rows[len(steps) :]),
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the table: its cells, whether they differ, and the number of the second one in its run."""

    cells: tuple[str | None, ...]
    differs: bool
    number: int = -1


def _lines(columns: Sequence[Sequence[str]]) -> Iterator[_Line]:
    if len(columns) < 2:
        yield from (_Line((cell,), differs=False) for column in columns for cell in column)
        return
    left, right = columns
    pairs = zip(map(_step, left), map(_step, right), strict=False)
    same = next((place for place, (one, two) in enumerate(pairs) if one != two), min(len(left), len(right)))
    yield from (_Line((left[place], right[place]), differs=False, number=place) for place in range(same))
    matched = SequenceMatcher(None, [*map(_step, left[same:])], [*map(_step, right[same:])], autojunk=False)
    for kind, *places in matched.get_opcodes():
        begin, end, other_begin, other_end = (same + place for place in places)
        for one, two in zip_longest(range(begin, end), range(other_begin, other_end)):
            cells = (None if one is None else left[one], None if two is None else right[two])
            yield _Line(cells, kind != "equal", -1 if two is None else two)


def _step(line: str) -> str:
    return _DRIVER.sub("", line)


def _row(line: _Line, marks: Mapping[int, str]) -> str:
    """Return a row. ``marks``: the classes of lines of the second run, by number."""
    shown = []
    for column, cell in enumerate(line.cells):
        mark = marks.get(line.number, "") if column else ""
        mark = mark or ("only" if line.differs and cell is not None else "")
        named = f' class="{mark}"' if mark else ""
        shown.append(f"<td{named}>{'' if cell is None else _text(cell)}</td>")
    return f"<tr>{''.join(shown)}</tr>"


def _text(words: str) -> str:
    return escape(visible(words))
