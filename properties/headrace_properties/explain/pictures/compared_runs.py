"""The page of a failure of a Spark job, a sink or a pipeline's code by itself: its run beside the undisturbed one.

It is a page like that of a cluster's run (`spacetime.page`): the story, the diagram of who did what, with an arrow to where it
wrote, and the animation. Steps are in the place of time. Behind each step it shows the tables that are there then, and at the end
both outcomes side by side. All of it is derived from an `Explanation`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import islice, pairwise, zip_longest
from typing import Any

from headrace_properties.explain.pictures.spacetime.page import page_of
from headrace_properties.explanation import Explanation, Row, Run, RunStep, StepKind, Tables

_GROUPS = {
    StepKind.INPUT: "record", StepKind.RUN: "run", StepKind.WRITE: "write", StepKind.FAULT: "fault",
}  # fmt: skip
"""The signs of the diagram."""

_SIGNS = {
    "record": "rows arrive", "run": "a task, or a call of the code", "write": "a write",
    "stale": "a write of a driver that was replaced", "fault": "a fault, or other rows",
}  # fmt: skip

UNDISTURBED, SOURCE, BOTH = "undisturbed", "source", "both runs"
"""The lane of the run with which another is compared; the lane of rows that arrive; and the view of both."""

MOST_ROWS = 40
"""Choice: the number of rows shown of a table; marked ones are shown in any case."""
MOST_STORES = 4
"""Choice: the number of lanes of what is written to; the last one is that of all others."""
MOST_SENTENCES = 20

_DRIVER = re.compile(r"^driver \d+, ")
_PLACE = re.compile(r"  \(([^()]+)\)$")


def compared_html(explanation: Explanation | None, *, title: str, said: Sequence[str]) -> str:
    """Draw the page.

    Args:
        explanation: both runs; ``None``: nothing is violated any more, or no run shows it.
        title: what was run.
        said: what was found: its name, and then its sentences.
    """
    runs = () if explanation is None else explanation.runs
    page = _Page(explanation or Explanation(()), tuple(said))
    document = {
        "title": title,
        "subtitle": "",
        "steps": True,
        "signs": _SIGNS,
        "lanes": [{"address": lane, "role": page.role_of(lane)} for lane in page.lanes],
        "events": [*map(page.event, page.placed)],
        "stubs": [*page.writes()],
        "outages": [*page.outages()],
        "verdicts": page.views() if runs else [],
        "told": page.first_view if runs else "",
        "story": {"sentences": [], "moral": said},
        "tables": {event.number: event.tables for event in page.placed if event.tables is not None},
        "outcomes": page.outcomes() if runs else [],
    }
    return page_of(document)


@dataclass(slots=True)
class _Placed:
    """A step at its place on the page."""

    number: int  # of the event
    at: int  # of its line: steps that both runs have are on one
    run: int  # the number of its run
    step: RunStep
    tables: list[dict[str, Any]] | None = None  # what is there behind it, to be drawn; None: nobody looked
    proves: bool = False  # whether it makes the difference


class _Page:
    def __init__(self, explanation: Explanation, said: tuple[str, ...]) -> None:
        self.explanation, self.said, self.runs = explanation, said, explanation.runs
        self.placed = list[_Placed]()
        for at, pair in enumerate(_lines([run.steps for run in self.runs])):
            for run, step in enumerate(pair):
                if step is not None:
                    self.placed.append(_Placed(len(self.placed), at, run, step))
        for run in range(len(self.runs)):
            self._look(run)
        self._prove()

    # Who, and where

    def of(self, run: int) -> list[_Placed]:
        """Return the steps of a run."""
        return [placed for placed in self.placed if placed.run == run]

    @property
    def last(self) -> int:
        """The number of the run that is told."""
        return len(self.runs) - 1

    @cached_property
    def lanes(self) -> list[str]:
        """The lanes: the undisturbed run, who acts in the other one, and where it writes."""
        steps = [placed.step for placed in self.of(self.last)]
        actors = sorted({_actor(step) for step in steps}, key=lambda name: (name != SOURCE, name))
        return [*([UNDISTURBED] if self.last > 0 else []), *actors, *self.stores]

    @cached_property
    def stores(self) -> list[str]:
        """What the other run writes to."""
        names = [*dict.fromkeys(_store(placed.step.to) for placed in self.of(self.last) if placed.step.to)]
        return names if len(names) <= MOST_STORES else [*names[: MOST_STORES - 1], "elsewhere"]

    def role_of(self, lane: str) -> str:
        """Return the role of a lane, as a cluster's processes have them: it says where its box stands."""
        return "store" if lane in self.stores else "injector" if lane in {UNDISTURBED, SOURCE} else "worker"

    def lane_of(self, placed: _Placed) -> int:
        """Return the number of a step's lane."""
        return self.lanes.index(UNDISTURBED if placed.run < self.last else _actor(placed.step))

    def writes(self) -> Iterator[list[Any]]:
        """Yield the arrows to where something is written."""
        for placed in self.of(self.last):
            if placed.step.to:
                store = _store(placed.step.to)
                lane = self.lanes.index(store if store in self.stores else "elsewhere")
                yield [placed.number, lane, "writes"]

    def outages(self) -> Iterator[dict[str, Any]]:
        """Yield when a process is down: from a fault of its own until it acts again."""
        steps = self.of(self.last)
        for place, placed in enumerate(steps):
            if not _fails(placed.step) or placed.step.late:
                continue
            again = (other.number for other in steps[place + 1 :] if other.step.by == placed.step.by)
            end = next(again, None)
            kind = "dead" if end is None else "stopped"
            yield {
                "lane": self.lane_of(placed),
                "kind": kind,
                "begin": placed.number,
                "end": end,
                "strikes": 1,
            }

    def event(self, placed: _Placed) -> dict[str, Any]:
        """Return a step to be drawn."""
        step = placed.step
        place = _PLACE.search(step.text)
        fields = {"line": place[1]} if place else {}
        event = {
            "at": placed.at, "lane": self.lane_of(placed), "type": step.kind.value, "group": _GROUPS[step.kind],
            "label": f"{_label(step)}{_again(step)}", "detail": "; ".join(map(str.strip, step.details)),
            "fields": fields,
        }  # fmt: skip
        return event | ({"mark": "stale"} if step.late and step.kind is StepKind.WRITE else {})

    # What is there

    def _look(self, run: int) -> None:
        """Note the tables behind each step of a run, with the rows that it changed, and those that are wrong."""
        before: Tables = {}
        placed = self.of(run)
        for one in placed:
            behind = (
                self.runs[run].tables if one is placed[-1] and one.step.tables is None else one.step.tables
            )
            if behind is not None and (behind or before):
                changed = _changed(before, behind)
                one.tables = [*_drawn(behind, changed, self.wrong if run == self.last else {})]
                before = behind

    @cached_property
    def wrong(self) -> dict[str, Counter[Row]]:
        """By table, how many of a row the undisturbed run leaves, of those rows of which the other leaves more."""
        calm, left = self.runs[0].tables, self.runs[-1].tables
        usual = {name: Counter(calm.get(name, ())) for name in left}
        return {
            name: Counter({row: usual[name][row] for row in Counter(rows) - usual[name]})
            for name, rows in left.items()
        }

    def _prove(self) -> None:
        """Mark the steps that make the difference: the first call that differs, or where a wrong row comes; else the faults."""
        for placed in self.placed:
            placed.proves = placed in self._parting(placed.run)
        told = self.of(self.last)
        known = [placed for placed in told if placed.step.tables is not None]
        for before, behind in pairwise(known):
            behind.proves |= bool(self._more_wrong(before.step.tables or {}, behind.step.tables or {}))
        if not any(placed.proves for placed in told):
            for placed in told:
                placed.proves = placed.step.kind is StepKind.FAULT

    def _more_wrong(self, before: Tables, behind: Tables) -> list[str]:
        """Return what is wrong behind a step that was not before it."""
        return [
            f"{name} has {_told(row)}{' once more than it should' if count else ', which it should not have'}"
            for name, usual in self.wrong.items()
            for row, count in usual.items()
            if behind.get(name, ()).count(row) > max(count, before.get(name, ()).count(row))
        ]

    def outcomes(self) -> list[dict[str, Any]]:
        """Return what is left with the failure, and without it."""
        calm, left = self.runs[0], self.runs[-1]
        names = dict.fromkeys([*left.tables, *calm.tables])
        compared = [_outcome(left, names, calm.tables)] if self.last > 0 else []
        return [*compared, _outcome(calm, names, None)]

    # What is told

    @property
    def first_view(self) -> str:
        """The view that the page opens with: if no process fails, both runs are looked at."""
        fails = any(_fails(step) for step in self.runs[-1].steps)
        return self.runs[-1].title if fails or self.last <= 0 else BOTH

    def views(self) -> list[dict[str, Any]]:
        """Return what can be looked at: the run that is told, both, or the undisturbed one."""
        story = [*self._story()]
        told = self._view(self.runs[-1].title, self.of(self.last), story)
        if self.last <= 0:
            return [told]
        calm = self.of(0)
        ends = (
            [{"event": calm[-1].number, "text": f"In the end: {line}"} for line in self.runs[0].outcome]
            if calm
            else []
        )
        return [
            told,
            self._view(BOTH, self.placed, story),
            self._view(self.runs[0].title, calm, [*self._partings(0), *ends[:MOST_SENTENCES]]),
        ]

    def _view(self, name: str, shown: Sequence[_Placed], sentences: list[dict[str, Any]]) -> dict[str, Any]:
        title, *more = self.said
        subject = [placed.number for placed in shown]
        return {
            "name": name, "title": title, "message": title, "caption": title,
            "witness": [placed.number for placed in shown if placed.proves],
            "subject": subject, "sentences": [one for one in sentences if one["event"] in subject], "moral": more,
        }  # fmt: skip

    def _story(self) -> Iterator[dict[str, Any]]:
        """Tell the run: what fails, what is done again, where it goes wrong, and what it comes to."""
        told = self.of(self.last)
        sentences = [
            *self._happenings(told),
            *(one for run in range(len(self.runs)) for one in self._partings(run)),
        ]
        yield from sorted(sentences[:MOST_SENTENCES], key=lambda one: int(one["event"]))
        if told:
            ends = self.explanation.difference or self.runs[-1].outcome
            yield from (
                {"event": told[-1].number, "text": f"In the end: {line}."} for line in ends[:MOST_SENTENCES]
            )

    def _happenings(self, told: Sequence[_Placed]) -> Iterator[dict[str, Any]]:
        struck = next((place for place, placed in enumerate(told) if placed.step.kind is StepKind.FAULT), 0)
        if struck:
            yield {
                "event": told[0].number,
                "text": f"Up to step {struck}, all is as in the undisturbed run.",
            }
        before: Tables = {}
        redone = ""
        for placed in told:
            step, more = placed.step, self._more_wrong(before, placed.step.tables or {})
            before = before if step.tables is None else step.tables
            if step.kind is StepKind.FAULT:
                redone = ""
                yield {
                    "event": placed.number,
                    "text": f"{_capital(step.text.strip()) if _fails(step) else f'The source: {_label(step)}{_again(step)}'}.",
                }
            elif more and placed.proves:
                yield {
                    "event": placed.number,
                    "text": f"{_capital(step.by)}: {_label(step)}; now {' and '.join(more)}.",
                }
            elif step.again and redone != step.by:
                redone = step.by
                yield {
                    "event": placed.number,
                    "text": f"{_capital(step.by)} does again what was done: {_label(step)}.",
                }

    def _parting(self, run: int) -> list[_Placed]:
        """Return the step of a run that is the first difference, if that is a call."""
        lines = self.explanation.parting[run : run + 1]
        same = (placed for placed in self.of(run) if lines and lines[0].endswith(placed.step.text.strip()))
        return [*islice(same, 1)]

    def _partings(self, run: int) -> Iterator[dict[str, Any]]:
        where = "here" if run == self.last else "in the undisturbed run"
        for placed in self._parting(run):
            yield {"event": placed.number, "text": f"The first difference, {where}: {_label(placed.step)}."}


