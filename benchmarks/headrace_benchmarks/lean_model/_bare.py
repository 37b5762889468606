"""The bare model: the message pattern on a network that loses nothing."""

import random
from collections.abc import Callable
from typing import TypeVar

from headrace_benchmarks.lean_model._data import (
    Commit,
    Deletion,
    Process,
    Record,
    Row,
    StoredRow,
    processes_of,
    production_of,
    rows_of,
)
from headrace_benchmarks.lean_model._kernels import Kernel
from headrace_benchmarks.lean_model._options import LeanOptions

_A = TypeVar("_A")


class BareModel:
    """The message pattern on a network that loses nothing, without trace and audit."""

    def __init__(self, options: LeanOptions, kernel: Kernel) -> None:
        self._kernel = kernel
        self._options = options
        self._draw = random.Random(f"bare {options.seed}").random
        self._latency_us = options.latency_us
        self._jitter_us = options.jitter_us
        self._injected = 0
        injectors, workers = processes_of(options)
        self.rows = rows_of(options, workers)
        self.store = [StoredRow() for _ in self.rows]
        self.sequencers = [0] * len(workers)
        for injector in injectors:
            kernel.call_later(options.tick_us * injector.index // len(injectors), self._on_tick, injector)

    def deliveries(self) -> int:
        """Return the number of records applied so far, in both stages."""
        return sum(stored.version for stored in self.store)

    def _send(self, fn: Callable[[_A], None], arg: _A) -> None:
        self._kernel.call_later(self._latency_us + int(self._draw() * self._jitter_us), fn, arg)

    def _on_tick(self, injector: Process) -> None:
        origin = self._injected
        if origin == self._options.records:
            return
        self._injected = origin + 1
        row = self.rows[int(self._draw() * (len(self.rows) // 2))]
        self._owe(Record(origin, origin, self._kernel.now, row, injector, source=None))
        self._kernel.call_later(self._options.tick_us, self._on_tick, injector)

    def _owe(self, record: Record) -> None:
        record.sender.pending[record.id] = record
        self._send(self._on_record, record)

    def _on_record(self, record: Record) -> None:
        row = record.row
        if record.id in row.worker.seen:
            self._send(self._on_ack, record)
        elif row.in_flight is None:
            row.in_flight = record
            self._step(record, row)
        else:
            row.waiting.append(record)

    def _step(self, record: Record, row: Row) -> None:
        worker, version, total = row.worker, row.version + 1, row.total + record.origin
        production = None
        if worker.stage == 1:
            production = production_of(record, version, self.rows, self._options.records)
        self._send(self._on_commit, (record, worker.sequencer, version, total, production))

    def _on_commit(self, commit: Commit) -> None:
        record, sequencer, version, total, production = commit
        row = record.row
        if sequencer == self.sequencers[row.worker.index]:
            stored = self.store[row.index]
            stored.version = version
            stored.total = total
            stored.seen.add(record.id)
            if production is not None:
                stored.checkpoints[production.id] = production
            self._send(self._on_committed, commit)

    def _on_committed(self, commit: Commit) -> None:
        record, _, version, total, production = commit
        row = record.row
        row.version = version
        row.total = total
        row.in_flight = None
        row.worker.seen.add(record.id)
        self._send(self._on_ack, record)
        if production is not None:
            self._owe(production)
        if row.waiting:
            self._on_record(row.waiting.pop(0))

    def _on_ack(self, record: Record) -> None:
        if record.source is None:
            del record.sender.pending[record.id]
        else:
            self._send(self._on_delete, (record, record.source, record.sender.sequencer))

    def _on_delete(self, deletion: Deletion) -> None:
        record, source, sequencer = deletion
        if sequencer == self.sequencers[source.worker.index]:
            del self.store[source.index].checkpoints[record.id]
            self._send(self._on_deleted, record)

    def _on_deleted(self, record: Record) -> None:
        del record.sender.pending[record.id]
