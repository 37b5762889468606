"""Which modules a replay file may have imported.

A replay file can come from anybody, and importing a module runs its code. Rule of this file: ``headrace replay FILE`` imports a
module that only the file names if it belongs to Headrace, or to the project in the current directory, where ``headrace verify``
would import it. Any other module has to be named on the command line, too, or allowed with ``--trust``.
"""

import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path

from headrace import HeadraceError

_OURS = ("headrace_scenarios", "headrace_properties")
_PROJECT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg")
_INSTALLED = {"site-packages", "dist-packages"}


class UntrustedModuleError(HeadraceError):
    """A replay file names a module outside the project. Fields: file, module, project."""

    def __init__(self, file: str, module: str, project: str) -> None:
        super().__init__(file, module, project)
        self.file, self.module, self.project = file, module, project

    def __str__(self) -> str:
        """Say which module, and the ways to allow it."""
        return (
            f"{self.file} names the module {self.module!r}, which is not in this project ({self.project}); it was not imported. "
            f"If you trust the file, add --trust, or name the pipeline: headrace replay {self.file} MODULE:PIPELINE"
        )


def check_trusted(file: Path, targets: Iterable[str], asked: str | None) -> None:
    """Refuse modules that the user has neither named nor in the project. Imports nothing.

    Args:
        file: the replay file.
        targets: ``MODULE:PIPELINE`` each, as the file has them.
        asked: the one that the user named.

    Raises:
        UntrustedModuleError: one is not trusted.
    """
    known = (asked or "").partition(":")[0]
    for target in targets:
        module = target.partition(":")[0]
        if module != known and not _is_trusted(module.partition(".")[0]):
            raise UntrustedModuleError(str(file), module, str(_project()))


def _is_trusted(package: str) -> bool:
    """Return whether a top-level module is ours, in the project, or nowhere, which the import will say better."""
    if package in _OURS:
        return True
    if package in sys.builtin_module_names:
        return False
    spec = PathFinder.find_spec(package, [str(Path.cwd()), *sys.path])
    if spec is None:
        return True
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return bool(places) and all(_in_project(Path(place)) for place in places)


def _in_project(place: Path) -> bool:
    project = _project()
    place = place.resolve()
    return place.is_relative_to(project) and not _INSTALLED & set(place.relative_to(project).parts)


def _project() -> Path:
    """Return the nearest directory from here upwards that has a project's mark; without one, this directory."""
    here = Path.cwd().resolve()
    return next(
        (
            folder
            for folder in (here, *here.parents)
            if any((folder / mark).exists() for mark in _PROJECT_MARKS)
        ),
        here,
    )
