"""A schedule that was chosen by hand becomes a test of a user's project."""

from pathlib import Path

import pytest

from headrace_properties.explorer.saved_schedules import check_schedule, schedule_test
from headrace_sim import SOUND
from tests.properties.explorer.by_hand import (
    CountViews,
    CursedHook,
    target_of,
    zombie,
)


def test_saved_test_holds_on_the_sound_protocol_and_fails_where_the_code_breaks(tmp_path: Path) -> None:
    hand = zombie(SOUND)
    _, failure = hand.explorer.replay(hand.position)
    target = target_of(CountViews())
    text = schedule_test(target, failure.trial)
    compile(text, "test_saved.py", "exec")
    schedule = text.split('SCHEDULE = r"""')[1].split('"""')[0]
    check_schedule(schedule, target.pipeline, target.feed)
    cursed = target_of(CursedHook())
    with pytest.raises(AssertionError, match="this window is cursed"):
        check_schedule(schedule, cursed.pipeline, cursed.feed)
