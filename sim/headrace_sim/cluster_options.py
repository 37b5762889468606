"""The options of a simulated cluster, as one value: its size, and the cost of everything in it."""

import msgspec

from headrace import MILLISECOND, SECOND, EngineOptions, OptionsError
from headrace_sim.contention import Contention
from headrace_sim.distributions import Constant, Distribution, Uniform


class ClusterOptions(msgspec.Struct, frozen=True):
    """A cluster. All times are true time in microseconds.

    Attributes:
        workers: number of worker processes.
        engine: the engine's own options.
        link: one-way latency between two processes.
        store_link: one-way latency between a process and the store.
        store_write: time the store takes to answer a write, mint or journal entry.
        store_read: for one row.
        store_scan: for one page of a scan, and for a collection of ids.
        message_cpu: CPU time of any event.
        user_code_cpu: further CPU time of each record or timer that user code runs for.
        user_code_cpu_of: the same for single computations, by name.
        contention: other jobs that use a machine's CPU at times; ``None``: none.
        timer_lag: how late a process is woken.
        clock_skew: how far a machine's clock is ahead, drawn once for each.
        grace_us: a run without progress for this long, after the heal and the feed's end, is over.
        limit_us: a run that still makes progress this long after them is ended; its liveness is then unknown.
        check_period_us: how often to look whether everything is done.
        check_invariants: call every process's ``check_invariants`` after every event (slow).
    """

    workers: int = 3
    engine: EngineOptions = EngineOptions()
    link: Distribution = Uniform(200, 1_500)
    store_link: Distribution = Uniform(200, 800)
    store_write: Distribution = Uniform(500, 4_000)
    store_read: Distribution = Uniform(500, 6_000)
    store_scan: Distribution = Uniform(2_000, 20_000)
    message_cpu: Distribution = Constant(5)
    user_code_cpu: Distribution = Constant(20)
    user_code_cpu_of: dict[str, Distribution] = {}
    contention: Contention | None = None
    timer_lag: Distribution = Constant(0)
    clock_skew: Distribution = Constant(0)
    grace_us: int = 60 * SECOND
    limit_us: int = 3_600 * SECOND
    check_period_us: int = 50 * MILLISECOND
    check_invariants: bool = False

    def __post_init__(self) -> None:
        """Refuse options that cannot run."""
        if self.workers < 1:
            raise OptionsError("workers", self.workers, "at least 1")
        if self.grace_us < 0 or self.check_period_us < 1:
            raise OptionsError("grace_us", self.grace_us, "at least 0, with a check_period_us of at least 1")
        if self.limit_us < self.grace_us:
            raise OptionsError("limit_us", self.limit_us, f"at least grace_us, {self.grace_us}")
