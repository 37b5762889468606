"""What lasts as long as a Python worker, and what follows the clock of batches: mistakes are found, their twins hold."""

import pytest

from headrace_properties.spark_jobs.findings import Cause
from headrace_properties.spark_jobs.outcomes import check_job
from tests.properties.spark_jobs.planted_state import FEED, PLANTED_STATE, SOUND, Counts, Forgets, _updating
from tests.properties.spark_jobs.trials import found, held


@pytest.mark.parametrize("name", PLANTED_STATE)
def test_planted_mistake_is_found_and_its_twin_holds(name: str) -> None:
    trial = found(name, schedules=30)
    assert trial.is_right, trial.said
    trial = held(name, schedules=30)
    assert trial.is_right, trial.said


@pytest.mark.parametrize("name", SOUND)
def test_sound_job_is_not_accused(name: str) -> None:
    sound, allowed = SOUND[name]
    report = check_job(sound, FEED, schedules=30, allow={Cause(cause) for cause in allowed})
    assert (report.findings, report.unknown) == ((), ())


def test_time_mode_of_batches_without_timer_and_ttl_leaves_nothing_out() -> None:
    report = check_job(_updating(Forgets()), FEED, schedules=30, allow={Cause.GROWTH})
    assert report.left_out == ""
    assert Cause.BATCHING in {finding.cause for finding in report.findings}
    assert Cause.BATCHING not in {
        finding.cause for finding in check_job(_updating(Counts()), FEED, schedules=30).findings
    }
