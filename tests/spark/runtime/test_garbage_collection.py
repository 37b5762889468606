"""While an interval is processed, the cyclic collector is paused; afterwards it is as before, but for loaded modules."""

import gc
from collections.abc import Iterator

import pytest

from headrace.spark.runtime.garbage_collection import collector_paused, freeze_once


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


@pytest.fixture
def _thawed() -> Iterator[None]:
    gc.unfreeze()
    freeze_once.cache_clear()
    yield
    gc.unfreeze()
    freeze_once.cache_clear()


@pytest.mark.usefixtures("_thawed")
def test_only_what_was_loaded_before_the_first_task_is_hidden() -> None:
    loaded: list[list[int]] = [[]]
    with collector_paused():
        made: list[list[int]] = [[]]
    with collector_paused():
        pass
    seen = {id(get_object) for get_object in gc.get_objects()}
    assert id(loaded) not in seen
    assert id(made) in seen
