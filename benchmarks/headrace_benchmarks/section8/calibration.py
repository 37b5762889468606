"""What the simulated cluster costs, so that it is about as fast as the paper's (MillWheel 8): each parameter with its reason.

Rules of this file:

* Four parameters are fitted, each to one number of the paper (`headrace_benchmarks.section8.fitting`); a test fits them again.
* Three more were chosen when their results had been seen: how many keys (Figure 14's medians do not grow, and its 99 % is right,
  with these and not with a tenth of them), how often reports (Figure 15's lag of a stage), and that promises come at random
  (Figure 15's deviations). What they decide is marked so in the report, and is no prediction.
* All others come from elsewhere, or are a `Choice`; none was tuned. What follows from the rest is a prediction.
* A latency's shape comes from waiting: for the CPU behind other records, for a CPU that others have, for a commit, and for a
  place among the commits under way. No distribution here has the shape of one of the paper's curves.
"""

from dataclasses import dataclass

from headrace import MILLISECOND, EngineOptions
from headrace_sim import ClusterOptions, Constant, Contention, Exponential


@dataclass(frozen=True, slots=True)
class Calibration:
    """The parameters of the model. Times in microseconds.

    Attributes:
        record_cpu_us: fitted. Mean CPU time of user code and framework for a record.
            Choice: memoryless, as that is the one shape with no second parameter.
        contended_share: fitted. Part of the time in which others have a machine's CPU.
        commit_us: fitted. Mean time that the store takes for a write beyond the least. Memoryless, as the time in a queue with
            memoryless arrivals and services is: the store's servers are queues that are not simulated one by one.
        source_lag_us: fitted. How far what an injector promises is behind real time. The paper says nothing of its injectors.
        contended_slice_us: mean time for which others keep the CPU. Linux' fair scheduler lets a runnable process wait about one
            scheduling period, 24 ms on eight CPUs or more.
        link_us: one way between two machines of a cluster. The usual figure for a round trip is half a millisecond.
        message_cpu_us: CPU time to take or send a message: an RPC costs tens of microseconds.
        least_commit_us: two such round trips: to the tablet server, and from it to the replicas of its log.
        records_per_cpu: records a second and CPU of a stage. Choice: with the fitted CPU time a CPU is about a third busy.
        keys: of both stages, at every size: the paper scales the input, and its buckets are the program's. A weak step holds its
            key until its productions are ACKed, and a record waits for others of its key (4.2). Choice: a hundred for each
            interval of the largest cluster, where a key then gets one record a second: the median does not wait for them.
        reports_us: between two reports, and two broadcasts, of watermarks. Choice: as often as the engine's workers look after
            anything, for the paper's lag of less than 200 ms a stage. The engine's default is twice as long, and spares messages.
        promise_us: mean time between two promises of a source. Choice: the period of the engine's injectors, but memoryless,
            since what a source knows comes when its data come, and not by a clock.
    """

    record_cpu_us: int
    contended_share: float
    commit_us: int
    source_lag_us: int
    contended_slice_us: int = 24 * MILLISECOND
    link_us: int = 250
    message_cpu_us: int = 50
    least_commit_us: int = 1 * MILLISECOND
    records_per_cpu: int = 100
    keys: int = 100_003
    reports_us: int = EngineOptions().sweep_period_us
    promise_us: int = EngineOptions().injector_journal_us

    def cluster(self, cpus: int) -> ClusterOptions:
        """A cluster of so many CPUs, a worker on each; nothing is moved by load while it is measured."""
        link = Constant(self.link_us)
        commit = Exponential(self.least_commit_us, self.commit_us)
        engine = EngineOptions(
            balance_period_us=0, report_period_us=self.reports_us, broadcast_period_us=self.reports_us
        )
        return ClusterOptions(
            workers=cpus,
            engine=engine,
            link=link,
            store_link=link,
            store_write=commit,
            store_read=commit,
            store_scan=commit,
            message_cpu=Constant(self.message_cpu_us),
            user_code_cpu=Exponential(0, self.record_cpu_us),
            contention=self._contention(),
        )

    def _contention(self) -> Contention | None:
        if not self.contended_share:
            return None
        gap_us = round(self.contended_slice_us * (1 - self.contended_share) / self.contended_share)
        return Contention(gap=Exponential(0, gap_us), slice=Exponential(0, self.contended_slice_us))


CALIBRATION = Calibration(
    record_cpu_us=2_850, contended_share=0.07, commit_us=26_000, source_lag_us=1_160_000
)
"""What the fit found: ``python -m headrace_benchmarks.section8.fitting``."""
