"""A measurement: a sample of mutants, each judged by the runs that reach it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from headrace_properties.mutation.judge import Judgement, check_control, judge_all
from headrace_properties.mutation.notes import Key, reason_of
from headrace_properties.mutation.sampling import CodeMutant, Module
from headrace_properties.mutation.survey import LoadApplication, SurveyedRun
from headrace_properties.search.user_lines import lines_of

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

    mutant: CodeMutant
    judgement: Judgement
    reached: int
    reason: str = ""

    @property
    def killed(self) -> bool:
        """Something noticed it."""
        return bool(self.judgement.killed_by)

    @property
    def counts(self) -> bool:
        """It says something of the promises: it can be imported, and is not equivalent."""
        return not self.judgement.unfit and (self.killed or not self.reason)

    @property
    def survived(self) -> bool:
        """It counts, and nothing noticed it."""
        return self.counts and not self.killed


def measure(
    mutants: Sequence[CodeMutant],
    surveyed: Sequence[SurveyedRun],
    load: LoadApplication,
    *,
    jobs: int = 1,
    notes: Mapping[Key, str] | None = None,
) -> Iterator[MutantResult]:
    """Judge mutants, and yield each judgement in their order.

    Args:
        mutants: whom.
        surveyed: the runs on the sound code.
        load: gets the application.
        jobs: how many at once.
        notes: why somebody takes a mutant for equivalent.

    Raises:
        ChangedRunError: the runs are not the same in a process of their own.
    """
    check_control(surveyed[:_CONTROLS], load)
    reaching = [_reaching(mutant, surveyed) for mutant in mutants]
    work = [
        ({mutant.module.name: mutant.mutation.source}, runs)
        for mutant, runs in zip(mutants, reaching, strict=True)
    ]
    for mutant, (_, runs), judgement in zip(mutants, work, judge_all(work, load, jobs), strict=True):
        yield MutantResult(mutant, judgement, len(runs), reason_of(notes or {}, mutant))


def _reaching(mutant: CodeMutant, surveyed: Sequence[SurveyedRun]) -> Sequence[SurveyedRun]:
    mutation, module = mutant.mutation, mutant.module
    line = mutation.line if mutation.line in _executable(module) else mutation.statement
    return [run for run in surveyed if line in run.lines.get(module.file, ())]


@lru_cache(maxsize=256)
def _executable(module: Module) -> frozenset[int]:
    """Return the lines of a module that have code."""
    return frozenset(lines_of(compile(module.source, module.file, "exec")))
