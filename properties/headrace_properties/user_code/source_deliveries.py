"""What a pipeline makes of records as their source really delivers them, without any other fault: hosted by the reference.

What a source may always do is told: a record that does not parse or has a null, one of the far future, a source that rests, a
record behind its own low watermark. A record that comes again is judged where `FeedSource` says that it may.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from headrace import MIN_TIME, HeadraceError, MalformedRecordError, Pipeline
from headrace.api.errors import UserCodeError
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace_properties.printable import describe_record
from headrace_properties.reference import Emitted, RunResult, run_reference
from headrace_properties.search.limits import CodeOverrunError
from headrace_properties.user_code.comparison import OutputComparison, leveled, same_output, without_ids
from headrace_properties.user_code.feeds import at_end, records_of, resting, twice, with_record
from headrace_properties.user_code.hosting import with_fresh_code
from headrace_properties.user_code.settled_runs import settling_of
from headrace_sim import Feed
from headrace_sim.deliveries import (
    FAR_YEAR,
    Batches,
    FeedSource,
    RowDelivery,
    are_split,
    at_instant,
    in_future,
    key_twins,
    spoiled_rows,
)
from headrace_sim.feed import FeedEntry, ends_source

ODD_DAYS = ("2030-01-31T12:00Z", "2028-02-29T12:00Z", "2030-03-31T01:30Z", "2030-03-10T07:30Z")
"""Choice: a day that the next month has not, a leap day, and hours behind those that Europe and America leave out."""
_WEEKS = timedelta(weeks=3)
_CENTURY_US = 70 * 365 * 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class Redelivered:
    """What a pipeline does wrong with an input that comes otherwise.

    Attributes:
        detail: how it shows, in a sentence.
        title: how the other input comes.
        usual: the input as it should come.
        other: the input that comes otherwise.
    """

    detail: str
    title: str
    usual: Feed
    other: Feed


@dataclass(frozen=True)
class SourceDeliveries:
    """A pipeline on an input that comes otherwise.

    Attributes:
        pipeline: it.
        feed: the input as it should come.
        source: what its source promises.
    """

    pipeline: Pipeline
    feed: Feed
    source: FeedSource
    _known: dict[Feed, RunResult | HeadraceError] = field(default_factory=dict, repr=False, compare=False)

    def counts_again(self) -> Redelivered | None:
        """Return how records that come again, soon or behind all others, change what comes out; None: they do not, or may not."""
        if self.source.once is not False:
            return None
        for how, feed in self._again.items():
            if (difference := self._differing(self._calm, feed)) is not None:
                detail = f"records that come again {how} change what comes out: {self._sentence(difference)}"
                return Redelivered(detail, f"With records that come again {how}", self._calm, feed)
        return None

    def splits_keys(self) -> Redelivered | None:
        """Return how two spellings of one key are taken for two keys; None: they are not, or no one declared them alike."""
        return self._split() if self.source.keys_alike else None

    def notes(self) -> Iterator[str]:
        """Yield what the code, or the low watermark, does to other deliveries."""
        yield from self._forgotten()
        if self.source.keys_alike is None and (split := self._split()) is not None:
            yield (
                f"{split.detail}. Normalize keys where they are extracted, record.value[...].strip().lower(); or say what they "
                "are: source = FeedSource(keys_alike=...)"
            )
        yield from self._spoiled()
        yield from self._future()
        yield from self._on_days()
        yield from self._resting()
        yield from self._behind()

    @cached_property
    def _calm(self) -> Feed:
        return at_end(self.feed, ())

    @cached_property
    def _again(self) -> dict[str, Feed]:
        again = [entry for entry, _ in records_of(self.feed)]
        return {"at once": twice(self._calm), "behind all others": at_end(self.feed, again)}

    def _split(self) -> Redelivered | None:
        """Let keys come in other case, or with a blank at their end; return how the code takes them for two, if it does."""
        records = [[(record.key, record.value)] for _, record in records_of(self.feed)]
        for delivery in (RowDelivery.CASE, RowDelivery.BLANK):
            twins = key_twins(records, delivery)
            if twins is None:
                return None
            usual, *left = map(self._come_out, (records, twins.alike, twins.apart, twins.other))
            if are_split(twins, usual, *left, are_one=self.source.keys_alike is True):
                more = next(iter(left[0] - usual), "less").partition(" on ")[0]
                how = (
                    "and the code takes them for two"
                    if self.source.keys_alike
                    else "key to a part of the code, and two to another"
                )
                detail = (
                    f"the keys {twins.key!r} and {twins.spelled!r} are one {how}: the output has {more:.120}"
                )
                title = f"With {twins.spelled!r} for {twins.key!r} in every second of its records"
                return Redelivered(detail, title, self.feed, self._with_rows(twins.alike))
        return None

    def _come_out(self, rows: Batches) -> Counter[str]:
        """Return what comes out if the records have these keys and values; nothing if the run stops."""
        settled = self._settled(self._with_rows(rows))
        outputs = Counter[str]()
        for emitted, times in (settled or Counter[Emitted]()).items():
            value = emitted.value.decode(errors="backslashreplace")
            outputs[f"{value} for key {emitted.key!r} on {emitted.stream} at {emitted.timestamp}"] += times
        return outputs

    def _with_rows(self, rows: Batches) -> Feed:
        """Return the input with these keys and values of its records."""
        changed = iter(row for batch in rows for row in batch)
        entries = []
        for entry in self.feed.entries:
            event = entry.event
            if isinstance(event, SourceRecord):
                key, value = next(changed)
                event = msgspec.structs.replace(event, key=key, value=value)
            entries.append(msgspec.structs.replace(entry, event=event))
        return Feed(tuple(entries))

    def _forgotten(self) -> Iterator[str]:
        if self.source.once is not None or not self._outputs(self._calm):
            return
        soon, late = (self._differing(self._calm, feed) for feed in self._again.values())
        if soon is None and late is not None:
            yield (
                f"a record that comes again at once is counted once, and behind all others again: {self._sentence(late)}. Say if "
                "its source does that: source = FeedSource(once=...)"
            )

    def _spoiled(self) -> Iterator[str]:
        stopped = set[type[HeadraceError]]()
        for entry, first in records_of(self.feed)[:1]:
            for record in _spoiled(first):
                error = self._run(with_record(self.feed, entry, record))
                if isinstance(error, MalformedRecordError | UserCodeError) and type(error) not in stopped:
                    stopped.add(type(error))
                    yield f"one bad record stops the run, such as {self._shown(record)}: {_stop(error)}"

    def _future(self) -> Iterator[str]:
        """Let a source's watermark follow the latest timestamp that it has seen."""
        for entry, first in records_of(self.feed)[:1]:
            far_us = max(record.timestamp for _, record in records_of(self.feed)) + _CENTURY_US
            ahead = msgspec.structs.replace(first, value=in_future(first.value), timestamp=far_us)
            jump = SourceWatermark(0, far_us)
            calm, other = with_record(self.feed, entry, ahead), with_record(self.feed, entry, ahead, jump)
            difference = self._differing(calm, other)
            if difference is not None and difference.only_first:
                many = f"{difference.only_first.total()} of what comes out is missing or another"
                yield (
                    f"behind one record of the year {FAR_YEAR}, {many}, if the source's watermark follows the latest timestamp: "
                    "all later records are late. Let the clock bound the watermark"
                )

    def _on_days(self) -> Iterator[str]:
        """Let the first record come on a day that code forgets, and three weeks earlier."""
        first = self.feed.only(range(1))
        alone = [
            entry
            for entry in first.entries
            if isinstance(entry.event, SourceRecord) or ends_source(entry.event)
        ]
        for day in map(datetime.fromisoformat, ODD_DAYS):
            usual, odd = (
                self._run(Feed(tuple(_moved(entry, at) for entry in alone))) for at in (day - _WEEKS, day)
            )
            if isinstance(odd, UserCodeError) and isinstance(usual, RunResult):
                yield (
                    f"a record of {day:%Y-%m-%d %H:%M} UTC stops the run, and one of three weeks earlier does not: {_stop(odd)}"
                )
                return

    def _resting(self) -> Iterator[str]:
        addresses = list(dict.fromkeys(entry.address for entry in self.feed.entries))
        for address in addresses if len(addresses) > 1 else ():
            silent = resting(self.feed, address)
            alone = resting(self.feed, address, watermarks=True)
            waits = _before_the_end(alone, self._outputs) - _before_the_end(silent, self._outputs)
            if waits:
                yield (
                    f"while {address} rests and reports no low watermark, {waits.total()} of what comes out waits, and state "
                    "grows: let a source that has nothing report how far it is"
                )
                return

    def _behind(self) -> Iterator[str]:
        """Let the first record come behind all others, where its source's low watermark has passed it by then."""
        for entry, record in records_of(self.feed)[:1]:
            without = self.feed.only(range(1, self.feed.records))
            late = at_end(without, [entry])
            is_late = record.timestamp < _passed(self.feed, entry.address)
            if (
                is_late
                and self._differing(self._calm, late)
                and not self._differing(at_end(without, ()), late)
            ):
                yield (
                    f"a record behind the low watermark of its source leaves no trace, such as {self._shown(record)}: let the "
                    "watermark wait longer, allow lateness, or send late records elsewhere"
                )

    def _differing(self, calm: Feed, other: Feed) -> OutputComparison | None:
        """Return how what comes out differs; None: it does not, or a run stops, which others tell."""
        first, second = self._settled(calm), self._settled(other)
        if first is None or second is None:
            return None
        comparison = same_output(first, second)
        return None if comparison.same else comparison

    def _settled(self, feed: Feed) -> Counter[Emitted] | None:
        result, settling = self._run(feed), settling_of(self.pipeline, feed)
        if not isinstance(result, RunResult):
            return None
        result = without_ids(result, self.pipeline)
        return leveled(result, self.pipeline).outputs if settling is None else settling.outputs(result)

    def _outputs(self, feed: Feed) -> Counter[Emitted]:
        result = self._run(feed)
        return result.outputs if isinstance(result, RunResult) else Counter()

    def _run(self, feed: Feed) -> RunResult | HeadraceError:
        if feed not in self._known:
            try:
                self._known[feed] = run_reference(with_fresh_code(self.pipeline), feed)
            except (HeadraceError, CodeOverrunError, SystemExit) as error:
                self._known[feed] = error if isinstance(error, HeadraceError) else HeadraceError(str(error))
        return self._known[feed]

    def _sentence(self, difference: OutputComparison) -> str:
        side, record = difference.examples()[0]
        value = record.value.decode(errors="backslashreplace")
        return f"the output {'lacks' if side == 'first' else 'has also'} {value:.80} for key {record.key!r}"

    def _shown(self, record: SourceRecord) -> str:
        return describe_record(self.pipeline, record)


