"""Sinks under every failure: `check_sink` calls a ``foreachBatch`` function with its process killed, restarted and overtaken."""

from headrace_properties.sinks.lost_rows import ALLOWED, RowsOf
from headrace_properties.sinks.sink_reports import OneTrial, SinkReport
from headrace_properties.sinks.story import SinkFinding, SinkQuestion, Wrong
from headrace_properties.sinks.trial import check_sink, try_fault
from headrace_sim.spark.sinks.sink_runs import SinkFailsError, UnfollowableSinkError

__all__ = [
    "ALLOWED", "OneTrial", "RowsOf", "SinkFailsError", "SinkFinding", "SinkQuestion", "SinkReport", "UnfollowableSinkError",
    "Wrong", "check_sink", "try_fault",
]  # fmt: skip
