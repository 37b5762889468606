"""A measurement: a sample of automatic mutants, each judged by the runs that reach it; or the lines that no run reaches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from headrace_properties.proof.mutation.equivalents import Key, reason_for
from headrace_properties.proof.mutation.mutant_judge import Judgement, check_control, judge_all, turns
from headrace_properties.proof.mutation.mutant_runs import RunsSpec
from headrace_properties.proof.mutation.operators import SELF_CHECKS
from headrace_properties.proof.mutation.patches import PatchedModule
from headrace_properties.proof.mutation.sampling import AutomaticMutant, Module
from headrace_properties.proof.mutation.survey import Survey, SurveyedRun, executable, functions_in

_CONTROLS = 10


@dataclass(frozen=True, slots=True)
class MutantResult:
    """What a mutant came to.

    Attributes:
        mutant: which.
        judgement: what the runs say of it.
        reached: how many of the runs execute the line.
        reason: why somebody takes it for equivalent; ``""``: nobody does.
    """

    mutant: AutomaticMutant
    judgement: Judgement
    reached: int
    reason: str = ""

    @property
    def killed(self) -> bool:
        """Something noticed it."""
        return bool(self.judgement.killed_by)

    @property
    def counts(self) -> bool:
        """It says something of the net: it can be imported, and is not equivalent."""
        return not self.judgement.unfit and (self.killed or not self.reason)

    @property
    def survived(self) -> bool:
        """It counts, and nothing noticed it."""
        return self.counts and not self.killed


def measure(
    mutants: Sequence[AutomaticMutant],
    surveyed: Survey,
    spec: RunsSpec,
    *,
    most_runs: int,
    jobs: int = 1,
    notes: Mapping[Key, str] | None = None,
) -> Iterator[MutantResult]:
    """Judge mutants, and give what each comes to, in their order.

    Args:
        mutants: whom.
        surveyed: the runs on the sound code.
        spec: where a process gets its runs.
        most_runs: for each mutant.
        jobs: how many at once.
        notes: why somebody takes a mutant for equivalent.

    Raises:
        ChangedRunError: the runs are not the same in a process of their own.
    """
    check_control(surveyed.runs[:_CONTROLS], spec)
    reaching = [_reaching(mutant, surveyed) for mutant in mutants]
    work = [
        ({mutant.module.name: mutant.mutation.source}, turns(runs, most_runs))
        for mutant, runs in zip(mutants, reaching, strict=True)
    ]
    judged = judge_all(work, spec, jobs)
    for mutant, runs, judgement in zip(mutants, reaching, judged, strict=True):
        yield MutantResult(mutant, judgement, len(runs), reason_for(notes or {}, mutant))


def judge_patch(
    patched: Sequence[PatchedModule], surveyed: Survey, sound: RunsSpec, broken: RunsSpec, most_runs: int
) -> tuple[Judgement, int]:
    """Judge a broken engine; returns how many runs reach what it changes, too.

    Args:
        patched: the modules that it changes; none: nobody knows what it changes, and all runs count.
        surveyed: the runs on the sound engine.
        sound: where a process gets the runs on the sound engine.
        broken: where it gets those on the broken one.
        most_runs: at most so many.

    Raises:
        ChangedRunError: the sound runs are not the same in a process of their own.
    """
    check_control(surveyed.runs[:_CONTROLS], sound)
    reaching = [run for run in surveyed.runs if not patched or _touches(run, patched)]
    sources = {module.module.name: module.source for module in patched}
    (judgement,) = judge_all([(sources, turns(reaching, most_runs))], broken, 1)
    return judgement, len(reaching)


def _touches(run: SurveyedRun, patched: Sequence[PatchedModule]) -> bool:
    """It executes a function with a changed line, or a line outside of functions has changed, which all runs depend on."""
    for module in patched:
        reached = run.lines.get(module.module.file, 0)
        for line in module.lines:
            body = _innermost(module.module, line)
            if not body or any(reached >> other & 1 for other in body):
                return True
    return False


def _innermost(module: Module, line: int) -> frozenset[int]:
    """The executable lines of the innermost function around a line; none: it is in no function."""
    found = [lines for lines in _functions(module) if min(lines) <= line <= max(lines)]
    return min(found, key=lambda lines: max(lines) - min(lines), default=frozenset())


def _reaching(mutant: AutomaticMutant, surveyed: Survey) -> tuple[SurveyedRun, ...]:
    mutation, module = mutant.mutation, mutant.module
    if mutation.at_import:
        return surveyed.runs
    has_code = any(mutation.line in lines for lines in _functions(module))
    return surveyed.reaching(module.file, [mutation.line if has_code else mutation.statement])


@lru_cache(maxsize=256)
def _functions(module: Module) -> tuple[frozenset[int], ...]:
    """The lines of each function, with that of its ``def``."""
    code = compile(module.source, module.file, "exec")
    return tuple(lines for function in functions_in(code) if (lines := frozenset(executable(function))))


@dataclass(frozen=True, slots=True)
class Unreached:
    """The lines of a module that no run executes.

    Attributes:
        module: which.
        lines: of its functions, that have code.
        of: how many lines of its functions have code.
    """

    module: Module
    lines: tuple[int, ...]
    of: int


def unreached(modules: Sequence[Module], reached: Callable[[str], int]) -> list[Unreached]:
    """List the lines that no run executes.

    Args:
        modules: of which modules.
        reached: gives the lines of a file that some run executes, as bits.
    """
    found = []
    for module in modules:
        lines: set[int] = set()
        for code in functions_in(compile(module.source, module.file, "exec")):
            if code.co_name not in SELF_CHECKS:
                own = set(executable(code))
                lines |= own - {code.co_firstlineno} or own
        here = reached(module.file)
        left = tuple(sorted(line for line in lines if not here >> line & 1))
        found.append(Unreached(module, left, len(lines)))
    return found
