"""Automatic mutants: which modules there are to mutate, every mutation of them, and a random sample."""

import importlib.util
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import headrace
from headrace import HeadraceError
from headrace_properties.proof.mutation.operators import Mutation, mutations_of

ENGINE = (
    "headrace.rules",
    "headrace.deadlines",
    "headrace.dispatch",
    "headrace.delivery",
    "headrace.injector",
    "headrace.ownership",
    "headrace.store",
    "headrace.watermarks",
    "headrace.worker",
    "headrace.dataflow",
)
"""The rules, the machines and the Dataflow layer."""

_BEFORE_RUNS = frozenset(
    {"headrace.dataflow.arguments", "headrace.dataflow.checks", "headrace.dataflow.dataflow_errors"}
)
"""These reject wrong pipelines before anything runs: a run says nothing of them, and unit tests do."""


class UnknownModuleError(HeadraceError):
    """No module to mutate has this name. Fields: name, known."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        """List the names."""
        return (
            f"there is no module or package {self.name!r} to mutate. Name some of: {', '.join(self.known)},"
            " or modules in them"
        )


@dataclass(frozen=True, slots=True)
class Module:
    """A module to mutate.

    Attributes:
        name: to import it by.
        file: its path, as Python has it.
        source: its text.
    """

    name: str
    file: str
    source: str


@dataclass(frozen=True, slots=True)
class AutomaticMutant:
    """A module with a small mistake.

    Attributes:
        module: the sound one.
        mutation: the mistake.
    """

    module: Module
    mutation: Mutation

    @property
    def text(self) -> str:
        """The line that it is in, as it stands in the sound source."""
        return self.module.source.splitlines()[self.mutation.line - 1].strip()

    @property
    def change(self) -> str:
        """What it changes, on one line."""
        return f"{self.mutation.before} -> {self.mutation.after}"


def engine_modules(wanted: Sequence[str] = ()) -> list[Module]:
    """Return the modules of the engine.

    Args:
        wanted: names of modules, or of packages, whose modules all count; none: all of `ENGINE`.

    Raises:
        UnknownModuleError: one of them is none of the engine's.
    """
    names = _engine_names()
    for module in wanted:
        if not any(_is_in(name, module) for name in names):
            raise UnknownModuleError(module, ENGINE)
    return [module_of(name) for name in names if any(_is_in(name, module) for module in wanted or ENGINE)]


def package_of(name: str) -> str:
    """Return the one of `ENGINE` that a module belongs to; its own name, if there is none."""
    return next((package for package in ENGINE if _is_in(name, package)), name)


def _engine_names() -> list[str]:
    root = Path(inspect.getfile(headrace)).parent
    names = []
    for file in root.rglob("*.py"):
        parts = file.relative_to(root.parent).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return sorted(
        name
        for name in names
        if name not in _BEFORE_RUNS and any(_is_in(name, package) for package in ENGINE)
    )


def _is_in(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def module_of(name: str) -> Module:
    """Return a module by its name."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Module(name, spec.origin, Path(spec.origin).read_text(encoding="utf-8"))


def mutants_of(
    modules: Iterable[Module], wanted: Callable[[Module, Mutation], bool] = lambda _, __: True
) -> list[AutomaticMutant]:
    """Return every mutant of some modules. ``wanted``: which of them count."""
    return [
        AutomaticMutant(module, mutation)
        for module in modules
        for mutation in mutations_of(module.source)
        if wanted(module, mutation)
    ]


def sample(mutants: Sequence[AutomaticMutant], count: int, seed: int) -> list[AutomaticMutant]:
    """Draw so many of them, or all if there are no more, in the order of the text."""
    numbers = Random(f"{seed}/mutants").sample(range(len(mutants)), min(count, len(mutants)))
    return [mutants[number] for number in sorted(numbers)]
