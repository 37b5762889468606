"""Which of the parameters of a test run by day: one of each kind; the night runs all."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def others_at_night(by_day: Collection[Any], every: Iterable[Any]) -> list[Any]:
    """Return all parameters, the ones that are not by day marked ``nightly``. A tuple has the values of several."""
    return [
        value
        if value in by_day
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.nightly)
        for value in every
    ]
