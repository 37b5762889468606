"""Consumers of a message log that write a History of records, right and wrong: what twenty lines in any engine can tell.

The log, its offsets and the snapshots are a few dicts, so that the story is short: two consumers share two partitions and count
clicks; the first one dies between its effect and its commit, and the second one takes over. `Bug` has the classic mistakes.
"""

import enum
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace import MILLISECOND, SECOND

PARTITIONS = ("0", "1")
CLICKS = 12

Line = dict[str, Any]
"""A line of the History."""

HEADER: Line = {
    "format": "headrace-history",
    "version": 1,
    "tells": "records",
    "pipeline": "clicks",
    "host": "a message log",
    "graphs": [
        {
            "sources": [{"name": "site", "outputs": ["clicks"]}],
            "stages": [{"name": "counter", "inputs": ["clicks"], "outputs": ["counts"], "in_order": True}],
        }
    ],
}


class Bug(enum.StrEnum):
    """What people get wrong around a consumer's commit."""

    NONE = "none"
    COMMITS_FIRST = "commits first"
    """The offset is committed before the effect: a crash in between loses the record."""
    COMMITS_APART = "commits apart"
    """The effect is stored before the offset, in another transaction: a crash in between doubles it."""
    ZOMBIE = "zombie"
    """The consumer does not notice that its partitions were taken away, and writes on."""
    OLD_SNAPSHOT = "old snapshot"
    """The new owner begins at the committed offset with a state from before."""
    FASTEST_PARTITION = "fastest partition"
    """The watermark is the newest timestamp of any partition, not the least over all."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What is committed of a partition.

    Attributes:
        offset: of the next record.
        counts: clicks by key.
        latest: id of the last counted click by key.
    """

    offset: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    latest: Mapping[str, str] = field(default_factory=dict)


Store = dict[str, Committed]


class Consumer:
    """A consumer of the log, which tells what counts.

    Args:
        name: of the process.
        store: what is committed by partition; what consumers share.
        bug: what it gets wrong.
    """

    def __init__(self, name: str, store: Store, bug: Bug = Bug.NONE) -> None:
        self.name = name
        self.bug = bug
        self._store = store
        self._mine: Store = {}
        self._seen: dict[str, int] = {}

    def _line(self, type_: str, **fields: Any) -> Line:
        return {"type": type_, "process": self.name, "stage": "counter", **fields}

    def take_over(self, partition: str) -> Iterator[Line]:
        """Become the owner of a partition."""
        committed = self._store.get(partition, Committed())
        self._mine[partition] = committed
        yield self._line("owns", partition=partition)
        for key, count in committed.counts.items():
            value = count - 1 if self.bug is Bug.OLD_SNAPSHOT else count
            yield self._line("state", key=key, as_of=committed.latest[key], value=value)

    def has_more(self, partition: str, log: list[Line]) -> bool:
        """Return whether it has not processed the whole partition."""
        return self._mine[partition].offset < len(log)

    def step(self, partition: str, log: list[Line], *, crash: bool = False) -> Iterator[Line]:
        """Process the next record. ``crash``: die between the two commits, if they are two; else before the only one."""
        mine = self._mine[partition]
        click = log[mine.offset]
        key, record_id = click["key"], click["id"]
        count = mine.counts.get(key, 0) + 1
        after = Committed(mine.offset + 1, {**mine.counts, key: count}, {**mine.latest, key: record_id})
        if self.bug is Bug.COMMITS_FIRST:
            self._store[partition] = replace(mine, offset=after.offset)
        if crash and self.bug is not Bug.COMMITS_APART:
            return
        self._mine[partition] = after
        self._store[partition] = replace(after, offset=mine.offset) if crash else after
        yield self._line("in", **click, partition=partition)
        yield self._line("state", key=key, as_of=record_id, value=count)
        fields = {"key": key, "timestamp": click["timestamp"], "cause": record_id, "value": count}
        yield self._line("out", id=f"{record_id}/count", **fields)
        if not crash:
            yield self._watermark(partition, click["timestamp"])

    def _watermark(self, partition: str, timestamp: int) -> Line:
        self._seen[partition] = timestamp
        seen = [self._seen.get(name, 0) for name in self._mine]
        return self._line(
            "watermark", timestamp=max(seen) if self.bug is Bug.FASTEST_PARTITION else min(seen)
        )

    def finish(self) -> Line:
        """End: all input has been processed."""
        return self._line("watermark", timestamp=CLICKS * SECOND)


def story(bug: Bug = Bug.NONE) -> Iterator[Line]:
    """Run the consumers, and yield the lines of the History."""
    yield HEADER
    for number, line in enumerate(_run(bug)):
        yield {**line, "at": number * MILLISECOND}


def _run(bug: Bug) -> Iterator[Line]:
    logs: dict[str, list[Line]] = {partition: [] for partition in PARTITIONS}
    site = {"process": "site-1", "stage": "site"}
    for number in range(CLICKS):
        partition = PARTITIONS[number % 2]
        record_id, timestamp = f"clicks/{partition}:{number // 2}", number * SECOND
        click = {"id": record_id, "key": f"user-{number % 4}", "timestamp": timestamp}
        logs[partition].append(click)
        yield {"type": "out", **site, **click, "partition": partition}
        yield {"type": "watermark", **site, "timestamp": timestamp}
    store: Store = {}
    first, second = Consumer("consumer-1", store, bug), Consumer("consumer-2", store, bug)
    for partition in PARTITIONS:
        yield from first.take_over(partition)
    for _ in range(2):
        for partition in PARTITIONS:
            yield from first.step(partition, logs[partition])
    yield from first.step("0", logs["0"], crash=True)
    for partition in PARTITIONS:
        yield from second.take_over(partition)
    if bug is Bug.ZOMBIE:
        yield from first.step("1", logs["1"])
    for partition in PARTITIONS:  # one after the other: the slow one must hold the watermark back
        while second.has_more(partition, logs[partition]):
            yield from second.step(partition, logs[partition])
    yield second.finish()
    yield {"type": "end"}


def write_story(path: Path, bug: Bug = Bug.NONE) -> None:
    """Write the History to a file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in story(bug)))
