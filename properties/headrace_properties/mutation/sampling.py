"""Which mistakes can be made in some modules, and a random sample of them."""

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from headrace_properties.mutation.mutation_operators import Mutation, mutations_of
from headrace_properties.mutation.survey import SurveyedRun
from headrace_properties.search.application import Application
from headrace_properties.search.user_lines import unreached


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
class CodeMutant:
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


def module_of(name: str) -> Module:
    """Return a module by its name."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Module(name, spec.origin, Path(spec.origin).read_text(encoding="utf-8"))


def mutants_of(modules: Iterable[Module]) -> list[CodeMutant]:
    """Return every mutant of some modules."""
    return [CodeMutant(module, mutation) for module in modules for mutation in mutations_of(module.source)]


def in_workers(
    application: Application, modules: Iterable[Module], surveyed: Iterable[SurveyedRun]
) -> list[CodeMutant]:
    """Return mutants of code that runs in workers, and of the computations' methods that no run has reached.

    Neither what makes the input, nor the promises.
    """
    reached = {(file, line) for run in surveyed for file, lines in run.lines.items() for line in lines}
    wanted = reached | {*unreached(application, [(file, 0, line) for file, line in reached])}
    return [
        mutant
        for mutant in mutants_of(modules)
        if not wanted.isdisjoint(
            (mutant.module.file, line) for line in (mutant.mutation.line, mutant.mutation.statement)
        )
    ]


def sample(mutants: Sequence[CodeMutant], count: int, seed: int) -> list[CodeMutant]:
    """Draw so many of them, or all if there are no more, in the order of the text."""
    numbers = Random(f"{seed}/mutants").sample(range(len(mutants)), min(count, len(mutants)))
    return [mutants[number] for number in sorted(numbers)]
