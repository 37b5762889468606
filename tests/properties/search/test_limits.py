"""Endless code is stopped, and is a failure of its run."""

import re
import signal
import time
from dataclasses import replace

import pytest

from headrace import Computation, Context, Pipeline, Record, Timer
from headrace.rules import Rules
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search import judging
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import try_plan
from headrace_properties.search.limits import CodeLimits, call_time_limited
from headrace_properties.search.plans import Plan
from headrace_sim import NO_FAULTS, ClusterOptions, FeedBuilder, Protocol, simulate
from headrace_sim.kernel import EndlessRunError

WINDOWS = WORKLOADS["windows"]
APPLICATION = replace(Application(WINDOWS.deployed, WINDOWS.feed), limits=CodeLimits(call_s=0.2))


class _NoRoom(Rules):
    """No timer has room in a step, and the rest fires in the next one: its key has a turn again and again, in no time."""

    def most_firings(self, room: int) -> int:
        return 0


def test_a_protocol_that_loops_in_zero_time_is_a_failure_that_says_where() -> None:
    judged = try_plan(
        APPLICATION,
        PipelineTrial(Plan(NO_FAULTS, WINDOWS.options, seed=0), 0),
        Protocol("no room", rules=_NoRoom()),
    )
    assert re.match(
        r"HandlerOverrunError: the run never ends: worker-\d has handled one \w+ for 0\.2 s without running user code,"
        r" and simulated time stands at \d+\.\d{6}s",
        str(judged.error),
    )


class _Endless(Computation):
    """Sets a wall timer that is due at once, again and again."""

    def process_record(self, context: Context, record: Record) -> None:
        context.set_wall_timer("again", at=0)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.set_wall_timer("again", at=0)


def test_a_timer_that_resets_itself_forever_exhausts_a_runs_events() -> None:
    pipeline = Pipeline("endless")
    pipeline.injector("letters")
    pipeline.add(_Endless(), name="endless", inputs=["letters"])
    feed = FeedBuilder(pipeline)
    feed.record(at_us=1_000_000, value="a", timestamp=0, key="a")
    with pytest.raises(EndlessRunError, match="Look for a handler that sets its own timer again without end"):
        simulate(pipeline, feed.build(), most_events=5_000)


class _NearlyEndless(_Endless):
    """Gives up in the end, so that a run without a budget ends, too."""

    def __init__(self) -> None:
        self.calls = 0

    def process_timer(self, context: Context, timer: Timer) -> None:
        self.calls += 1
        assert self.calls < 5_000, "the run goes on"
        super().process_timer(context, timer)


def test_each_run_of_a_search_has_a_budget_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "most_events", lambda feed: 1_000 + feed.records * 1_000)
    pipeline = Pipeline("endless")
    pipeline.injector("letters")
    pipeline.add(_NearlyEndless(), name="endless", inputs=["letters"])
    feed = FeedBuilder(pipeline)
    feed.record(at_us=1_000_000, value="a", timestamp=0, key="a")
    trial = PipelineTrial(Plan(NO_FAULTS, ClusterOptions(), seed=0), 0)
    judged = try_plan(Application.with_input(pipeline, feed.build()), trial)
    assert str(judged.error).startswith("EndlessRunError")
    assert "2,000 events" in str(judged.error)


def test_a_sound_run_within_the_limits_is_left_alone() -> None:
    patient = replace(APPLICATION, limits=CodeLimits(call_s=5.0))
    judged = try_plan(patient, PipelineTrial(Plan(NO_FAULTS, WINDOWS.options, seed=0), 0))
    assert judged.error is None
    assert judged.verdicts


@pytest.mark.parametrize(
    ("cpu_s", "wall_s", "said"),
    [
        (9.9, 59.0, ""),
        (10.0, 10.0, "10 s of CPU time; --code-timeout allows more"),
        (2.0, 90.0, ""),  # it computes on a busy machine
        (0.1, 60.0, "60 s, in which it waits for something; --code-timeout allows more"),
    ],
)
def test_a_call_has_a_limit_of_cpu_time_and_may_wait_for_longer(
    cpu_s: float, wall_s: float, said: str
) -> None:
    assert CodeLimits().overrun(cpu_s, wall_s) == said


def test_waiting_on_a_busy_machine_is_no_endless_call() -> None:
    with call_time_limited(CodeLimits(call_s=0.1)):
        time.sleep(0.3)


def test_what_a_call_imports_is_not_charged_to_it() -> None:
    """A library that takes its time to load: its frames are above the import system's, and those above user code."""
    slow = compile("while clock() < end:\n    pass", "<frozen importlib._bootstrap>", "exec")

    def handle() -> None:
        exec(slow, {"clock": time.thread_time, "end": time.thread_time() + 0.4})  # noqa: S102  our own

    with call_time_limited(CodeLimits(call_s=0.1)):
        handle()


def test_the_alarm_of_somebody_else_strikes_when_it_is_due() -> None:
    struck = []
    before = signal.signal(signal.SIGALRM, lambda *_: struck.append(time.monotonic()))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with call_time_limited(CodeLimits(call_s=0.4)):
            time.sleep(0.3)
            assert struck
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_limits_within_limits_take_each_others_ticks() -> None:
    with call_time_limited(CodeLimits(call_s=0.004)):
        for _ in range(300):
            with call_time_limited(CodeLimits(call_s=0.004)):
                pass