def _lines(runs: Sequence[Sequence[RunStep]]) -> Iterator[tuple[RunStep | None, ...]]:
    """Yield the lines of runs beside each other: up to the first difference, and then what is alike, whoever did it."""
    if len(runs) < 2:
        yield from ((step,) for run in runs for step in run)
        return
    left, right = runs
    keys, others = ([_DRIVER.sub("", step.text) for step in run] for run in (left, right))
    pairs = enumerate(zip(keys, others, strict=False))
    same = next((place for place, (one, other) in pairs if one != other), min(len(left), len(right)))
    yield from zip(left[:same], right[:same], strict=True)
    matched = SequenceMatcher(None, keys[same:], others[same:], autojunk=False)
    for _, begin, end, other_begin, other_end in matched.get_opcodes():
        yield from zip_longest(left[same + begin : same + end], right[same + other_begin : same + other_end])


def _actor(step: RunStep) -> str:
    return step.by or SOURCE


def _fails(step: RunStep) -> bool:
    """Return whether a process fails; else it is the source that gives something else."""
    return step.kind is StepKind.FAULT and _actor(step) != SOURCE


def _again(step: RunStep) -> str:
    return " (again)" * step.again


def _store(target: str) -> str:
    """Return where a destination is.

    >>> _store("bank.db: payments"), _store("http://shop/0"), _store("out/part-0.json")
    ('bank.db', 'http://shop', 'out')
    """
    if "://" in target:
        return "/".join(target.split("/")[:3])
    name = target.partition(": ")[0]
    return name.rpartition("/")[0] or name


