"""Reorder the records of a feed at the same arrival times, or delay them in the same order."""

from collections.abc import Callable, Sequence
from random import Random

import msgspec

from headrace import MINUTE, SECOND, DeadLetter, MalformedRecordError, Pipeline
from headrace.injector.injection import productions_of
from headrace.wire.effects import SourceEvent, SourceRecord
from headrace_sim import Feed
from headrace_sim.feed import FeedEntry, ends_source

_LAGS_US = (0, SECOND, MINUTE)
_CHANGES = 0.1
"""Probability that a source's lag changes at an entry."""
_SKIPPED = (0.0, 0.5, 1.0)
"""Probabilities of skipping a watermark; one is drawn per feed."""


def permuted(feed: Feed, random: Random) -> Feed:
    """Shuffle the records of each source, so that none becomes late, and number them anew. Some watermarks may be left out."""
    skipped = 0.0 if has_late_records(feed) else random.choice(_SKIPPED)
    return _numbered(shuffled(_sparser(feed, lambda: random.random() >= skipped), random))


def shuffled(feed: Feed, random: Random) -> list[FeedEntry]:
    """Shuffle records as `permuted`, but let each keep its offset, and so its id: the sequential reference takes them so."""
    entries = list(feed.entries)
    spans: dict[str, list[int]] = {}
    for place, entry in enumerate(feed.entries):
        span = spans.setdefault(entry.address, [])
        if isinstance(entry.event, SourceRecord):
            span.append(place)
        else:
            _shuffle(entries, span, random)
            span.clear()
    return entries


def with_last_watermarks(feed: Feed) -> Feed:
    """Leave out all watermarks but the last of each source: its records may then come in any order. No record may be late."""
    return _sparser(feed, lambda: False)


def _sparser(feed: Feed, keeps: Callable[[], bool]) -> Feed:
    """Leave out watermarks, but never the last of a source. ``keeps``: decides on each."""
    last = _last_watermarks(feed)
    kept = [
        entry for place, entry in enumerate(feed.entries)
        if isinstance(entry.event, SourceRecord) or place in last or keeps()
    ]  # fmt: skip
    return Feed(tuple(kept))


def _last_watermarks(feed: Feed) -> frozenset[int]:
    """Return the place of each source's last watermark."""
    last = {
        entry.address: place
        for place, entry in enumerate(feed.entries)
        if not isinstance(entry.event, SourceRecord)
    }
    return frozenset(last.values())


def slower(feed: Feed, random: Random) -> Feed:
    """Let each source lag occasionally and skip some watermarks (never the last); no record becomes late."""
    last = _last_watermarks(feed)
    skipped, entries = random.choice(_SKIPPED), []
    lags: dict[str, int] = {}
    arrived: dict[str, int] = {}
    for place, entry in enumerate(feed.entries):
        address = entry.address
        if address not in lags or random.random() < _CHANGES:
            lags[address] = random.choice(_LAGS_US)
        if not isinstance(entry.event, SourceRecord) and place not in last and random.random() < skipped:
            continue
        at_us = arrived[address] = max(arrived.get(address, 0), entry.at_us + lags[address])
        event = msgspec.structs.replace(entry.event, arrived_us=at_us)
        entries.append(msgspec.structs.replace(entry, at_us=at_us, event=event))
    return Feed(tuple(sorted(entries, key=lambda entry: entry.at_us)))


def prompter(feed: Feed) -> Feed:
    """Let each watermark promise the lowest timestamp that its source still has, as a source may that knows; none may be late."""
    least: dict[str, int] = {}
    entries = []
    for entry in reversed(feed.entries):
        event = entry.event
        known = least.get(entry.address)
        if isinstance(event, SourceRecord):
            least[entry.address] = event.timestamp if known is None else min(known, event.timestamp)
        elif known is not None:
            event = msgspec.structs.replace(event, low_watermark=known)
        entries.append(msgspec.structs.replace(entry, event=event))
    return Feed(tuple(reversed(entries)))


def postponed(feed: Feed, by_us: int) -> Feed:
    """Let everything arrive later by the same time: by wall time all of it is old."""
    entries = []
    for entry in feed.entries:
        at_us = entry.at_us + by_us
        event = msgspec.structs.replace(entry.event, arrived_us=at_us)
        entries.append(msgspec.structs.replace(entry, at_us=at_us, event=event))
    return Feed(tuple(entries))


def records_of(feed: Feed) -> list[tuple[FeedEntry, SourceRecord]]:
    """Return the records of a feed, each with its entry."""
    return [(entry, entry.event) for entry in feed.entries if isinstance(entry.event, SourceRecord)]


def twice(feed: Feed) -> Feed:
    """Let each record come twice, one behind the other."""
    return _numbered(
        [entry for entry in feed.entries for _ in range(1 + isinstance(entry.event, SourceRecord))]
    )


def at_end(feed: Feed, more: Sequence[FeedEntry]) -> Feed:
    """Let more entries come behind all others; only then do the sources end."""
    ends = [entry for entry in feed.entries if ends_source(entry.event)]
    others = [entry for entry in feed.entries if not ends_source(entry.event)]
    last = [msgspec.structs.replace(entry, at_us=feed.end_us) for entry in (*more, *ends)]
    return _numbered([*others, *last])


def with_record(feed: Feed, behind: FeedEntry, *events: SourceEvent) -> Feed:
    """Let more events come from the source of an entry, behind that entry."""
    more = [msgspec.structs.replace(behind, event=event) for event in events]
    place = feed.entries.index(behind) + 1
    return _numbered([*feed.entries[:place], *more, *feed.entries[place:]])


def resting(feed: Feed, address: str, *, watermarks: bool = False) -> Feed:
    """Let a source give nothing until it ends. ``watermarks``: it still reports its low watermarks."""
    kept = [
        entry for entry in feed.entries
        if entry.address != address or ends_source(entry.event) or (watermarks and not isinstance(entry.event, SourceRecord))
    ]  # fmt: skip
    return _numbered(kept)


def has_dead_letters(pipeline: Pipeline, feed: Feed) -> bool:
    """Return whether an injector turns a record into a dead letter, which names its offset and arrival."""
    for entry in feed.entries:
        spec = pipeline.injectors[entry.address.partition("/")[0]]
        if isinstance(entry.event, SourceRecord) and isinstance(spec.on_malformed, DeadLetter):
            try:
                productions_of(pipeline, entry.address, spec.outputs, entry.event, 0)
            except MalformedRecordError:
                return True
    return False


def has_late_records(feed: Feed) -> bool:
    """Return whether a source delivers a record behind its own low watermark (4.5)."""
    return len(feed.on_time()) < feed.records


def without_late_records(feed: Feed) -> Feed:
    """Leave out the records that a source delivers behind its own low watermark (4.5)."""
    return feed.only(feed.on_time()) if has_late_records(feed) else feed


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
