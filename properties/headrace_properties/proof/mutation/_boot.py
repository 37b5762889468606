"""What a process of one mutant runs: it puts changed sources in the place of modules before anything can import them.

It is run as a script, and imports nothing of Headrace until its hook is in place. Rule of this file: what it is told comes by
stdin, as JSON, and what comes of it goes to the real stdout, as one line of JSON; whatever else is printed goes nowhere.
"""

import importlib
import json
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any


class _Changed(SourceFileLoader):
    """Compiles another source than the file's, whatever is cached."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._changed = source

    def get_code(self, fullname: str) -> CodeType:
        code = self.source_to_code(self._changed.encode(), self.get_filename(fullname))
        assert isinstance(code, CodeType)
        return code


class Changes:
    """Finds modules whose source is changed, and nothing else.

    Args:
        sources: name of a module to its source.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as Python does, and give it another loader."""
        source = self._sources.get(fullname)
        spec = None if source is None else PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and source is not None:
            spec.loader = _Changed(fullname, spec.origin, source)
        return spec


def main() -> None:
    """Judge the mutant that stdin tells of."""
    told: dict[str, Any] = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (told["cpu_s"], resource.getrlimit(resource.RLIMIT_CPU)[1]))
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    sys.path[:] = told["path"]
    sys.meta_path.insert(0, Changes(told["sources"]))
    try:
        module, _, name = told["judge"].partition(":")
        judge = getattr(importlib.import_module(module), name)
        outcome = judge(told["runs"], told["wanted"], told["held"])
    except BaseException as error:  # noqa: BLE001  a mutant may raise anything; that it cannot even begin is its outcome
        outcome = {"unfit": f"{type(error).__name__}: {error}"}
    json.dump(outcome, answer)
    answer.close()
    os._exit(0)  # threads that a mutant has left are nobody's


if __name__ == "__main__":
    main()
