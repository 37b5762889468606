"""All options of the engine in one frozen value, each with its unit."""

import enum
import zlib
from dataclasses import dataclass, fields

from headrace.api.errors import OptionsError
from headrace.api.time import MILLISECOND, SECOND


class Eviction(enum.Enum):
    """Which row a full cache evicts first (MillWheel 8.3)."""

    LRU = "lru"
    """The least recently used row, as in storage systems."""
    BOUNDARY = "boundary"
    """Empty rows that wait for nothing, then the row whose next watermark timer is furthest away: the framework knows when it
    will be fetched."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the engine behaves. Times in microseconds of each process's own clock.

    Attributes:
        retry_us: first retry delay of an unACKed delivery (6.1.1); it doubles with each attempt.
        retry_max_us: longest retry delay.
        store_timeout_us: time after which an unanswered request to the store is sent again.
        straggler_delay_us: time after which an unACKed weak production is checkpointed (Figure 11: 1 s).
        commit_batch: maximum number of records and timers that share one write (6.1.1); 1: single commits.
        commits_in_flight: maximum number of concurrent writes per interval; 1: the fewest writes, but records wait about twice as
            long, since each write waits for the previous one.
        commit_linger_us: after a write, the time that an interval's next write waits for more steps and deletions to share it, or
            until commit_batch of its keys have something to write; the first write after an idle time goes at once. 0: never
            waits.
        delete_delay_us: longest time that deletions of ACKed checkpoints wait to share a write before they get their own.
        report_period_us: period of progress reports to the authority (7.2). A worker reports at whole periods, and only what has
            changed; as any report may be lost, everything is reported again with the first heartbeat after eight periods.
        broadcast_period_us: period at which the authority journals and broadcasts, if reports have brought progress; after eight
            periods without any it broadcasts everything again.
        heartbeat_period_us: period of the workers' and injectors' heartbeats to the master; an idle worker wakes only for these.
        heartbeat_timeout_us: time without a heartbeat after which a worker is replaced (7.1).
        lease_us: time after which a master or authority that has not renewed is replaced; it renews four times per lease, and
            its standbys look twice.
        balance_period_us: period at which the master checks loads; 0: it never moves anything by load.
        split_load: records per heartbeat above which an interval is split.
        split_cpu_us: CPU time of user code per heartbeat above which an interval is split. Wherever load decides, an interval's
            load is its records or its CPU time, each relative to its limit, whichever is greater.
        merge_load: records per heartbeat below which two neighbors, taken together, are merged; 0: never.
        overload: multiple of the mean load above which a worker gives intervals away.
        memory_limit_bytes: size of soft state above which a worker gives intervals away.
        collect_period_us: period at which ids behind the horizon are collected (6.1.1), and idle keys forgotten: with the first
            heartbeat after it.
        id_slack_us: extra time for which ids are kept, for injectors that deliver late (6.1.1).
        cache_bytes: capacity of a worker's row cache (8.3); 0: no cache.
        eviction: which row a full cache evicts first.
        bloom_capacity: number of ids for which an interval's Bloom filter is first sized; it grows as needed.
        bloom_error: false positive rate of a full Bloom filter; each false positive costs a read.
        user_code_attempts: number of runs of a step before its computation's on_failure policy applies.
        user_code_retry_us: delay between these runs.
        percentile_bucket_us: bucket width of reported pending timestamps, where percentiles are used.
        injector_journal_us: period at which an injector journals its position and progress, if they have changed.
        sweep_period_us: least time between two of a worker's checks of what is outstanding: retries, timeouts, stragglers,
            deletions and delayed runs of user code. So each of them may be late by this.
        scan_page_rows: number of rows per page of a recovery scan.
        asynchronous_scans: process input records while a recovery scan of several pages goes on (6.2); a key whose row has not
            come yet is read first. ``False``: records wait for the end of the scan.
        masters: number of replicas of the master.
        authority_replicas: number of replicas of each shard of the authority.
        authority_shards: number of shards of the authority; each serves some of the computations (7.2).
    """

    retry_us: int = 200 * MILLISECOND
    retry_max_us: int = 2 * SECOND
    store_timeout_us: int = 500 * MILLISECOND
    straggler_delay_us: int = SECOND
    commit_batch: int = 64
    commits_in_flight: int = 4
    commit_linger_us: int = 0
    delete_delay_us: int = 100 * MILLISECOND
    report_period_us: int = 100 * MILLISECOND
    broadcast_period_us: int = 100 * MILLISECOND
    heartbeat_period_us: int = 250 * MILLISECOND
    heartbeat_timeout_us: int = SECOND
    lease_us: int = SECOND
    balance_period_us: int = 2 * SECOND
    split_load: int = 2_000
    split_cpu_us: int = 125 * MILLISECOND
    merge_load: int = 0
    overload: float = 2.0
    memory_limit_bytes: int = 1 << 30
    collect_period_us: int = SECOND
    id_slack_us: int = SECOND
    cache_bytes: int = 64 << 20
    eviction: Eviction = Eviction.BOUNDARY
    bloom_capacity: int = 4_096
    bloom_error: float = 0.02
    user_code_attempts: int = 3
    user_code_retry_us: int = 50 * MILLISECOND
    percentile_bucket_us: int = 10 * MILLISECOND
    injector_journal_us: int = 100 * MILLISECOND
    sweep_period_us: int = 50 * MILLISECOND
    scan_page_rows: int = 1_000
    asynchronous_scans: bool = False
    masters: int = 2
    authority_replicas: int = 2
    authority_shards: int = 1

    def __post_init__(self) -> None:
        may_be_zero = {
            "balance_period_us", "merge_load", "id_slack_us", "cache_bytes", "delete_delay_us", "commit_linger_us",
            "asynchronous_scans",
        }  # fmt: skip
        for option in fields(self):
            value = getattr(self, option.name)
            kind: type = type(option.default)
            if type(value) is not kind and not (kind is float and type(value) is int):
                raise OptionsError(
                    option.name, value, f"an {kind.__name__}" if kind is int else f"a {kind.__name__}"
                )
            least = 0 if option.name in may_be_zero else 1
            if isinstance(value, int) and value < least:
                raise OptionsError(option.name, value, f"at least {least}")
        if not 0 < self.bloom_error < 1:
            raise OptionsError("bloom_error", self.bloom_error, "between 0 and 1")
        if self.merge_load > self.split_load:
            expected = f"at most split_load ({self.split_load}), or intervals split and merge forever"
            raise OptionsError("merge_load", self.merge_load, expected)
        if not self.overload > 1:
            raise OptionsError("overload", self.overload, "more than 1")

    def shard_of(self, name: str) -> int:
        """Return the authority's shard for a computation or injector (7.2)."""
        return zlib.crc32(name.encode()) % self.authority_shards

    def authority_addresses(self, shard: int) -> list[str]:
        """Return the addresses of the replicas of one shard of the authority."""
        return [f"authority-{shard}.{replica}" for replica in range(self.authority_replicas)]

    def master_addresses(self) -> list[str]:
        """Return the addresses of the replicas of the master."""
        return [f"master-{number}" for number in range(self.masters)]
