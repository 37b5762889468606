"""What a run is given, and what it gives back."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeanOptions:
    """What is simulated. Times are simulated microseconds, fault rates are probabilities for each message.

    Raises ValueError when a value does not fit.
    """

    seed: int = 0
    """Seed of the random streams: keys, latencies, faults."""
    records: int = 50_000
    """Records injected, in all; each is delivered twice, once in each stage."""
    workers: int = 200
    """Workers in all, half of them in each stage; even."""
    injectors: int = 20
    keys_per_worker: int = 100
    tick_us: int = 200
    """Between two records of one injector. The default keeps about 1,500 events pending."""
    latency_us: int = 500
    """The least that a message takes."""
    jitter_us: int = 1_000
    """What it takes on top, at most; uniform."""
    drop: float = 0.002
    duplicate: float = 0.002
    delay: float = 0.002
    delay_us: int = 150_000
    """What a delayed message takes on top, at most; uniform. Longer than ``retry_us``, so that remnants meet retries."""
    retry_us: int = 50_000
    """How long a sender waits for the ACK before it sends again."""
    report_us: int = 25_000
    """Between two watermark reports of one worker, and between two broadcasts."""
    mint_us: int = 10_000
    """Between two new sequencers, each for one interval drawn from all."""

    def __post_init__(self) -> None:
        if self.workers < 2 or self.workers % 2:
            raise ValueError(
                f"workers must be even and at least 2, as each stage gets one half, not {self.workers}"
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
    """How often each hard case came up in a run. All zero in the bare model."""

    dropped: int = 0
    duplicated: int = 0
    delayed: int = 0
    retried: int = 0
    """Records and deletions that were sent again."""
    refused: int = 0
    """Arrivals of a record that had been applied."""
    queued: int = 0
    """Arrivals of a record whose key was busy with another."""
    rejected: int = 0
    """Commits and deletions whose sequencer was no longer the latest."""


@dataclass(frozen=True, slots=True)
class LeanResult:
    """What one run did and cost. Equal options give an equal digest, on either kernel and in every process."""

    deliveries: int
    """Records applied, in both stages; duplicates do not count."""
    heap_events: int
    cpu_seconds: float
    """CPU time of the event loop alone, in wall-clock seconds of this process; set-up and audit are not in it."""
    digest: str = ""
    """Hash of all (time, kind, id) in hexadecimal; empty in the bare model."""
    low_watermark_us: int = 0
    """Stage 2's low watermark as last broadcast; 0 in the bare model."""
    struck: Struck = Struck()

    @property
    def deliveries_per_second(self) -> float:
        """Deliveries by CPU second: simulated records, wall-clock seconds."""
        return self.deliveries / max(self.cpu_seconds, 1e-9)

    @property
    def heap_events_per_delivery(self) -> float:
        """The number that group commit and batching lower."""
        return self.heap_events / max(self.deliveries, 1)
