"""All knobs of the engine in one frozen value, each with its unit and its default's reason."""

import enum
import zlib
from dataclasses import dataclass, fields

from headrace.api.errors import OptionsError
from headrace.api.time import MILLISECOND, SECOND


class Eviction(enum.Enum):
    """Which row leaves a full cache first (MillWheel 8.3)."""

    LRU = "lru"
    """The one used least recently, as storage systems do."""
    BOUNDARY = "boundary"
    """An empty one that waits for nothing, and then the one whose next watermark timer is the furthest away: the framework knows
    when it will be fetched."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the engine behaves. Times in microseconds of each process's own clock.

    Attributes:
        retry_us: first pause before an unACKed delivery is sent again (6.1.1); doubles with each attempt.
        retry_max_us: longest such pause.
        store_timeout_us: an unanswered request to the store is sent again after this.
        straggler_delay_us: a weak production that is not ACKed after this is checkpointed (Figure 11: 1 s).
        commit_batch: at most this many records and timers share one write (6.1.1); 1: single commits.
        commits_in_flight: at most this many writes of one interval are under way at once; 1: the fewest writes, but records
            wait about twice as long, since each write waits for the one before it.
        commit_linger_us: after a write of an interval its next one waits so long for more steps and deletions to share it,
            or until commit_batch of its keys have something for it; the first after a quiet while goes at once. 0: never waits.
        delete_delay_us: ACKed checkpoints wait at most this long for a write to share before they get their own.
        report_period_us: intervals report their progress to the authority (7.2).
        broadcast_period_us: the authority journals and broadcasts.
        heartbeat_period_us: workers and injectors report to the master.
        heartbeat_timeout_us: a worker unheard of for so long is replaced (7.1).
        lease_us: a master or authority that has not renewed for so long is replaced; it renews four times in a lease.
        balance_period_us: the master looks at the loads; 0: never moves anything by load.
        split_load: an interval with more records per heartbeat is split.
        split_cpu_us: so is one whose user code takes more CPU time than this per heartbeat. In all that goes by load an interval
            counts by its records or by its CPU time, in the proportion of these two limits, whichever is more.
        merge_load: two neighbours with together fewer records per heartbeat are merged; 0: never.
        overload: a worker with more than this many times the mean load gives intervals away.
        memory_limit_bytes: a worker with more soft state gives intervals away.
        collect_period_us: ids behind the horizon are collected this often (6.1.1).
        id_slack_us: ids are kept this much longer, for injectors that deliver late (6.1.1).
        cache_bytes: capacity of a worker's row cache (8.3); 0: no cache.
        eviction: which row leaves it first.
        bloom_capacity: ids that an interval's Bloom filter has room for at first; it grows with what there is.
        bloom_error: its rate of false positives when it is full, which cost a read each.
        user_code_attempts: runs of a step before its computation's on_failure policy applies.
        user_code_retry_us: pause between them.
        percentile_bucket_us: pending timestamps are reported in buckets of this width, where percentiles are wanted.
        injector_journal_us: an injector journals its position and progress.
        sweep_period_us: workers look after retries, time-outs, stragglers and deletions this often.
        scan_page_rows: rows in one page of a recovery scan.
        masters: replicas of the master.
        authority_replicas: replicas of each shard of the authority.
        authority_shards: shards of the authority; each has some of the computations (7.2).
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
    masters: int = 2
    authority_replicas: int = 2
    authority_shards: int = 1

    def __post_init__(self) -> None:
        """Refuse what can not work."""
        may_be_zero = {
            "balance_period_us", "merge_load", "id_slack_us", "cache_bytes", "delete_delay_us", "commit_linger_us",
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
            expected = f"at most split_load ({self.split_load}), or intervals split and merge for ever"
            raise OptionsError("merge_load", self.merge_load, expected)
        if not self.overload > 1:
            raise OptionsError("overload", self.overload, "more than 1")

    def shard_of(self, name: str) -> int:
        """Which shard of the authority has this computation or injector (7.2)."""
        return zlib.crc32(name.encode()) % self.authority_shards

    def authority_addresses(self, shard: int) -> list[str]:
        """The replicas of one shard of the authority."""
        return [f"authority-{shard}.{replica}" for replica in range(self.authority_replicas)]

    def master_addresses(self) -> list[str]:
        """The replicas of the master."""
        return [f"master-{number}" for number in range(self.masters)]
