"""Repeat calls of user code in another process, with other string hashes and another order of sets.

Python randomizes the hashes of strings in each process (PYTHONHASHSEED). A handler that stores or sends a ``hash()``, or anything
that depends on a set's order, gives another outcome on another machine, and when it is retried there.

The other process imports the pipeline by name, so a pipeline that no module defines cannot be checked.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from headrace import Pipeline
from headrace_properties.reference import HookCall
from headrace_properties.search.guard import allowing_effects, guarded
from headrace_properties.search.limits import CodeLimits, OverrunError, call_time_limited
from headrace_properties.user_code.calls import THE_DAY, Caller, Elsewhere, clock_at

_CODE = """
import sys
sys.modules["pytest"] = None  # time-machine would import it, where it is installed: a third of the time that the process takes
import time_machine
del sys.modules["pytest"]
from headrace_properties.user_code.other_hash import serve
serve()
"""


class OtherHashes:
    """The other process, which ends with the block.

    Args:
        name: (module, name in it) of the pipeline.
        limits: of its code.
    """

    def __init__(self, name: tuple[str, str], limits: CodeLimits) -> None:
        seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        self._process = subprocess.Popen(  # noqa: S603  this Python
            [sys.executable, "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._name, self._limits = name, limits
        self._begun = False

    def __enter__(self) -> Self:
        """Make calls in the other process, and end it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def call(self, steps: Sequence[HookCall]) -> list[Elsewhere] | None:
        """Make calls there; return ``None`` if the process cannot import the pipeline or has ended."""
        try:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            if not self._begun:
                pickle.dump((self._name, self._limits, allowing_effects()), self._process.stdin)
                self._begun = True
            pickle.dump(list(steps), self._process.stdin)
            self._process.stdin.flush()
            results: list[Elsewhere] | None = pickle.load(self._process.stdout)  # noqa: S301  from our own process
        except (OSError, EOFError, pickle.PickleError):
            return None
        return results


def importable_name(pipeline: Pipeline) -> tuple[str, str] | None:
    """Return (module, name in it) of a pipeline; ``None`` if no module defines it."""
    for module_name, module in list(sys.modules.items()):
        if module_name == "__main__" or getattr(module, "__spec__", None) is None:
            continue
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is pipeline:
                return module_name, name
    return None


def serve() -> None:
    """Answer requests until the input ends: the other process's main loop."""
    # Its own descriptors: what user code reads and prints must not mix with questions and answers.
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    name, limits, allows_effects = pickle.load(asked)  # noqa: S301  from our own process
    with guarded(allows_effects=allows_effects), call_time_limited(limits):
        caller = _caller_of(*name)
        while True:
            try:
                steps: list[HookCall] = pickle.load(asked)  # noqa: S301  as above
            except EOFError:
                return
            with clock_at(THE_DAY):
                outcomes = None if caller is None else [_made(caller, step) for step in steps]
            pickle.dump(outcomes, answers)
            answers.flush()


def _caller_of(module_name: str, name: str) -> Caller | None:
    with suppress(Exception, SystemExit, OverrunError):
        __import__(module_name)
        pipeline = getattr(sys.modules[module_name], name)
        return Caller(pipeline) if isinstance(pipeline, Pipeline) else None
    return None


def _made(caller: Caller, step: HookCall) -> Elsewhere:
    return Elsewhere(caller.call(step), None if step.record is None else caller.key_of(step))
