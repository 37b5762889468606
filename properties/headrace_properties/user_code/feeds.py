"""A feed, changed: in another order. Times of arrival and source watermarks stay where they were."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

import msgspec

from headrace import MIN_TIME
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace_sim import Feed
from headrace_sim.feed import FeedEntry


def permuted(feed: Feed, random: Random) -> Feed:
    """Let records change places with those that arrive before the same watermark of their source: none becomes late by it."""
    entries = list(feed.entries)
    spans: dict[str, list[int]] = {}
    for place, entry in enumerate(feed.entries):
        span = spans.setdefault(entry.address, [])
        if isinstance(entry.event, SourceRecord):
            span.append(place)
        else:
            _shuffle(entries, span, random)
            span.clear()
    return _numbered(entries)


def has_late_records(feed: Feed) -> bool:
    """Tell whether a source brings a record behind its own low watermark (4.5)."""
    promised: dict[str, int] = {}
    for entry in feed.entries:
        match entry.event:
            case SourceWatermark(low_watermark=low_watermark):
                promised[entry.address] = max(promised.get(entry.address, MIN_TIME), low_watermark)
            case SourceRecord(timestamp=timestamp) if timestamp < promised.get(entry.address, MIN_TIME):
                return True
    return False


def smallest(kept: tuple[int, ...], fails: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """Drop records as long as it still fails: halves first, then single ones, until none can be spared (delta debugging)."""
    size = max(len(kept) // 2, 1)
    while kept:
        spared = next((rest for rest in _rests(kept, size) if fails(rest)), None)
        if spared is not None:
            kept = spared
        elif size == 1:
            break
        else:
            size //= 2
    return kept


def _rests(kept: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    return (kept[:begin] + kept[begin + size :] for begin in range(0, len(kept), size))


def _shuffle(entries: list[FeedEntry], span: Sequence[int], random: Random) -> None:
    events = [entries[place].event for place in span]
    random.shuffle(events)
    for place, event in zip(span, events, strict=True):
        entries[place] = msgspec.structs.replace(entries[place], event=event)


def _numbered(entries: Sequence[FeedEntry]) -> Feed:
    """Renumber the offsets, and stamp each event with its arrival."""
    offsets: dict[str, int] = {}
    numbered = []
    for entry in entries:
        offset = offsets.get(entry.address, 0)
        offsets[entry.address] = offset + 1
        event = msgspec.structs.replace(entry.event, offset=offset, arrived_us=entry.at_us)
        numbered.append(msgspec.structs.replace(entry, event=event))
    return Feed(tuple(numbered))
