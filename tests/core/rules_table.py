"""Rules are tested as tables of arguments and answers."""

from typing import Any

import pytest

from headrace.rules import RULES


def answers(rule: str, *cases: tuple[tuple[Any, ...], Any]) -> pytest.MarkDecorator:
    """Give a test ``rule``, what it is asked, and its answer."""
    return pytest.mark.parametrize(
        ("rule", "asked", "answer"), [(rule, asked, answer) for asked, answer in cases]
    )


def ask(rule: str, asked: tuple[Any, ...]) -> Any:
    """Ask the sound rules."""
    return getattr(RULES, rule)(*asked)
