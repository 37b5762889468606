"""The cost parameters of the simulated cluster, which make it about as fast as the paper's (MillWheel 8), each with its reason.

Rules of this file:

* Four parameters are fitted, each to one number of the paper (`headrace_benchmarks.section8.fitting`); a test repeats the fit.
* Three more were chosen after their results were known: the number of keys (with it, but not with a tenth of it, Figure 14's
  medians stay constant and its 99 % is right), the period of reports (Figure 15's lag of a stage), and that sources' promises
  come at random times (Figure 15's deviations). The report marks the figures that they determine; these are not predictions.
* All other parameters come from other sources, or are marked `Choice`; none was tuned. Figures that depend only on these and the
  fitted parameters are predictions.
* The shape of latencies comes from waiting: for the CPU behind other records, for a CPU that others use, for a commit, and for
  one of the concurrent commits to finish. No distribution here has the shape of one of the paper's curves.
"""

from dataclasses import dataclass

from headrace import MILLISECOND, EngineOptions
from headrace_sim import ClusterOptions, Constant, Contention, Exponential


@dataclass(frozen=True, slots=True)
class Calibration:
    """The parameters of the model. Times in microseconds.

    Attributes:
        record_cpu_us: fitted. Mean CPU time of user code and framework per record.
            Choice: memoryless, since that is the only shape without a second parameter.
        contended_share: fitted. Fraction of time in which other users occupy a machine's CPU.
        commit_us: fitted. Mean time of a write beyond the minimum. Memoryless, like the time in a queue with memoryless arrivals
            and services: the store's servers are queues that are not simulated one by one.
        source_lag_us: fitted. How far an injector's watermark is behind real time. The paper says nothing about its injectors.
        contended_slice_us: mean time for which other users keep the CPU. Linux's fair scheduler lets a runnable process wait for
            about one scheduling period, 24 ms on eight or more CPUs.
        link_us: one-way latency between two machines of a cluster. The usual figure for a round trip is half a millisecond.
        message_cpu_us: CPU time to send or receive a message: an RPC costs tens of microseconds.
        least_commit_us: minimum time of a write: two round trips, to the tablet server, and from there to its log's replicas.
        records_per_cpu: records per second and CPU of a stage. Choice: with the fitted CPU time, a CPU is about one third busy.
        keys: number of keys of each stage, at every size: the paper scales the input, while the program determines the buckets. A
            weak step holds its key until its productions are ACKed, and records of one key wait for each other (4.2). Choice: a
            hundred per interval of the largest cluster; each key then gets one record per second, so the median record need not
            wait.
        reports_us: period of watermark reports and broadcasts. Choice: the engine's `sweep_period_us`, for the paper's lag of
            less than 200 ms per stage. The engine's default is twice as long, and saves messages.
        promise_us: mean time between two watermarks of a source. Choice: the period of the engine's injectors, but memoryless,
            since a source's knowledge follows its data and not a clock.
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
        """Return options for a cluster with one worker per CPU; load moves nothing while it is measured."""
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
"""The result of ``python -m headrace_benchmarks.section8.fitting``."""
