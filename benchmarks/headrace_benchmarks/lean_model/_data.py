"""The data of both models: processes, rows, records, and stored rows."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from headrace_benchmarks.lean_model._options import LeanOptions

STAGES: Final = 2

# Compared by identity and without a repr, since they form reference cycles.


@dataclass(slots=True, eq=False, repr=False)
class Process:
    """An injector (stage 0) or a worker with its key interval (stage 1 or 2)."""

    index: int
    stage: int
    sequencer: int = 0
    """The latest sequencer that it knows."""
    seen: set[int] = field(default_factory=set)
    """Ids of the records that it has applied."""
    pending: dict[int, Record] = field(default_factory=dict)
    """Sent records that are not settled, by id: not ACKed, or ACKed but their checkpoint not yet deleted."""
    unacked: deque[Record] = field(default_factory=deque)
    """The same records, ordered by their next retry; settled ones stay until a sweep reaches them."""
    sweeping: bool = False
    reported_us: int = 0
    """The last low watermark that it reported."""


@dataclass(slots=True, eq=False, repr=False)
class Row:
    """One key of one stage, as its worker holds it in memory."""

    index: int
    worker: Process
    version: int = 0
    """Version of the last commit that the store confirmed."""
    total: int = 0
    """The user's state as of that version: the sum of all records' values."""
    in_flight: Record | None = None
    """The record whose commit is in flight; at most one per key."""
    waiting: list[Record] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Record:
    """A record in flight from its sender to the owner of its row."""

    id: int
    origin: int
    """The number of the injected record that it is, or comes from; also its value."""
    timestamp_us: int
    row: Row
    sender: Process
    source: Row | None
    """The row that produced it and has its checkpoint; ``None`` if it was injected."""
    acked: bool = False
    due_us: int = 0
    """The time of its next retry."""


@dataclass(slots=True, eq=False, repr=False)
class StoredRow:
    """One key of one stage, as the store holds it (MillWheel 6.2: one row, one write)."""

    version: int = 0
    total: int = 0
    seen: set[int] = field(default_factory=set)
    checkpoints: dict[int, Record] = field(default_factory=dict)


Commit = tuple[Record, int, int, int, Record | None]
"""(record, sequencer, row version, total, production): a tuple, because every delivery builds one."""
Deletion = tuple[Record, Row, int]
"""(production whose checkpoint to delete, row that has it, sequencer)."""


def processes_of(options: LeanOptions) -> tuple[list[Process], list[Process]]:
    """Make all injectors, and all workers: those of stage 1 first."""
    half = options.workers // STAGES
    injectors = [Process(index, stage=0) for index in range(options.injectors)]
    return injectors, [Process(index, stage=1 + index // half) for index in range(options.workers)]


def rows_of(options: LeanOptions, workers: list[Process]) -> list[Row]:
    """Make one row for each key; ``index // keys_per_worker`` is the interval, hence the worker."""
    per_worker = options.keys_per_worker
    return [Row(index, workers[index // per_worker]) for index in range(len(workers) * per_worker)]


def production_of(record: Record, version: int, rows: list[Row], first_id: int) -> Record:
    """Make a stage 2 record with the same value under another key. Its id is unique, as it is derived from the row's version."""
    half = len(rows) // 2
    target = rows[half + record.origin * 2_654_435_761 % half]
    source = record.row
    production_id = first_id + version * len(rows) + source.index
    return Record(production_id, record.origin, record.timestamp_us, target, source.worker, source)
