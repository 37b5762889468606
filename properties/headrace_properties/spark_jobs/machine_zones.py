"""What a query gives out on machines of other time zones: of the driver, and of its Python workers.

Spark's texts, days and hours are those of the session's time zone, which is the machine's unless it is set. Python's are the
machine's in any case: naive datetimes of collected rows, ``datetime.now()``, ``datetime.fromtimestamp()``.

Rules of this file:

* The same rows come at the same instants. Times themselves are not compared, only what is made of them: dates, texts, numbers.
* Where the session's zone is set and the outcome follows the machine's, that is asked. Where it is not set, it is told.
"""

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.findings import Finding, FindingClass
from headrace_properties.search.guard import guarded
from headrace_properties.search.limits import call_time_limited
from headrace_properties.sinks.story import shown_items
from headrace_properties.sinks.trial import undisturbed_run
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import difference_told, finding_of
from headrace_properties.spark_jobs.outcomes import without_sink
from headrace_properties.spark_jobs.runs import run_changed
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_sim.spark.columns.in_force import ZONE
from headrace_sim.spark.columns.zones import machine_in, of_machine
from headrace_sim.spark.query.schedules import Feed, Schedule
from headrace_sim.spark.sinks.sink_runs import Trial
from headrace_sim.spark.sinks.trial_contents import expected
from headrace_sim.spark.spark_job import SparkJob

_ZONES = {"Etc/GMT-14": "14 hours ahead of UTC", "Etc/GMT+11": "11 hours behind UTC"}
"""Each instant has another date in one of them than in UTC."""
_TIME = re.compile(r"datetime\.datetime\([^()]*\)")
_OUTPUT = "output"
_Left = dict[str, Counter[Any]]


def by_machine_zone(target: SparkTarget) -> Finding | None:
    """Return what depends on the machine's time zone: a question if the session has one, else a note."""
    job = target.job
    session = job.state.settings.values.get(ZONE, "") if job.state else ""
    if job.sink.function is not None and not session:
        return None  # what it writes of naive datetimes is in the only zone
    with guarded(), call_time_limited(target.limits), suppress(HeadraceError):
        left = partial(_given_out, job) if job.sink.function is None else _sink(target)
        usual = left(target.feed)
        for zone, where in _ZONES.items():
            with machine_in(zone):
                other = left([[of_machine(row, job.input) for row in batch] for batch in target.feed])
            for name in sorted(usual.keys() & other.keys()):
                if other[name] != usual[name]:
                    what = name if name == _OUTPUT else f"content of {name}"
                    differs = difference_told(what, other[name] - usual[name], usual[name] - other[name])
                    return _finding(target, f"on a machine {where} (TZ), {differs}", session)
    return None


def _finding(target: SparkTarget, differs: str, session: str) -> Finding:
    job = target.job
    code = getattr(job.sink.function, "__code__", None)
    places = [f"{code.co_filename}:{code.co_firstlineno}"] if code else [step.place for step in job.working]
    place = next(iter(places), job.sink.place)
    claim = FindingClass.UNDECLARED if session else FindingClass.NOTE
    whose = f"the session's is {session}" if session else f"{ZONE} is not set"
    message = f"the outcome depends on the machine's time zone, and {whose}: {differs}"
    trial = QueryTrial(Cause.ZONE, feed_seed=target.feed_seed)
    return replace(finding_of(Cause.ZONE, place, message, finding_class=claim), trial=trial)


def _given_out(job: SparkJob, feed: Feed) -> _Left:
    outcome = run_changed(without_sink(job), feed, Schedule(), Cause.FAULTS)
    rows = [row for batch in outcome.outputs.values() for row in batch]
    return {} if outcome.failure else {_OUTPUT: Counter(_without_times(repr(row)) for row in rows)}


def _sink(target: SparkTarget) -> Callable[[Feed], _Left]:
    """Return what runs the sink undisturbed, and returns what it leaves that is the same at any time."""

    def run(feed: Feed, chance: int = 0) -> Trial:
        fed = replace(target, feed=feed)
        call, state = fed.sink_call(), fed.job.state
        return undisturbed_run(*call, fed.prepare_call(), state, fed.keys, chance)

    calm = [run(target.feed, chance) for chance in (0, 1)]
    usual = expected([(trial.contents, trial.effects) for trial in calm])

    def left(feed: Feed) -> _Left:
        trial = run(feed)
        contents = usual.read(trial.contents, trial.effects)
        names = contents.keys() - {*usual.unsteady}
        return {
            name: Counter(_without_times(shown_items([item])) for item in contents[name].elements())
            for name in names
        }

    return left


def _without_times(text: str) -> str:
    return _TIME.sub("(a time)", text)
