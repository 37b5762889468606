"""The trials of a Spark job or sink in one session: kept findings, its schedules, and its sink at each of its effects."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace_properties.findings import Finding, ranked
from headrace_properties.kept_failures import KeptFailures, Retried, retry_spark, spark_replay
from headrace_properties.spark_jobs.causes import Cause
from headrace_properties.spark_jobs.outcomes import SCHEDULES
from headrace_properties.spark_jobs.targets import SparkReport, SparkTarget
from headrace_properties.target import SparkSource
from headrace_sim.spark.sinks.trial import Progress


@dataclass(slots=True)
class SparkTrials:
    """The trials of a Spark job or sink, and what they have shown.

    Attributes:
        target: The job or sink.
        target_of: Returns it with the rows of another seed.
        source: Where it comes from.
        seed: Of its rows and schedules.
        schedules: How many, for a job that keeps state or calls functions in Python.
        allow: On what its outcome may depend.
        duplicates: Whether the source may deliver a row twice.
        allow_unknown: Promises that no run needs to test.
        progress: Told how much is done, and of how much; a true result stops the search.
        report: What came of the search; None: nothing so far.
        again: What was kept and shows again.

    """

    target: SparkTarget
    target_of: Callable[[int], SparkTarget]
    source: SparkSource
    seed: int
    schedules: int = SCHEDULES
    allow: Collection[Cause] = ()
    duplicates: bool = False
    allow_unknown: Collection[str] = ()
    progress: Progress | None = None
    report: SparkReport | None = None
    again: tuple[Retried, ...] = ()

    def review(self) -> None:
        """Do nothing: the search watches the job's code in its undisturbed run."""

    def retry(self, kept: KeptFailures) -> Sequence[Retried]:
        """Look for kept findings again, unless the outcome may depend on what they are about."""
        settled = {*self.allow} if self.duplicates else {*self.allow, Cause.DUPLICATES}
        self.again = retry_spark(kept.load(), self.target_of, settled)
        return self.again

    def search(self) -> None:
        """Run the schedules and the trials of the sink."""
        self.report = self.target.verify(
            schedules=self.schedules,
            seed=self.seed,
            allow=self.allow,
            duplicates=self.duplicates,
            allow_unknown=self.allow_unknown,
            progress=self.progress,
        )

    @property
    def expected(self) -> int:
        """How many schedules are wanted."""
        return self.schedules

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is found, and what was kept and is found again only under its own schedule: violated ones first."""
        again = (kept.found for kept in self.again if kept.found is not None)
        return ranked([*(self.report.findings if self.report else ()), *again])

    @property
    def leading(self) -> Finding | None:
        """The first of them."""
        return next(iter(self.findings), None)

    def replay(self, finding: Finding) -> bytes:
        """Write a finding for a file."""
        seed, target = finding.trial.feed_seed, self.target
        return spark_replay(
            self.source, target if seed == target.feed_seed else self.target_of(seed), finding
        )

    def file_of(self, finding: Finding) -> Path | None:
        """Return the file of a kept finding that is found again only under its own schedule."""
        return next((again.path for again in self.again if again.found is finding), None)

    def is_kept(self, finding: Finding) -> bool:
        """Return whether later sessions look for it: always."""
        del finding
        return True
