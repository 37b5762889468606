"""The undisturbed run is judged, too: does each row leave a trace, and is what stays a matter of chance?

A row leaves a trace in a destination if what is there differs without the row. Where it leaves none, the same rows are tried
in other batches: all in one, or each in its own, in both orders. The sink itself then says what it does with the row, so that
a filter is not mistaken for a loss: a row that is left out in every batch is left out by what it is.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from math import isfinite
from typing import Any

from headrace_sim.spark.sinks.trial_contents import Contents, Item

Row = tuple[Any, ...]
Batches = Sequence[Sequence[Row]]
RunBatches = Callable[[Batches], Contents | None]
"""Run the sink undisturbed on other batches; return what it left, or None if it failed."""


class Cut(Enum):
    """How the rows come: as they are given, all in one batch, or each in its own; in their order, or back to front."""

    AS_GIVEN = "as given"
    MERGED = "in one batch"
    MERGED_BACK = "in one batch, back to front"
    SINGLE = "each in a batch of its own"
    SINGLE_BACK = "each in a batch of its own, back to front"


class Loss(Enum):
    """What becomes of rows that leave no trace."""

    OVERWRITTEN = "a later batch replaces them"
    SKIPPED = "their batch does not write them"
    STALE = "older rows replace them, or they newer ones"
    COMPANIONS = "they are written only without the others of their batch"
    ORDER = "the order in which they come decides"
    CHOSEN = "left out however they come"


@dataclass(frozen=True, slots=True)
class Lost:
    """Rows that leave no trace in a destination, and why."""

    loss: Loss  # why
    rows: tuple[int, ...]  # their numbers, over all batches
    batch: int  # the index of their batch, or of the first one
    destination: str  # where they are not; "": nowhere at all
    instead: tuple[int, ...] = ()  # the numbers of rows that are there in their place
    cut: Cut = Cut.AS_GIVEN  # how all rows come where they leave one
    was_there: bool = False  # whether they left one behind their own batch


@dataclass(slots=True)
class Baseline:
    """Judges the undisturbed run of a sink."""

    batches: Batches
    run: RunBatches  # runs the sink on others
    # those that can be compared, as `pattern_of` names them, with the name that they are told by
    destinations: Mapping[str, str]
    caught: frozenset[int] = frozenset()  # the batches in which the sink caught an error
    most_runs: int = 40  # for all rows that leave no trace
    _runs: int = 0
    _known: dict[tuple[Cut, frozenset[int]], Contents | None] = field(default_factory=dict)
    _lead: int = 0
    _columns: dict[str, frozenset[int]] = field(default_factory=dict)

    def lost(self) -> Iterator[Lost]:
        """Yield the rows that leave no trace, and why."""
        calm = self._left(Cut.AS_GIVEN)
        if calm is None:
            return
        compared = sorted(self.destinations.keys() & calm.keys())
        held = {name: _shown_columns(self._rows, calm[name]) for name in compared}
        self._columns = holding = {name: columns for name, columns in held.items() if columns}
        invisible: dict[tuple[str, ...], list[int]] = {}
        for number, row in enumerate(self._rows):
            names = tuple(name for name in holding if not _is_in(row, calm[name], holding[name]))
            if (names or not holding) and row not in self._rows[:number]:
                invisible.setdefault(names, []).append(number)
        for names, numbers in invisible.items():
            for group in self._untraced(frozenset(numbers), names):
                yield from self._judged(group, names, holding, nowhere=len(names) == len(holding))

    def beside(self, pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[str, int, int]]:
        """Yield the destinations in which an older result of a key is beside a newer one, with the numbers of both rows.

        ``pairs``: the numbers of the rows of each key that follow each other.
        """
        calm = self._left(Cut.AS_GIVEN) or {}
        for name in sorted(self.destinations.keys() & calm.keys()):
            items = calm[name]
            columns = _shown_columns(self._rows, items)
            for old, new in pairs if columns else ():
                rows = self._rows[old], self._rows[new]
                shown = [{item for item in items if columns <= _matched(row, item)} for row in rows]
                is_same = all(self._rows[old][place] == self._rows[new][place] for place in columns)
                is_twice = is_same and sum(items[item] for item in shown[0]) > 1
                if is_twice or (not is_same and shown[0] - shown[1] and shown[1]):
                    yield self.destinations[name], old, new
                    break

    @property
    def _rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]

    def _batch_of(self, number: int) -> int:
        ends = 0
        for place, batch in enumerate(self.batches):
            ends += len(batch)
            if number < ends:
                return place
        raise IndexError(number)

    def _by_batch(self, group: Iterable[int]) -> list[frozenset[int]]:
        parts: dict[int, set[int]] = {}
        for number in sorted(group):
            parts.setdefault(self._batch_of(number), set()).add(number)
        return [frozenset(part) for part in parts.values()]

    def without(self, numbers: Iterable[int]) -> Batches:
        """Return the batches as they are given, without some rows."""
        return self.arranged(Cut.AS_GIVEN, frozenset(numbers))

    def arranged(self, cut: Cut, without: frozenset[int] = frozenset()) -> Batches:
        """Return the batches in another cut, without some rows."""
        numbered = list(enumerate(self._rows))
        if cut in {Cut.MERGED_BACK, Cut.SINGLE_BACK}:
            numbered.reverse()
        kept = [[row] if number not in without else [] for number, row in numbered]
        if cut in {Cut.SINGLE, Cut.SINGLE_BACK}:
            return kept
        if cut is not Cut.AS_GIVEN:
            return [*([] for _ in range(self._lead)), [row for part in kept for row in part]]
        rows = iter(kept)
        return [[row for _ in batch for row in next(rows)] for batch in self.batches]

    def _left(self, cut: Cut, without: frozenset[int] = frozenset()) -> Contents | None:
        """Return what the sink leaves of the rows in such batches, or None if it fails, or enough has been tried."""
        key = (cut, without)
        if key not in self._known:
            self._known[key] = self._tried(self.arranged(cut, without))
        return self._known[key]

    def _tried(self, batches: Batches) -> Contents | None:
        self._runs += 1
        left = self.run(batches) if self._runs <= self.most_runs else None
        return None if left is None else {name: left[name] for name in left if name in self.destinations}

    def _traces(self, cut: Cut, group: frozenset[int]) -> frozenset[str] | None:
        """Return the destinations in which these rows leave a trace; None: it is not known.

        In other batches, and where an error was caught, what is not there because of them is no trace.
        """
        whole, without = self._left(cut), self._left(cut, group)
        added = self._owed_to(group, whole, without)
        if added is None or whole is None or without is None:
            return added
        is_plain = cut is Cut.AS_GIVEN and not self.caught & {self._batch_of(number) for number in group}
        return added | _added(without, whole) if is_plain else added

    def _owed_to(
        self, group: frozenset[int], whole: Contents | None, without: Contents | None
    ) -> frozenset[str] | None:
        """Return the destinations that have something because of these rows; None: it is not known.

        What shows another row is that one's own trace, even if it is there by the number of rows, or as the last but one. If
        the sink fails without these rows, as on an empty batch, what shows one of them is its trace.
        """
        if whole is None or (without is None and not self._columns):
            return None
        alone = without is None
        added = {name: items - (without or {}).get(name, Counter()) for name, items in whole.items()}
        return frozenset(
            name
            for name, items in added.items()
            if any(self._is_theirs(item, name, group, alone=alone) for item in items)
        )

    def _is_theirs(self, item: Item, name: str, group: frozenset[int], *, alone: bool) -> bool:
        """Return whether an item is due to a group. ``alone``: only what shows a row of it is."""
        columns = self._columns.get(name, frozenset())
        if not columns:
            return not alone
        shown = {number for number, row in enumerate(self._rows) if columns <= _matched(row, item)}
        return bool(shown & group) or not (shown or alone)

    def _untraced(self, group: frozenset[int], names: Sequence[str]) -> Iterator[frozenset[int]]:
        """Yield the parts of a group that leave no trace in any of these destinations, or nowhere if none is given."""
        traces = self._traces(Cut.AS_GIVEN, group)
        if traces is not None and not (traces & set(names) if names else traces):
            yield group
            return
        parts = self._by_batch(group)
        if len(parts) == 1:
            parts = [frozenset({number}) for number in sorted(group)]
        if traces is not None and len(parts) > 1:
            for part in parts:
                yield from self._untraced(part, names)

    def _judged(
        self,
        group: frozenset[int],
        names: Sequence[str],
        holding: dict[str, frozenset[int]],
        *,
        nowhere: bool,
    ) -> Iterator[Lost]:
        """Yield why a group leaves no trace, for each of its batches, if more than one kind of batch makes a difference."""
        left = self._left(Cut.MERGED) or {}
        if not (self._lead or any(left.get(name) for name in names or left)):  # it may do nothing in batch 0
            self._lead = 1
            for cut in (Cut.MERGED, Cut.MERGED_BACK):
                self._known = {key: left for key, left in self._known.items() if key[0] is not cut}
        traced = {cut: self._traces(cut, group) for cut in Cut if cut is not Cut.AS_GIVEN}
        if any(traces is None for traces in traced.values()):
            return
        wanted = set(names) or set().union(*(traces or () for traces in traced.values()))
        parts = self._by_batch(group)
        if any((traces or frozenset()) & wanted for traces in traced.values()) and len(parts) > 1:
            for part in parts:
                for smaller in self._untraced(part, names):
                    yield from self._judged(smaller, names, holding, nowhere=nowhere)
            return
        batch = self._batch_of(min(group))
        for name in sorted(wanted):
            merged, merged_back, single, single_back = (name in (traced[cut] or ()) for cut in traced)
            loss = self._loss(group, name, (merged, merged_back), (single, single_back), batch)
            rows, instead = self._shown(group, name, holding.get(name, frozenset()), merged=merged)
            if merged and merged_back and instead and loss is not Loss.COMPANIONS:
                loss = Loss.STALE
            if loss in {Loss.OVERWRITTEN, Loss.SKIPPED} and not nowhere:
                continue  # the row is elsewhere
            if loss is not Loss.CHOSEN:
                leaving = next(cut for cut, traces in traced.items() if name in (traces or ()))
                cut = Cut.SINGLE if loss is Loss.COMPANIONS else leaving
                yield Lost(loss, rows, batch, self.destinations[name], instead, cut)
                return
        if nowhere:
            was_there = bool(self._there_behind(batch, group))
            yield Lost(Loss.CHOSEN, tuple(sorted(group)), batch, "", was_there=was_there)

    def _there_behind(self, batch: int, group: frozenset[int]) -> frozenset[str]:
        """Return the destinations that have something because of a group, when its batch is done."""
        there, without = (
            self._tried([list(part) for part in self.arranged(Cut.AS_GIVEN, left_out)[: batch + 1]])
            for left_out in (frozenset(), group)
        )
        return self._owed_to(group, there, without) or frozenset()

    def _loss(
        self,
        group: frozenset[int],
        name: str,
        merged: tuple[bool, bool],
        single: tuple[bool, bool],
        batch: int,
    ) -> Loss:
        if batch in self.caught and all(single):
            return Loss.COMPANIONS
        if all(merged):
            return Loss.OVERWRITTEN if name in self._there_behind(batch, group) else Loss.SKIPPED
        if any(merged):
            return Loss.ORDER
        if all(single):
            return Loss.COMPANIONS
        return Loss.STALE if any(single) else Loss.CHOSEN

    def _shown(
        self, group: frozenset[int], name: str, columns: frozenset[int], *, merged: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the rows to show, and those that are there as given, but not if all come in one batch."""
        rows, calm = tuple(sorted(group)), (self._left(Cut.AS_GIVEN) or {}).get(name, Counter[Item]())
        cuts = (Cut.MERGED, Cut.MERGED_BACK) if merged else (Cut.SINGLE, Cut.SINGLE_BACK)
        others = [(self._left(cut) or {}).get(name, Counter[Item]()) for cut in cuts]
        if not columns:
            return rows, ()
        there = [any(_is_in(row, other, columns) for other in others) for row in self._rows]
        shown = tuple(number for number in rows if there[number])
        calmly = [number for number, row in enumerate(self._rows) if _is_in(row, calm, columns)]
        instead = tuple(number for number in calmly if not there[number])
        return shown or rows, instead if merged else ()