def _label(step: RunStep) -> str:
    return step.text.strip().removeprefix(step.by).lstrip(", ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _told(row: Row) -> str:
    return row if isinstance(row, str) else f"({', '.join(f'{name}={value}' for name, value in row)})"


def _changed(before: Tables, behind: Tables) -> dict[str, tuple[Counter[Row], Counter[Row]]]:
    """Return, by table, the rows that have come, and those that are gone."""
    names = dict.fromkeys([*behind, *before])
    pairs = {name: (Counter(before.get(name, ())), Counter(behind.get(name, ()))) for name in names}
    return {name: (now - then, then - now) for name, (then, now) in pairs.items()}


def _outcome(run: Run, names: Iterable[str], usual: Tables | None) -> dict[str, Any]:
    """Return what a run leaves in the named tables. ``usual``: what it should leave; ``None``: it is the one that is right."""
    tables = {name: run.tables.get(name, ()) for name in names}
    right = {name: Counter((tables if usual is None else usual).get(name, ())) for name in tables}
    missing = {name: (Counter[Row](), right[name] - Counter(rows)) for name, rows in tables.items()}
    text = [] if run.tables else [*run.outcome]
    return {"title": run.title, "text": text, "tables": [*_drawn(tables, missing, right, compared=True)]}


def _drawn(
    tables: Tables,
    changed: Mapping[str, tuple[Counter[Row], Counter[Row]]],
    wrong: Mapping[str, Counter[Row]],
    *,
    compared: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield tables to be drawn, with marks.

    Args:
        tables: what is there.
        changed: the rows that have come, and those that are gone, or are missing.
        wrong: how many of a row are right; in ``compared``, rows that it does not have are wrong, too.
        compared: whether this is an outcome.
    """
    for name in dict.fromkeys([*tables, *changed]):
        come, gone = (Counter(rows) for rows in changed.get(name, (Counter[Row](), Counter[Row]())))
        right, seen = wrong.get(name), Counter[Row]()
        rows = list[tuple[Row, str]]()
        for row in tables.get(name, ()):
            seen[row] += 1
            is_wrong = right is not None and (compared or row in right) and seen[row] > right[row]
            is_new = come[row] > 0 and seen[row] > Counter(tables[name])[row] - come[row]
            rows.append((row, "wrong" if is_wrong else "new" if is_new else ""))
        rows += [(row, "missing" if compared else "gone") for row in gone.elements()]
        shown = [pair for place, pair in enumerate(rows) if place < MOST_ROWS or pair[1]]
        columns = [*dict.fromkeys(column for row, _ in shown for column in _cells(row))]
        yield {
            "name": name, "columns": columns, "more": len(rows) - len(shown),
            "rows": [{"mark": mark, "cells": [_cells(row).get(column, "") for column in columns]} for row, mark in shown],
        }  # fmt: skip


def _cells(row: Row) -> Mapping[str, str]:
    return {"line": row} if isinstance(row, str) else dict(row)
