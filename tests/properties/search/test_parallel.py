"""Work spread over processes: all of it comes back, and a process that is killed is told of and not waited for."""

import os
import signal

import pytest

from headrace import Computation, Context, Pipeline, Record
from headrace_properties.search.application import Application
from headrace_properties.search.parallel import KilledProcessError, spread
from headrace_properties.search.verification import verify
from tests.sim.rig import letters

HERE = os.getpid()


def _square_unless_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


class _Deadly(Computation):
    """Kills the process that it runs in, but for the one that the test runs in."""

    def process_record(self, context: Context, record: Record) -> None:
        if os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)


def _deadly() -> Pipeline:
    pipeline = Pipeline("deadly")
    pipeline.injector("mail")
    pipeline.add(_Deadly(), name="deadly", inputs=["mail"])
    return pipeline


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_thing_is_done_once(jobs: int) -> None:
    assert sorted(spread(_square_unless_seven, range(5), jobs)) == [0, 1, 4, 9, 16]


def test_a_killed_process_ends_the_work_with_an_error_that_says_so() -> None:
    with pytest.raises(KilledProcessError, match="one of the 2 processes at work was killed"):
        list(spread(_square_unless_seven, range(20), 2))


def test_a_search_does_not_wait_for_a_killed_process() -> None:
    with pytest.raises(KilledProcessError, match="memory"):
        verify(Application.with_input(_deadly(), letters(_deadly(), 3)), examples=40, jobs=2)
