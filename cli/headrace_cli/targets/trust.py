"""Which modules a replay file may have imported.

A replay file can come from anybody, and importing a module runs its code. Rules of this file:

* ``headrace replay FILE`` imports a module that only the file names if it belongs to Headrace, or to the project in the current
  directory, where ``headrace verify`` would import it. Any other has to be named on the command line, too, or allowed with
  ``--trust``.
* Whoever will import a module is asked where it is: the finders of `sys.meta_path`, in their order. Nothing is imported for it,
  so a package of the project is taken to have its modules where its path says.
* What no finder knows, or what has no file, is not trusted.
"""

import sys
import sysconfig
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, NamespaceLoader
from pathlib import Path

from headrace import HeadraceError
from headrace_cli.targets.loading import search_here
from headrace_properties.target import is_file_of_program

_OURS = ("headrace_scenarios", "headrace_properties")
_PROJECT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg")
_INSTALLED = {"site-packages", "dist-packages"}
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")


class UntrustedModuleError(HeadraceError):
    """A replay file names a module outside the project, or one that is nowhere. Fields: file, module, project, missing."""

    def __init__(self, file: str, module: str, project: str, missing: bool = False) -> None:  # noqa: FBT001, FBT002  a field
        super().__init__(file, module, project, missing)
        self.file, self.module, self.project, self.missing = file, module, project, missing

    def __str__(self) -> str:
        """Say which module, and the ways to allow it."""
        if self.missing:
            return (
                f"{self.file} names {self.module!r}, and there is no module {self.module!r}, neither in the current directory "
                "nor installed. Run the command in the directory that contains it, or install it"
            )
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
    search_here()
    for target in targets:
        module = target.partition(":")[0]
        if module == known:
            continue
        trusted = _in_project(target) if is_file_of_program(target) else _is_trusted(module)
        if not trusted:
            raise UntrustedModuleError(str(file), module, str(_project()), missing=trusted is None)


def _is_trusted(module: str) -> bool | None:
    """Return whether a module, and each package that is imported with it, is ours or in the project; ``None``: it is nowhere."""
    names = module.split(".")
    if names[0] in _OURS:
        return True
    path: Sequence[str] | None = None
    for end in range(1, len(names) + 1):
        name = ".".join(names[:end])
        spec = None if path is None and end > 1 else _spec(name, path)
        if spec is None:
            return None
        path = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
        if spec.loader is None or isinstance(spec.loader, NamespaceLoader):  # it has no code of its own
            if end == len(names) and not all(map(_in_project, path or ())):
                return False
        elif not (spec.has_location and spec.origin and _in_project(spec.origin)):
            return False
    return True


def _spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Return the spec by which a module will be imported, or was."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except (
            KeyError
        ):  # the path found a namespace in one that is not imported, where it would have looked up its path
            return _inner_namespace(name, path or ())
        if spec is not None:
            return spec
    return None


def _inner_namespace(name: str, path: Sequence[str]) -> ModuleSpec:
    spec = ModuleSpec(name, None, is_package=True)
    folders = (Path(folder) / name.rpartition(".")[2] for folder in path)
    spec.submodule_search_locations = [str(folder) for folder in folders if folder.is_dir()]
    return spec


def _in_project(name: str) -> bool:
    """Return whether a file, or a member of an archive, is there, in the project, and in no environment within it."""
    project, place = _project(), Path(name).resolve()
    if not place.is_relative_to(project) or _INSTALLED & set(place.relative_to(project).parts):
        return False
    inside = [folder for folder in place.parents if folder != project and folder.is_relative_to(project)]
    if not place.exists() and not any(folder.is_file() for folder in inside):
        return False
    environments = (folder for folder in inside for mark in _ENVIRONMENT_MARKS if (folder / mark).exists())
    return next(environments, None) is None and not any(
        place.is_relative_to(folder) and not project.is_relative_to(folder) for folder in _PYTHONS
    )


_PYTHONS = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
"""Where Python's own modules are, and what is installed beside them: a home directory, say, can contain them."""


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
