"""Random expressions in SQL text, over the columns of `tests.sim.spark.frame_programs`; none of them fails on any row.

What fails is left out, because Spark does not always compute what it does not need.
"""

from collections.abc import Callable
from random import Random

Draw = Callable[[Random, int], str]

_LEAVES = {
    "number": [
        "i",
        "l",
        "d",
        "f",
        "1",
        "2",
        "-3",
        "0",
        "10L",
        "2.5",
        "0.25",
        "1e2",
        "1.5D",
        "s.x",
        "length(n)",
        "m",
        "size(p)",
        "year(t)",
    ],
    "text": [
        "k",
        "n",
        "j",
        "'a'",
        "'12'",
        '"b"',
        "s.y",
        "upper(k)",
        "substring(n, 1, 1)",
        "date_format(t, 'yyyy')",
    ],
    "truth": ["b", "true", "false", "i > 0", "k is null", "a is not null"],
    "time": ["day", "DATE '2024-01-02'", "to_date(t)", "t", "timestamp '2024-05-06 00:00:00'"],
}
_FORMS = {
    "number": [
        "l % 1000 {sign} {number}", "{number} {sign} 0.5", "({number})", "-({number})", "coalesce({number}, {number})",
        "CASE WHEN {truth} THEN {number} ELSE {number} END", "if({truth}, {number}, {number})", "cast({truth} as int)",
        "greatest({number}, {number})", "least({number}, {number})",
    ],
    "text": [
        "{text} || {text}", "{text} || {number}", "cast({number} as string)", "cast({truth} as string)", "cast({time} as string)",
        "coalesce({text}, {text})", "lower({text})", "trim({text})", "concat_ws('-', {text}, {number})",
    ],
    "truth": [
        "{number} {compares} {number}", "{text} {compares} {text}", "{time} {compares} {time}", "{time} < '2024-01-02'",
        "{truth} and {truth}", "{truth} or {truth}", "not {truth}", "({truth})", "({number}) is null", "({text}) is not null",
        "{number} between {number} and {number}", "{number} not between {number} and {number}", "{number} in ({number}, 1)",
        "{text} not in ({text}, 'a')", "{text} like '%1%'", "{text} not like '_'",
    ],
}  # fmt: skip
_WORDS = {"sign": ["+", "-", "*"], "compares": ["=", "<>", "!=", "<", "<=", ">", ">=", "<=>"]}


def drawn_expression(random: Random, depth: int = 3, kind: str = "") -> str:
    """Draw an expression. ``kind``: number, text, truth or time; default: any."""
    kind = kind or random.choice([*_FORMS])
    if kind in _WORDS:
        return random.choice(_WORDS[kind])
    if depth == 0 or kind not in _FORMS:
        return random.choice(_LEAVES[kind])
    parts = random.choice(_FORMS[kind]).replace("}", "{").split("{")
    return "".join(
        drawn_expression(random, random.randrange(depth), part) if place % 2 else part
        for place, part in enumerate(parts)
    )
