"""Parts by hand: the sound ones keep their promises, and one that does not is noticed."""

from collections.abc import Mapping

import pytest

from headrace.deadlines import Wakes
from headrace.ownership import draining
from headrace.store.election import Election
from headrace.wire.messages import Heartbeat
from headrace.worker.seen import SeenFilter
from headrace_properties.mutation.parts import try_parts


def test_the_sound_parts_keep_their_promises() -> None:
    assert [try_parts(number).error for number in range(10)] == [""] * 10


def test_a_wake_that_is_forgotten_when_the_clock_is_put_back_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def set_clock_back(wakes: Wakes) -> None:
        wakes.next_us = 1 << 62

    monkeypatch.setattr(Wakes, "set_clock_back", set_clock_back)
    assert try_parts(0).error.startswith("_wakes: ")


def test_a_standby_that_waits_for_a_clock_that_was_put_back_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Election, "set_clock_back", lambda *_: None)
    assert "not claimed in three leases" in try_parts(0).error


def test_heartbeats_from_before_the_mark_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They say that a computation is empty, to which something has been sent since."""
    pending = draining._pending

    def at_any_time(
        beats: Mapping[str, Heartbeat], owner: str, incarnation: int, sequencer: int, _version: int
    ) -> int | None:
        return pending(beats, owner, incarnation, sequencer, 0)

    monkeypatch.setattr(draining, "_pending", at_any_time)
    assert try_parts(0).error.startswith("_drainings: ")


def test_an_id_that_is_forgotten_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    forget = SeenFilter.forget_before
    monkeypatch.setattr(SeenFilter, "forget_before", lambda seen, origin: forget(seen, origin + 1))
    assert "an id is taken for new" in try_parts(0).error
