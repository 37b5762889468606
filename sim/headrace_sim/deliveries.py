"""What sources really deliver, as a table: each row of it varies batches of rows, for Spark queries, sinks and pipelines alike.

Rows are tuples of values. What a value means is read from the value itself, so that a row of a table, a message of Kafka with
JSON in it and the value of a pipeline's record are all spoiled, or moved into the future, in one way.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from itertools import chain
from typing import Any

Row = tuple[Any, ...]
Batches = Sequence[Sequence[Row]]

FAR_YEAR = 2100
"""Choice: the year of a clock that is wrong."""
_FAR_S = 4_102_444_800
_YEAR = re.compile(r"\b20[2-4]\d(?=-\d\d)")
_EPOCH = re.compile(r"(?<![\d.])(?:1[6-9]|2[0-4])\d{8}(?:\d{3}){0,2}(?![\d.])")
"""Seconds, milliseconds or microseconds since 1970, between 2020 and 2049."""


class RowDelivery(Enum):
    """How rows come otherwise than a feed says."""

    AGAIN = "each row twice in its batch"
    LATER = "rows again after those of the next batch"
    EMPTY = "a batch without rows"
    SPOILED = "a row that does not parse, or has a null"
    FUTURE = f"a row of the year {FAR_YEAR}"
    LAST = "rows again behind all others"
    CASE = "a key in other case"
    BLANK = "a key with a blank at its end"


REPEATS = (RowDelivery.AGAIN, RowDelivery.LATER, RowDelivery.LAST)
"""How rows come again."""


@dataclass(frozen=True, slots=True)
class FeedSource:
    """What the source of a feed promises, in one place: ``source = FeedSource(once=False)`` beside the feed.

    >>> FeedSource(once=False, ordered=True).assumed
    'records may arrive again, those of a key in order'

    Attributes:
        once: Each record comes once. False: it may come again, in the same batch or a later one, which is tried. None: nobody has
            said; it is taken to be so, and asked where the code counts on it.
        again_within_s: How long after the first time a record may come again at most, in seconds. None: nobody has said.
        keys_alike: Keys that differ by case, or by a blank at the end, are one. False: they are two. None: nobody has said.
        ordered: The records of a key come in the order in which they count: the outcome may depend on it.
    """

    once: bool | None = None
    again_within_s: int | None = None
    keys_alike: bool | None = None
    ordered: bool = False

    @property
    def assumed(self) -> str:
        """What is assumed, for the report."""
        within = f" within {self.again_within_s:,} s" if self.again_within_s else ""
        once = f"records may arrive again{within}" if self.once is False else "each record arrives once"
        order = "those of a key in order" if self.ordered else "in any order"
        unsaid = ". Undeclared: whether any arrives again (source = FeedSource(once=...))"
        return f"{once}, {order}{unsaid if self.once is None else ''}"

    def __or__(self, more: "FeedSource") -> "FeedSource":
        """Return what either of them says."""
        return FeedSource(
            self.once if more.once is None else more.once,
            more.again_within_s or self.again_within_s,
            self.keys_alike if more.keys_alike is None else more.keys_alike,
            self.ordered or more.ordered,
        )


UNSAID = FeedSource()
"""Of a source of which nobody has said anything."""


@dataclass(frozen=True, slots=True)
class Variation:
    """A row of the table."""

    of: Callable[
        [Batches], list[list[Row]]
    ]  # returns the batches as they then come; the same batches: it changes nothing


def spoiled_rows(batches: Batches) -> list[Row]:
    """Return a row once for each of its values, which does not parse there or is null."""
    first = next(chain.from_iterable(batches), ())
    return [row for row in _spoiled(first) if isinstance(row, tuple)]


def with_first(batches: Batches, rows: Sequence[Row]) -> list[list[Row]]:
    """Return the batches with some more rows behind those of the first one that has any."""
    place = next((place for place, batch in enumerate(batches) if batch), 0)
    return [[*batch, *(rows if number == place else ())] for number, batch in enumerate(batches)]


def without_stream(batches: Batches, place: int) -> list[list[Row]]:
    """Leave out the rows of one of several streams, whose values stand at that place."""
    return [[row for row in batch if row[place] is None] for batch in batches]


def future_row(batches: Batches) -> Row | None:
    """Return the first row with its times in the far future; None: it has none."""
    first = next(chain.from_iterable(batches), ())
    moved = in_future(first)
    return None if moved == first else moved


def in_future(value: Any) -> Any:
    """Return a value with each time in it moved into the far future."""
    match value:
        case tuple():
            return tuple(map(in_future, value))
        case bytes():
            return _text_in_future(value.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        case str():
            return _text_in_future(value)
        case date():  # and datetime
            return value.replace(year=FAR_YEAR, day=min(value.day, 28))
        case bool():
            return value
        case int():
            return int(_text_in_future(str(value)))
        case _:
            return value


_TIME = re.compile(r"\b20[2-4]\d-\d\d-\d\d(?:([T ])\d\d:\d\d(:\d\d)?(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?)?(?![\d-])")
"""A date, or a time, perhaps with an offset."""


def at_instant(value: Any, at: datetime, wall: datetime) -> Any:
    """Return a value with each time in it moved to an instant.

    ``at``: that, with a zone. ``wall``: what is said of it where no zone is said.
    """
    match value:
        case tuple():
            return tuple(at_instant(part, at, wall) for part in value)
        case bytes():
            return at_instant(value.decode(errors="surrogateescape"), at, wall).encode(
                errors="surrogateescape"
            )
        case str():
            moved = _TIME.sub(lambda match: _written(match, at, wall), value)
            return _EPOCH.sub(lambda match: f"{int(at.timestamp())}".ljust(len(match[0]), "0"), moved)
        case datetime():
            return at if value.tzinfo else wall
        case date():
            return wall.date()
        case int() if not isinstance(value, bool):
            return int(at_instant(str(value), at, wall))
        case _:
            return value


def _written(time: re.Match[str], at: datetime, wall: datetime) -> str:
    """Return a time in the form of another one."""
    if not time[1]:
        return f"{wall:%Y-%m-%d}"
    seconds = ":%S" if time[2] else ""
    form = f"%Y-%m-%d{time[1]}%H:%M{seconds}"
    if time[3] is None:
        return wall.strftime(form)
    offset = {"Z": "Z"}.get(time[3], "+00:00" if ":" in time[3] else "+0000")
    return at.astimezone(UTC).strftime(form) + offset


def _text_in_future(text: str) -> str:
    moved = _YEAR.sub(str(FAR_YEAR), text)
    return _EPOCH.sub(lambda epoch: str(_FAR_S) + "0" * (len(epoch[0]) - 10), moved)


def _spoiled(value: Any) -> Iterator[Any]:
    """Yield forms of a value that its reader may not expect."""
    if isinstance(value, tuple):
        places = (1,) if _is_message(value) else range(len(value))
        for place in places:
            yield from ((*value[:place], other, *value[place + 1 :]) for other in _spoiled(value[place]))
    elif isinstance(value, str | bytes) and isinstance(known := _parsed(value), dict):
        texts = ["{", *(json.dumps(known | {name: None}, separators=(",", ":")) for name in known)]
        yield from (text.encode() if isinstance(value, bytes) else text for text in texts)
        yield None
    elif isinstance(value, str) and value[:1].isdecimal():
        yield from ("?", None)
    elif value is not None:
        yield None


def _is_message(row: Row) -> bool:
    """Return whether a row is a message of Kafka: key, value, topic, partition, offset, time and its kind."""
    return len(row) == 7 and isinstance(row[1], bytes) and isinstance(row[2], str)


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class KeyTwins:
    """A feed in which every second row of a key has another spelling of it, or another key altogether."""

    key: str  # the key
    spelled: str  # how the other rows spell it
    alike: list[list[Row]]  # the batches with that
    apart: list[list[Row]]  # the batches with another key there
    other: list[list[Row]]  # the batches with a third one


OTHER = "zq"
"""Choice: what is added to a spelling for another key, in lower case."""


def key_twins(batches: Batches, delivery: RowDelivery) -> KeyTwins | None:
    """Spell the key of every second row otherwise; None: no word comes in two rows. The key is where most words are."""
    words = dict[tuple[int, str], list[str]]()
    for row in chain.from_iterable(batches):
        for path, word in _words(row):
            words.setdefault(path, []).append(word)
    repeated = [path for path, at_path in words.items() if len(set(at_path)) < len(at_path)]
    if not repeated:
        return None
    path = max(repeated, key=lambda path: len(set(words[path])))
    key = next(word for word in words[path] if words[path].count(word) > 1)
    spelled = f"{key} " if delivery is RowDelivery.BLANK else key.swapcase()
    forms = (spelled, spelled + OTHER.upper(), f"{spelled}x{OTHER.upper()}x")
    return KeyTwins(key, spelled, *(_respelled(batches, path, key, form) for form in forms))


def are_split(
    twins: KeyTwins,
    usual: Counter[Any],
    alike: Counter[Any],
    apart: Counter[Any],
    other: Counter[Any],
    *,
    are_one: bool,
) -> bool:
    """Return whether two spellings of a key are one to some code, and two to other.

    What comes out is then neither, or it is of two keys and names them as one.

    Args:
        twins: The rows.
        usual: What comes out of them as they are.
        alike: The same of `KeyTwins.alike`; so are ``apart`` and ``other``. Empty: it cannot be told.
        apart: With another key.
        other: With a third one: what goes by the text of a key is not compared.
        are_one: Whether they are one, so that two are wrong as well.

    """
    one, same, two, third = map(_folded, (usual, alike, apart, other))
    if not (same and two) or two != third or same == one:
        return False
    names_one = not any(twins.spelled in str(item) for item in alike)
    names_two = any(OTHER in str(item).casefold() for item in apart)
    return are_one or same != two or (names_one and names_two)


def _folded(items: Counter[Any]) -> Counter[str]:
    """Return items without what tells the spellings of a key apart."""
    folded = Counter[str]()
    for item, times in items.items():
        text = re.sub(rf"x?{OTHER}x?", "", str(item).casefold())
        folded[re.sub(r"\s+(?=['\"]|$)", "", text)] += times
    return folded


def _words(row: Row) -> Iterator[tuple[tuple[int, str], str]]:
    """Yield the words among a row's values, and in the JSON of a value, each with where it stands."""
    for place, value in enumerate(row):
        known = _parsed(value) if isinstance(value, str | bytes) else None
        named = known.items() if isinstance(known, dict) else [("", value)] if not _is_message(row) else []
        for name, word in named:
            if isinstance(word, str) and _KEY.fullmatch(word):
                yield (place, name), word


