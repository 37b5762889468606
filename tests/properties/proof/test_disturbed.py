"""Disturbances strike, the sound engine withstands them, and one that does not is noticed."""

from dataclasses import replace

import pytest

from headrace.ownership.master import Master
from headrace.worker.recovery import Recovery
from headrace_properties.proof.oracles import fired
from headrace_sim import SOUND
from tests.properties.proof.disturbed import DISTURBED, try_disturbed


@pytest.mark.parametrize("kind", DISTURBED)
def test_the_sound_engine_withstands_what_strikes(kind: str) -> None:
    judged = [try_disturbed(kind, seed) for seed in range(12)]
    assert [fired(run) for run in judged] == [()] * 12
    assert all(run.strikes for run in judged)


def test_masters_that_sleep_until_their_clocks_have_come_round_are_noticed() -> None:
    """Both masters' clocks jump ahead before the first mint, and back: nobody ever owns anything."""

    class Asleep(Master):
        def _set_clock_back(self, now: int) -> None:
            del now

    assert "L2" in fired(try_disturbed("set back", 9, replace(SOUND, master=Asleep)))


def test_a_scan_that_cannot_be_refused_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that does not know yet that its interval has moved on asks for the next page of its rows."""
    begin = Recovery.begin

    def forgetful(self: Recovery, now: int, progress_of: tuple[str, ...]) -> None:
        del self._on_refused
        begin(self, now, progress_of)

    monkeypatch.setattr(Recovery, "begin", forgetful)
    assert ("error",) in [fired(try_disturbed("moved", seed)) for seed in range(10)]
