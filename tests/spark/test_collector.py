"""While an interval is worked on, no cyclic garbage is looked for; before and after, as it was."""

import gc
from collections.abc import Iterator

import pytest

from headrace.spark.runtime.garbage_collection import collector_paused


@pytest.fixture
def _as_it_was() -> Iterator[None]:
    was = gc.isenabled()
    yield
    gc.enable() if was else gc.disable()


@pytest.mark.usefixtures("_as_it_was")
@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_rests_within_and_is_after_that_as_it_was(*, enabled: bool) -> None:
    gc.enable() if enabled else gc.disable()
    seen = []

    def fails() -> None:
        with collector_paused():
            seen.append(gc.isenabled())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert seen == [False]
    assert gc.isenabled() is enabled
