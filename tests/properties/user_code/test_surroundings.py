"""What user code reaches outside its row: things that answer to every name are no caches."""

import functools
from typing import Any
from unittest.mock import MagicMock

import pytest

from headrace_properties.user_code.surroundings import Surroundings


class Frame:
    """Like a DataFrame, which takes each unknown name for a column's."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Frame()


@functools.cache
def doubled(n: int) -> int:
    return 2 * n


failures: Any = Frame()
client: Any = MagicMock()


def handler(n: int) -> int:
    failures.rows.append(n)
    return doubled(n) if client else 0


@pytest.mark.parametrize("n", [1, 2])
def test_globals_that_answer_to_every_name_are_walked_like_any_other(n: int) -> None:
    around = Surroundings(handler)
    handler(n)
    changes = list(around.changes())
    assert any("doubled" in change for change in changes)
    assert any("failures" in change for change in changes)
    around.restore()
    assert (failures.rows, doubled.cache_info().misses) == ([], 0)
