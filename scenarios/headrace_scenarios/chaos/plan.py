"""Which faults strike a pipeline on Spark, and when: a plan, drawn from a seed (compare `headrace_properties.search.plans`).

Rules of this file: the input arrives in parts, and at most one fault strikes each part, so that each fault strikes a healthy run
and its effect can be observed. Kinds of faults are dealt like cards: each is used once before any is used again.
"""

import enum
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from headrace import HeadraceError
from headrace_scenarios.chaos.chaos_job import BatchMoment


class Verb(enum.StrEnum):
    """A kind of fault."""

    KILL_EXECUTOR = "kill_executor"
    """SIGKILL to an executor that is processing the micro-batch, and to its Python workers."""
    KILL_DRIVER = "kill_driver"
    """SIGKILL to the driver during a micro-batch, or when the sinks have it but Spark's commit log does not, Python and Java; its
    executors are left running."""
    ZOMBIE = "zombie"
    """All its processes are paused during a micro-batch; a successor runs the batch; then they resume."""
    RESHARD = "reshard"
    """It is stopped; its successor divides the keys into another number of intervals, and is killed meanwhile, or in the first
    micro-batch with them."""
    CHANGE = "change"
    """A computation is added to the running job, and the driver killed meanwhile, or in the next micro-batch."""


MOMENTS: dict[Verb, tuple[BatchMoment, ...]] = {
    Verb.KILL_EXECUTOR: (BatchMoment.READING,),
    Verb.KILL_DRIVER: (BatchMoment.READING, BatchMoment.WRITTEN),
    Verb.ZOMBIE: (BatchMoment.READING, BatchMoment.WRITTEN),
    Verb.RESHARD: (BatchMoment.CHANGING, BatchMoment.READING),
    Verb.CHANGE: (BatchMoment.CHANGING, BatchMoment.READING),
}
"""The moments of a micro-batch at which a fault can strike."""


class ChaosPlanError(HeadraceError):
    """A plan cannot be drawn. Fields: problem, remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        """Name the problem and the remedy."""
        return f"{self.problem}. {self.remedy}"


class Strike(msgspec.Struct, frozen=True):
    """A fault."""

    part: int  # number of the input part that it strikes, from 0
    verb: Verb
    moment: BatchMoment  # the moment of that part's micro-batch

    def describe(self) -> str:
        """Describe the strike in words.

        >>> Strike(3, Verb.ZOMBIE, BatchMoment.WRITTEN).describe()
        'part 3: zombie, written'
        """
        return f"part {self.part}: {self.verb}, {self.moment}"


class ChaosPlan(msgspec.Struct, frozen=True):
    """All faults of a run."""

    parts: int  # number of parts of the input
    strikes: tuple[Strike, ...]  # the faults, ordered by part

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """The kinds of faults in it, each once."""
        return tuple(dict.fromkeys(strike.verb for strike in self.strikes))


def draw_plan(faults: int, seed: int, entries: int, verbs: Sequence[Verb] = tuple(Verb)) -> ChaosPlan:
    """Draw a plan.

    Args:
        faults: number of faults.
        seed: seed for the plan.
        entries: number of entries of the input; each part has at least one.
        verbs: kinds of faults to use.

    Raises:
        ChaosPlanError: there is too little input for that many faults, or there is no kind.
    """
    if not verbs:
        raise ChaosPlanError("no kind of fault is given", f"The kinds are: {', '.join(Verb)}")
    if faults >= entries:
        problem = (
            f"{faults} faults need more than {entries} entries of input, because each strikes a separate part"
        )
        raise ChaosPlanError(problem, "Use fewer faults, or a longer input")
    random = Random(f"{seed}/chaos")
    parts = faults + 1
    struck = sorted(random.sample(range(parts), faults))
    dealt = _deal(random, verbs)
    verbs_struck = [next(dealt) for _ in struck]
    strikes = (
        Strike(part, verb, random.choice(MOMENTS[verb]))
        for part, verb in zip(struck, verbs_struck, strict=True)
    )
    return ChaosPlan(parts, tuple(strikes))


def _deal(random: Random, verbs: Sequence[Verb]) -> Iterator[Verb]:
    while True:
        yield from random.sample(list(verbs), len(verbs))
