"""Jobs and sinks as people write them: sound ones are at most asked about, planted mistakes lead.

Each sound one, without a declaration, ends with exit code 0 or 3, and with what it depends on declared with 0. Each planted one
ends with 1, and the planted cause is the first thing said.
"""

import re

import pytest

from tests.cli.rig import Run
from tests.nights import others_at_night
from tests.properties.spark_jobs import everyday_jobs, everyday_sinks

EVENTS = "tests.properties.spark_jobs.everyday_events"
TIMERS = "tests.properties.spark_jobs.everyday_timers"
JOBS = {
    "sessions": (EVENTS, "feed", "memory"),
    "funnel": (EVENTS, "feed", "memory"),
    "rate": (EVENTS, "feed", "chance"),
    "overdraft": (EVENTS, "feed", "effect"),
    "orders": (EVENTS, "feed", "memory"),
    "matching": (EVENTS, "payments", "timer"),
    "dedup": (EVENTS, "feed", "memory"),
    "dedup_ttl": (EVENTS, "feed", ""),
    "totals": (EVENTS, "feed", "chance"),
    "latest": (EVENTS, "feed", "frames"),
    "latest_append": (EVENTS, "feed", ""),
    "heartbeat": (TIMERS, "feed", "chance"),
    "top": (TIMERS, "feed", "memory"),
    "windowed": (TIMERS, "feed", "value"),
    "join": (TIMERS, "feed", "effect"),
    "gaps": (TIMERS, "messages", "memory"),
    "experiment": (TIMERS, "feed", "chance"),
}
"""Where each job is, its input, and the cause of the mistake in its twin; "": it has none of its own."""
SINKS = {
    "upsert": ("insert", "twice"),
    "replace_batch": ("mark_first", "missing"),
    "merge": ("merge_sum", "differs"),
    "file_of_batch": ("appended_file", "twice"),
    "latest_wins": ("latest_wins_logged", "missing"),
    "partition_of_batch": ("appended_table", "twice"),
}
"""Each sink, its twin with a mistake, and what that mistake does to rows."""
SOUND_SCHEDULES, PLANTED_SCHEDULES = 12, 18
MORE = {"sessions": 40}
"""Planted mistakes that few schedules show."""
BY_DAY = ("sessions", "rate", "matching", "dedup_ttl", "latest", "windowed", "join", "upsert")
"""A job of each cause, and a sink, each of whose trials is a process or two. The night tries all."""
MEANT = "order,batching,growth,late"


def said(run: Run, *arguments: str) -> tuple[int, list[tuple[str, str]]]:
    """Verify; return the exit code and what was said, in order: its class and its name."""
    done = run("verify", *arguments, "--jobs", "1", "--failures", "kept")
    found = re.findall(r"^(VIOLATED|UNDECLARED): .*\((\w+)\)$", done.output, re.MULTILINE)
    assert done.exit_code in {0, 1, 3}, done.output
    return done.exit_code, found


def job(name: str, module: str, feed: str, schedules: int, *options: str) -> tuple[str, ...]:
    search = ("--feed", feed, "--examples", str(schedules))
    return (f"{module}:{name}", "--schema", everyday_jobs.SCHEMA, *search, *options)


@pytest.mark.spark
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", others_at_night(BY_DAY, JOBS))
def test_sound_job_is_at_most_asked_about_and_holds_once_it_is_declared(run: Run, name: str) -> None:
    module, feed, _ = JOBS[name]
    code, found = said(run, *job(name, module, feed, SOUND_SCHEDULES))
    assert {kind for kind, _ in found} <= {"UNDECLARED"}, found
    assert code == (3 if found else 0)
    if found:
        assert said(run, *job(name, module, feed, SOUND_SCHEDULES, "--allow", MEANT)) == (0, [])


@pytest.mark.spark
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "name", others_at_night(BY_DAY, [name for name, (_, _, cause) in JOBS.items() if cause])
)
def test_planted_mistake_of_a_job_comes_first(run: Run, name: str) -> None:
    module, feed, cause = JOBS[name]
    code, found = said(run, *job(f"planted_{name}", module, feed, MORE.get(name, PLANTED_SCHEDULES)))
    assert (code, found[:1]) == (1, [("VIOLATED", cause)])


@pytest.mark.spark
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", others_at_night(BY_DAY, SINKS))
def test_sound_sink_is_at_most_asked_about_and_its_planted_twin_is_found(run: Run, name: str) -> None:
    module, (planted, wrong) = "tests.properties.spark_jobs.everyday_sinks", SINKS[name]
    options = ("--schema", everyday_sinks.SCHEMA, "--feed", "once" if name == "upsert" else "feed")
    code, found = said(run, f"{module}:{name}", *options)
    assert (code in {0, 3}, "VIOLATED" in dict(found)) == (True, False), found
    if code == 3:
        assert said(run, f"{module}:{name}", *options, "--allow", "batching,loss,order") == (0, [])
    code, found = said(run, f"{module}:{planted}", *options)
    assert (code, found[:1]) == (1, [("VIOLATED", wrong)])
