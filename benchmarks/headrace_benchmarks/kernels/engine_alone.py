"""The engine alone, compared with a minimal engine loop: the cost of a delivery without any simulation.

Both use a queue and one pattern: a keyed stage sums values and sends them on, re-keyed, to a second stage. Each
delivery is deduplicated, runs user code on the decoded state of its key, is committed under a sequencer together with its
production, and is ACKed; the production is kept until it is ACKed, and then its checkpoint is deleted.

The minimal loop does only that, with one record per commit: no timers, watermarks, retries, cache, recovery or failures.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from headrace import EngineOptions
from headrace.wire.rows import Production
from headrace_benchmarks.kernels.loop import EngineLoop
from headrace_benchmarks.kernels.rounds import rate
from headrace_benchmarks.shuffle import FIRST_STRIDE, KEYS, SECOND_STRIDE, ShuffleOptions, shuffle_pipeline

WORKERS = 200
AT_ONCE = 1_000
"""The number of records sent before any reply is handled, like the records in flight in a cluster."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def engine_rate(records: int) -> float:
    """Return the deliveries per CPU second of the engine alone; each record makes two."""
    options = ShuffleOptions(workers=WORKERS)
    pipeline = shuffle_pipeline(options)
    engine = EngineOptions(commits_in_flight=options.commits_in_flight)
    loop = EngineLoop(pipeline, WORKERS, engine)
    lows = ["", *pipeline.computations["a"].split_at]

    def batch(numbers: range) -> Iterator[tuple[str, Production]]:
        for number in numbers:
            key = _key(number * FIRST_STRIDE)
            production = Production(f"source:{number}", "first", "a", key, _encode(number), number, number)
            yield f"worker-{bisect_right(lows, key) - 1}", production

    def run() -> None:
        for first in range(0, records, AT_ONCE):
            loop.deliver(batch(range(first, min(first + AT_ONCE, records))))

    return rate(2 * records, run)


def minimal_rate(records: int) -> float:
    """Return the deliveries per CPU second of the minimal loop."""
    loop = MinimalLoop(WORKERS)

    def run() -> None:
        for first in range(0, records, AT_ONCE):
            loop.deliver(range(first, min(first + AT_ONCE, records)))

    per_second = rate(2 * records, run)
    assert loop.applied == 2 * records, f"{loop.applied} deliveries were applied, not {2 * records}"
    return per_second


def _key(number: int) -> str:
    return f"{number % KEYS:05d}"


class _Row:
    """A key's row in the store."""

    __slots__ = ("checkpoints", "seen", "state", "version")

    def __init__(self) -> None:
        self.version = 0
        self.state = b"0"
        self.seen: set[str] = set()
        self.checkpoints: dict[str, _Message] = {}


class _Message(msgspec.Struct, gc=False):
    """A record in flight. ``source``: the key whose row has its checkpoint."""

    record_id: str
    stage: int
    key: str
    value: bytes
    source: str


class MinimalLoop:
    """Two stages with one store, written by hand.

    Attributes:
        applied: number of applied deliveries.
    """

    def __init__(self, workers: int) -> None:
        self.applied = 0
        self._intervals = workers // 2
        self._live = [dict.fromkeys(range(self._intervals), 1) for _ in range(2)]
        self._seen = [[set[str]() for _ in range(self._intervals)] for _ in range(2)]
        self._rows: list[dict[str, _Row]] = [{}, {}]
        self._versions: list[dict[str, int]] = [{}, {}]
        self._states: list[dict[str, bytes]] = [{}, {}]
        self._busy: list[dict[str, deque[_Message]]] = [{}, {}]
        self._unacked: dict[str, _Message] = {}
        self._queue: deque[tuple[Any, Any]] = deque()

    def deliver(self, numbers: range) -> None:
        """Send these records, and handle everything that follows."""
        queue = self._queue
        for number in numbers:
            message = _Message(f"source:{number}", 0, _key(number * FIRST_STRIDE), _encode(number), "")
            queue.append((self._on_record, message))
        while queue:
            handler, argument = queue.popleft()
            handler(argument)

    def _interval(self, key: str) -> int:
        return int(key) * self._intervals // KEYS

    def _on_record(self, message: _Message) -> None:
        stage, key = message.stage, message.key
        if message.record_id in self._seen[stage][self._interval(key)]:
            self._queue.append((self._on_ack, message))
            return
        busy = self._busy[stage]
        waiting = busy.get(key)
        if waiting is not None:
            waiting.append(message)
            return
        busy[key] = deque()
        self._step(message)

    def _step(self, message: _Message) -> None:
        """Run user code, and send its commit."""
        stage, key = message.stage, message.key
        value, total = _decode(message.value), _decode(self._states[stage].get(key, b"0"))
        version = self._versions[stage].get(key, 0) + 1
        production = None
        if stage == 0:
            production = _Message(f"{key}@{version}", 1, _key(value * SECOND_STRIDE), _encode(value), key)
        self._queue.append((self._on_write, (message, version, _encode(total + value), production, 1)))

    def _on_write(self, write: tuple[_Message, int, bytes, _Message | None, int]) -> None:
        """Apply one atomic write at the store, if its sequencer is live."""
        message, version, state, production, sequencer = write
        stage, key = message.stage, message.key
        if sequencer != self._live[stage][self._interval(key)]:
            return
        row = self._rows[stage].get(key)
        if row is None:
            row = self._rows[stage][key] = _Row()
        if version > row.version:
            row.version, row.state = version, state
            row.seen.add(message.record_id)
            if production is not None:
                row.checkpoints[production.record_id] = production
            self.applied += 1
        self._queue.append((self._on_written, write))

    def _on_written(self, write: tuple[_Message, int, bytes, _Message | None, int]) -> None:
        """ACK the record, send the production, and continue with the key's next record."""
        message, version, state, production, _ = write
        stage, key = message.stage, message.key
        self._versions[stage][key], self._states[stage][key] = version, state
        self._seen[stage][self._interval(key)].add(message.record_id)
        self._queue.append((self._on_ack, message))
        if production is not None:
            self._unacked[production.record_id] = production
            self._queue.append((self._on_record, production))
        waiting = self._busy[stage][key]
        if waiting:
            self._step(waiting.popleft())
        else:
            del self._busy[stage][key]

    def _on_ack(self, message: _Message) -> None:
        if message.stage and self._unacked.pop(message.record_id, None) is not None:
            self._queue.append((self._on_delete, message))

    def _on_delete(self, message: _Message) -> None:
        self._rows[0][message.source].checkpoints.pop(message.record_id, None)
