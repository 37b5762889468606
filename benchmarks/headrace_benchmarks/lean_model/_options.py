"""The options and results of a run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeanOptions:
    """The options of a run. Times are simulated microseconds, fault rates are probabilities per message.

    Raises:
        ValueError: a value is out of range.
    """

    seed: int = 0
    """Seed of the random streams: keys, latencies, faults."""
    records: int = 50_000
    """Total number of injected records; each is delivered twice, once in each stage."""
    workers: int = 200
    """Total number of workers, half of them in each stage; even."""
    injectors: int = 20
    keys_per_worker: int = 100
    tick_us: int = 200
    """Time between two records of one injector. The default keeps about 1,500 events pending."""
    latency_us: int = 500
    """Minimum latency of a message."""
    jitter_us: int = 1_000
    """Maximum additional latency; uniform."""
    drop: float = 0.002
    duplicate: float = 0.002
    delay: float = 0.002
    delay_us: int = 150_000
    """Maximum additional latency of a delayed message; uniform. Longer than ``retry_us``, so that remnants meet retries."""
    retry_us: int = 50_000
    """Time that a sender waits for the ACK before it sends again."""
    report_us: int = 25_000
    """Time between two watermark reports of one worker, and between two broadcasts."""
    mint_us: int = 10_000
    """Time between two new sequencers, each for one random interval."""

    def __post_init__(self) -> None:
        if self.workers < 2 or self.workers % 2:
            raise ValueError(
                f"workers must be even and at least 2, since each stage gets half of them, not {self.workers}"
            )
        for name in ("injectors", "keys_per_worker", "tick_us", "retry_us", "report_us", "mint_us"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("records", "latency_us", "jitter_us", "delay_us", "drop", "duplicate", "delay"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if self.drop + self.duplicate + self.delay >= 1.0:
            raise ValueError(
                "drop + duplicate + delay must leave room for messages that arrive (sum below 1)"
            )


@dataclass(frozen=True, slots=True)
class Struck:
    """The number of occurrences of each hard case in a run. All zero in the bare model."""

    dropped: int = 0
    duplicated: int = 0
    delayed: int = 0
    retried: int = 0
    """Records and deletions that were sent again."""
    refused: int = 0
    """Arrivals of records that had already been applied."""
    queued: int = 0
    """Arrivals of records whose key was busy with another record."""
    rejected: int = 0
    """Commits and deletions whose sequencer was no longer the latest."""


@dataclass(frozen=True, slots=True)
class LeanResult:
    """The result and cost of a run. Equal options give equal digests, on either kernel and in every process."""

    deliveries: int
    """Number of records applied in both stages; duplicates do not count."""
    heap_events: int
    cpu_seconds: float
    """Real CPU time of this process for the event loop alone, seconds; without setup and audit."""
    digest: str = ""
    """Hash of all (time, kind, id), hex; empty in the bare model."""
    low_watermark_us: int = 0
    """Stage 2's last broadcast low watermark; 0 in the bare model."""
    struck: Struck = Struck()

    @property
    def deliveries_per_second(self) -> float:
        """Simulated deliveries per real second of CPU time."""
        return self.deliveries / max(self.cpu_seconds, 1e-9)

    @property
    def heap_events_per_delivery(self) -> float:
        """Heap events per delivery, which group commit and batching reduce."""
        return self.heap_events / max(self.deliveries, 1)
