"""How many rows of one key the Python code of a job waits for: the whole numbers that it compares something with."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

MOST = 20
"""Choice: the largest number that is met. More rows make each run longer, and most numbers beyond count no rows."""


def rows_waited_for(handlers: Iterable[Any]) -> int:
    """Return the largest number, from 2 to `MOST`, that the code of some handlers compares with; 0 if there is none.

    ``handlers``: processors and functions. Numbers that have a name, of a module, a class or an object, are read, too, and those
    in a dict of that name.
    """
    numbers = (number for handler in handlers for number in _compared_in(handler))
    return max((number for number in numbers if 2 <= number <= MOST), default=0)


def _compared_in(handler: Any) -> Iterator[int]:
    owner = handler if inspect.isroutine(handler) or isinstance(handler, type) else type(handler)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or made by a library
        return
    module = inspect.getmodule(owner)
    names = {**vars(module or object), **(vars(owner) if isinstance(owner, type) else {})}
    names |= {} if owner is handler else getattr(handler, "__dict__", {})
    for comparison in (node for node in ast.walk(tree) if isinstance(node, ast.Compare)):
        for node in ast.walk(comparison):
            match node:
                case ast.Constant(value=value):
                    pass
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    value = names.get(name)
                case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)):
                    value = held.get(key) if isinstance(held := names.get(name), dict) else None
                case _:
                    continue
            if type(value) is int:
                yield value
