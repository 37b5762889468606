"""Promises that fit what a Spark job leaves, each tried on the run without failures."""

from dataclasses import replace

from headrace.api.errors import HeadraceError
from headrace_properties.promises import Promise
from headrace_properties.promises.guesses import Proposal, columns_of, guesses_about, proposed
from headrace_properties.promises.moment import INPUT, OUTPUT
from headrace_properties.spark_jobs.feeds.versioned_rows import in_versions
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.outcomes import check_again, without_sink
from headrace_properties.spark_jobs.promised import JobMoment, moment_of_query
from headrace_properties.spark_jobs.table_judge import TableJudge
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.spark_jobs.trials import QueryTrial, SinkTrial
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_runs import Sight

_UNDISTURBED = SinkFault(SinkFaultKind.NONE, 0, 0)


def proposals(target: SparkTarget, calm: Sight | None) -> tuple[Proposal, ...]:
    """Return promises that fit the tables that a job leaves, each tried on a run without failures.

    ``calm``: what such a run of its sink left; None: its sink is not code. Only the simulation is asked: nothing is proposed
    for what it cannot compute.
    """
    if target.laboratory is not None and target.laboratory.batches:  # only its own source knows the rows
        return ()
    try:
        moment = _moment(target, calm)
    except HeadraceError:
        return ()
    tables = moment.tables or ({} if calm else {OUTPUT: moment.outputs})
    tables = {name: rows for name, rows in tables.items() if "line" not in columns_of(rows)}
    outputs, known = {*columns_of(moment.outputs)}, {*columns_of(moment.rows)}
    are_inputs = outputs <= known if calm else any(known & {*columns_of(rows)} for rows in tables.values())
    came = {INPUT: moment.rows} if are_inputs else {OUTPUT: moment.outputs}
    return proposed(guesses_about(tables, came), lambda promise: _tried(target, promise))


def _moment(target: SparkTarget, calm: Sight | None) -> JobMoment:
    if calm is None:
        return moment_of_query(without_sink(target.job), target.outcome())
    return TableJudge((), target.job, target.feed, target.outcome()).moment(calm)


def _tried(target: SparkTarget, promise: Promise) -> str | None:
    """Return how a run without failures breaks a promise; None: it cannot be tried."""
    feed = in_versions(target.feed, target.job.input.names, [promise])
    promised = replace(target, laboratory=None, promises=(promise,), feed=feed)
    try:
        if target.job.sink.function is None:
            trial = QueryTrial(Cause.PROMISE, promise=promise.name)
            broken = check_again(target.job, feed, trial, [promise], target.limits)
        else:
            broken = promised.broken_again(SinkTrial(_UNDISTURBED, promise=promise.name))
    except HeadraceError:
        return None
    message = "" if broken is None else broken.message.rpartition("; with ")[0] or broken.message
    return message.removeprefix("in the end, without any failure: ").removeprefix("at the end: ")