def _moved(entry: FeedEntry, at: datetime) -> FeedEntry:
    """Return a record that says that it is of an instant; an end as it is."""
    if not isinstance(entry.event, SourceRecord):
        return entry
    value, at_us = (
        at_instant(entry.event.value, at, at.replace(tzinfo=None)),
        round(at.timestamp()) * 1_000_000,
    )
    return msgspec.structs.replace(
        entry, event=msgspec.structs.replace(entry.event, value=value, timestamp=at_us)
    )


def _before_the_end(feed: Feed, outputs: Callable[[Feed], Counter[Emitted]]) -> Counter[Emitted]:
    """Return what comes out before the sources end."""
    return outputs(Feed(tuple(entry for entry in feed.entries if not ends_source(entry.event))))


def _spoiled(record: SourceRecord) -> Iterator[SourceRecord]:
    for (value,) in spoiled_rows([[(record.value,)]]):
        if value is not None:
            yield msgspec.structs.replace(record, value=value)


def _passed(feed: Feed, address: str) -> int:
    """Return the last low watermark that a source reports before it ends."""
    events = (
        entry.event for entry in feed.entries if entry.address == address and not ends_source(entry.event)
    )
    return max(
        (event.low_watermark for event in events if isinstance(event, SourceWatermark)), default=MIN_TIME
    )


def _stop(error: MalformedRecordError | UserCodeError) -> str:
    """Return why the run stops, and what to do."""
    if isinstance(error, MalformedRecordError):
        return str(error).rstrip(".")
    cause = error.traceback.strip().splitlines()[-1]
    return f"{error.computation!r} raises {cause.rstrip('.')}. Handle it, or give it on_failure=DeadLetter(stream)"