_KEY = re.compile(r"[^\W\d_]([\w.@+-]*[^\W_])?")
"""What may be a key: of a text of several words or columns, a part may be the key, and goes by its own spelling."""


def _respelled(batches: Batches, path: tuple[int, str], key: str, form: str) -> list[list[Row]]:
    seen = 0
    respelled = list[list[Row]]()
    for batch in batches:
        respelled.append([])
        for row in batch:
            words = dict(_words(row))
            seen += words.get(path) == key
            values = [*row]
            for (place, name), word in words.items() if words.get(path) == key and seen % 2 == 0 else ():
                if word == key:  # said twice, as in a message's key and in its value
                    values[place] = _with_word(values[place], name, form)
            respelled[-1].append(tuple(values))
    return respelled


def _with_word(value: Any, name: str, word: str) -> Any:
    if not name:
        return word
    text = json.dumps(_parsed(value) | {name: word}, separators=(",", ":"))
    return text.encode() if isinstance(value, bytes) else text


def burst(batches: Batches, rows: int) -> list[Row]:
    """Return this many rows: those of all batches again and again, each time with other numbers or other words."""
    known = [*chain.from_iterable(batches)]
    return (
        [_varied(known[number % len(known)], number // len(known)) for number in range(rows)] if known else []
    )


def _varied(row: Row, number: int) -> Row:
    places = {1, 4} if _is_message(row) else set(range(len(row)))
    varied = tuple(
        _counted_up(value, number) if place in places else value for place, value in enumerate(row)
    )
    if varied != row or not number:
        return varied
    return tuple(f"{value}{number}" if isinstance(value, str) else value for value in row)


def _counted_up(value: Any, number: int) -> Any:
    known = _parsed(value) if isinstance(value, str | bytes) else None
    if isinstance(known, dict):
        text = json.dumps(
            {name: _counted_up(one, number) for name, one in known.items()}, separators=(",", ":")
        )
        return text.encode() if isinstance(value, bytes) else text
    return value + number if isinstance(value, int) and not isinstance(value, bool) else value


def _last(batches: Batches) -> list[list[Row]]:
    if not batches:
        return []
    *earlier, last = batches  # a further batch would have an id of its own, which a sink may keep
    return [*map(list, earlier), [*last, *chain.from_iterable(batches)]]


def _again(batches: Batches) -> list[list[Row]]:
    return [[row for row in batch for _ in range(2)] for batch in batches]


def _later(batches: Batches) -> list[list[Row]]:
    if len(batches) < 2:
        return [*map(list, batches)]
    return [[*batch, *earlier] for earlier, batch in zip([[], *batches], batches, strict=False)]


def _empty(batches: Batches) -> list[list[Row]]:
    return [*map(list, batches[:1]), [], *map(list, batches[1:])]


def _future(batches: Batches) -> list[list[Row]]:
    row = future_row(batches)
    return with_first(batches, () if row is None else (row,))


def _spelled(batches: Batches, delivery: RowDelivery) -> list[list[Row]]:
    twins = key_twins(batches, delivery)
    return [*map(list, batches)] if twins is None else twins.alike


DELIVERIES = {
    RowDelivery.AGAIN: Variation(_again),
    RowDelivery.LATER: Variation(_later),
    RowDelivery.EMPTY: Variation(_empty),
    RowDelivery.SPOILED: Variation(lambda batches: with_first(batches, spoiled_rows(batches))),
    RowDelivery.FUTURE: Variation(_future),
    RowDelivery.LAST: Variation(_last),
    RowDelivery.CASE: Variation(lambda batches: _spelled(batches, RowDelivery.CASE)),
    RowDelivery.BLANK: Variation(lambda batches: _spelled(batches, RowDelivery.BLANK)),
}
"""What each does to batches."""
