"""What to run again to see a finding about a Spark query, or about its sink. PySpark is not needed to read it from a file."""

import msgspec

from headrace_properties.spark_jobs.job_causes import Cause
from headrace_sim.spark.query.schedules import Schedule
from headrace_sim.spark.sink_faults import SinkFault


class QueryTrial(msgspec.Struct, frozen=True, tag="query"):
    """One run of a query, and what to look for in it."""

    cause: Cause  # what was found
    changed: Cause = Cause.FAULTS  # what the schedule changes; `Cause.CHANCE`: the day and the random numbers
    schedule: Schedule | None = None  # how the query runs; ``None``: the rows alone show it
    promise: str = ""  # the name of the promise that is broken, or ""
    feed_seed: int = 0  # seed of the rows, where they are drawn, or a function of one
    # which rows to keep, by their order from 0 over all batches; ``None``: all
    kept: tuple[int, ...] | None = None
    # of `Cause.UPGRADE` and its errors: after how many batches of the earlier version; 0: none is run
    upgraded_after: int = 0


class SinkTrial(msgspec.Struct, frozen=True, tag="sink"):
    """One run of a sink."""

    fault: SinkFault  # what happens to the process that runs it
    feed_seed: int = 0
    kept: tuple[int, ...] | None = None  # which rows to keep
    spark: str = ""  # the version of the real Spark that ran it; "": it was simulated
    promise: str | msgspec.UnsetType = (
        msgspec.UNSET
    )  # the name of the promise that is broken; not set: none is