def grows_whole(batches: Batches) -> bool:
    """Return whether each batch may be the whole result so far, as in output mode Complete: each has the keys of the last."""
    full = [batch for batch in batches if batch]
    for place in range(len(full[0][0])) if full else ():
        keys = [{repr(row[place]) for row in batch} for batch in full]
        are_keys = [len(values) for values in keys] == [len(batch) for batch in full]
        if are_keys and all(one <= other for one, other in pairwise(keys)):
            return True
    return False


def by_pattern(contents: Contents) -> Contents:
    """Return the contents by the pattern of their names: batches have other numbers if they are cut in another way."""
    merged: Contents = {}
    for name, items in contents.items():
        merged.setdefault(pattern_of(name), Counter()).update(items)
    return merged


def pattern_of(name: str) -> str:
    """Return the name of a destination without the numbers in it."""
    return _NUMBER.sub("#", name)


_NUMBER = re.compile(r"\d+")


def _added(one: Contents, other: Contents) -> frozenset[str]:
    """Return the destinations in which one has something that the other lacks."""
    return frozenset(name for name, items in one.items() if items - other.get(name, Counter()))


def _shown_columns(rows: Sequence[Row], items: Counter[Item]) -> frozenset[int]:
    """Return the places of the columns whose values are in at least half of the items; none if most columns are not."""
    width = len(rows[0]) if rows else 0
    distinct = list(items)
    places = frozenset(
        place
        for place in range(width)
        if 2 * sum(any(place in _matched(row, item) for row in rows) for item in distinct)
        >= len(distinct)
        > 0
    )
    return places if 2 * len(places) >= width else frozenset()


def _is_in(row: Row, items: Counter[Item], columns: frozenset[int]) -> bool:
    return any(columns <= _matched(row, item) for item in items)


def _matched(row: Row, item: Item) -> frozenset[int]:
    """Return the places of the row's columns whose values an item has, however they are written."""
    if isinstance(item, str):
        text, written = item.casefold(), enumerate(map(_forms, row))
        return frozenset(place for place, known in written if any(form in text for form in known))
    left = [{text.casefold(), text.casefold().strip("'\"")} for _, text in item]
    places = set[int]()
    for place, value in enumerate(row):
        forms = _forms(value)
        if (taken := next((texts for texts in left if texts & forms), None)) is not None:
            left.remove(taken)  # a value of the item stands for one of the row's
            places.add(place)
    return frozenset(places)


def _forms(value: Any) -> set[str]:
    """Return the texts by which a value may be written."""
    forms = {repr(value), str(value), str(value).replace(" ", "T")}
    if isinstance(value, bool | int | float):
        forms |= {str(int(value)) if isfinite(value) and value == int(value) else "", f"{value:g}"}
    elif isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        forms.add(str(int(value)))
    return {form.casefold() for form in forms if form}
