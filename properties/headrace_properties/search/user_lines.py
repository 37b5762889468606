"""Track the lines of user code that runs have reached.

Choice: one run in `EVERY` is traced with `sys.settrace`, which slows it down; tracing all would cost more than it reveals.
Nothing is traced under another tracer, such as a debugger or coverage.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from headrace_properties.promises.claims import claims_of
from headrace_properties.search.application import Application
from headrace_properties.search.origins import user_modules
from headrace_sim import versions_of

EVERY = 23
"""Choice: prime to the dozen inputs of a search, so that the watched runs take turns with all of them."""

Branch = tuple[str, int, int]
"""File, and two lines of which the second followed the first; the first is 0 where a function begins."""


@contextmanager
def watched(application: Application) -> Iterator[set[Branch]]:
    """Collect the branches of user code that are taken; none under another tracer."""
    branches: set[Branch] = set()
    if sys.gettrace() is not None:
        yield branches
        return
    files = {module.__file__ for module in user_modules(modules_of(application))}
    files |= {claim.file for promise in application.promises for claim in claims_of(promise)}
    sys.settrace(_tracer(files, branches))
    try:
        yield branches
    finally:
        sys.settrace(None)


def unreached(application: Application, taken: Iterable[Branch]) -> tuple[tuple[str, int], ...]:
    """List the unreached lines, as (file, line), of the computations' methods, except ``__init__``, and of promises' claims."""
    reached = {(file, line) for file, _, line in taken}
    claims = (claim for promise in application.promises for claim in claims_of(promise))
    lines = {(claim.file, claim.node.lineno) for claim in claims}
    for code in _methods(application):
        lines |= {(code.co_filename, line) for line in lines_of(code)}
    return tuple(sorted(lines - reached))


def _tracer(files: set[str | None], branches: set[Branch]) -> Callable[[FrameType, str, Any], Any]:
    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in files:
            return None
        last = 0

        def step(frame: FrameType, event: str, _argument: Any) -> Any:
            nonlocal last
            if event == "line":
                branches.add((file, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step

    return enter


def modules_of(application: Application) -> list[str]:
    """List the modules of the computations' classes."""
    return [
        type(spec.computation).__module__
        for version in versions_of(application.versions)
        for spec in version.computations.values()
    ]


def _methods(application: Application) -> Iterator[CodeType]:
    files = {module.__file__ for module in user_modules(modules_of(application))}
    for version in versions_of(application.versions):
        for spec in version.computations.values():
            for kind in type(spec.computation).__mro__:
                for name, value in vars(kind).items():
                    code = getattr(value, "__code__", None)
                    if isinstance(code, CodeType) and code.co_filename in files and name != "__init__":
                        yield code


def lines_of(code: CodeType) -> Iterator[int]:
    """Yield the lines executed when the code is called, and those of its inner functions."""
    for _, _, line in code.co_lines():
        if line is not None and line != code.co_firstlineno:
            yield line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from lines_of(constant)
