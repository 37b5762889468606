"""Two runs of a Spark job, or of its sink, beside each other, step by step: one HTML page, for a browser.

Steps that both runs have are on one line, whichever driver took them; what only one of them has is marked, and the first such
line comes with a link.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING

from headrace_properties.printable import visible

if TYPE_CHECKING:  # it needs PySpark
    from headrace_properties.spark_jobs.explaining import Run

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
_FIRST = ' id="first-difference"'


def side_by_side_html(runs: "Sequence[Run]", *, title: str, said: str) -> str:
    """Return the page.

    Args:
        runs: the undisturbed run and, if there is one, the run that differs; none: nothing is wrong any more.
        title: what was run.
        said: what was found.
    """
    steps = [*_lines([run.lines for run in runs])]
    outcomes = [*_lines([run.outcome for run in runs])]
    rows = [_row(cells, differs=differs) for cells, differs in (*steps, *outcomes)]
    first = next((number for number, (_, differs) in enumerate((*steps, *outcomes)) if differs), None)
    paragraphs = [f"<p>{_text(said)}</p>"]
    if first is not None:
        rows[first] = rows[first].replace("<tr", f"<tr{_FIRST}", 1)
        paragraphs.append('<p><a href="#first-difference">The first difference</a></p>')
    return _PAGE.format(
        title=_text(title),
        paragraphs="\n".join(paragraphs),
        heads="".join(f"<th>{_text(run.title)}</th>" for run in runs),
        steps="\n".join(rows[: len(steps)]),
        outcomes="\n".join(rows[len(steps) :]),
    )


def _lines(columns: Sequence[Sequence[str]]) -> Iterator[tuple[tuple[str | None, ...], bool]]:
    """Give the cells of each line of the table, and whether they differ."""
    if len(columns) < 2:
        yield from (((cell,), False) for column in columns for cell in column)
        return
    left, right = columns
    matched = SequenceMatcher(None, [*map(_step, left)], [*map(_step, right)], autojunk=False)
    for kind, begin, end, other_begin, other_end in matched.get_opcodes():
        cells = zip_longest(left[begin:end], right[other_begin:other_end])
        yield from ((pair, kind != "equal") for pair in cells)


def _step(line: str) -> str:
    return _DRIVER.sub("", line)


def _row(cells: Sequence[str | None], *, differs: bool) -> str:
    mark = ' class="only"'
    shown = (
        f"<td{mark if differs and cell is not None else ''}>{'' if cell is None else _text(cell)}</td>"
        for cell in cells
    )
    return f"<tr>{''.join(shown)}</tr>"


def _text(words: str) -> str:
    return escape(visible(words))
