"""What strikes a pipeline on Spark, and when: a plan is a value, drawn from a seed (compare `headrace_properties.search.plans`).

Rules of this file: the input falls in parts, and a part is struck at most once, so that each fault meets a healthy run and what
it did can be told. Kinds are dealt like cards: none comes again before all the others have come.
"""

import enum
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from headrace import HeadraceError
from headrace_scenarios.chaos.job import BatchMoment


class Verb(enum.StrEnum):
    """A kind of fault."""

    KILL_EXECUTOR = "kill_executor"
    """SIGKILL for an executor that works on the micro-batch, with its Python workers."""
    KILL_PYTHON_WORKER = "kill_python_worker"
    """SIGKILL for a Python worker that works on it."""
    KILL_DRIVER = "kill_driver"
    """SIGKILL for the driver in mid-batch, Python and Java; its executors are left to themselves."""
    KILL_DRIVER_AFTER_SINK = "kill_driver_after_sink"
    """SIGKILL for all its processes when the sink has the micro-batch and Spark's log does not."""
    FORGET_COMMIT = "forget_commit"
    """The driver is stopped, and the last entry of its log of commits is lost."""
    ZOMBIE = "zombie"
    """All its processes are stopped in mid-batch; a successor does the batch; then they go on."""
    RESTART = "restart"
    """The driver is stopped in good order, and started again."""


MOMENTS: dict[Verb, tuple[BatchMoment, ...]] = {
    Verb.KILL_EXECUTOR: (BatchMoment.READING, BatchMoment.WORKING),
    Verb.KILL_PYTHON_WORKER: (BatchMoment.READING, BatchMoment.WORKING),
    Verb.KILL_DRIVER: (BatchMoment.READING, BatchMoment.WORKING),
    Verb.KILL_DRIVER_AFTER_SINK: (BatchMoment.WRITTEN,),
    Verb.FORGET_COMMIT: (),
    Verb.ZOMBIE: (BatchMoment.READING, BatchMoment.WORKING, BatchMoment.WRITTEN),
    Verb.RESTART: (),
}
"""At which moments of a micro-batch a fault can strike; none: between two."""


class ChaosPlanError(HeadraceError):
    """A plan that can not be drawn. Fields: problem, remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        """Say why, and what to do."""
        return f"{self.problem}. {self.remedy}"


class Strike(msgspec.Struct, frozen=True):
    """A fault.

    Attributes:
        part: of the input that is being worked on; counts from 0.
        verb: its kind.
        moment: of that part's micro-batch; ``None``: when it is over.
    """

    part: int
    verb: Verb
    moment: BatchMoment | None = None

    def describe(self) -> str:
        """Say it in words.

        >>> Strike(3, Verb.ZOMBIE, BatchMoment.WORKING).describe(), Strike(4, Verb.RESTART).describe()
        ('part 3: zombie, working', 'part 4: restart')
        """
        return f"part {self.part}: {self.verb}" + (f", {self.moment}" if self.moment is not None else "")


class ChaosPlan(msgspec.Struct, frozen=True):
    """All that strikes a run.

    Attributes:
        parts: in which the input falls.
        strikes: by part.
    """

    parts: int
    strikes: tuple[Strike, ...]

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """The kinds that it has, each once."""
        return tuple(dict.fromkeys(strike.verb for strike in self.strikes))


def draw_plan(faults: int, seed: int, entries: int, verbs: Sequence[Verb] = tuple(Verb)) -> ChaosPlan:
    """Draw a plan.

    Args:
        faults: how many.
        seed: of the draws.
        entries: of the input; a part has one at least.
        verbs: of which kinds.

    Raises:
        ChaosPlanError: there is too little input for so many faults, or no kind.
    """
    if not verbs:
        raise ChaosPlanError("no kind of fault is left", f"Name some: {', '.join(Verb)}")
    if faults >= entries:
        problem = (
            f"{faults} faults need more than {entries} entries of input, for each strikes a part of its own"
        )
        raise ChaosPlanError(problem, "Take fewer faults, or a longer input")
    random = Random(f"{seed}/chaos")
    parts = faults + 1
    struck = sorted(random.sample(range(parts), faults))
    dealt = _deal(random, verbs)
    return ChaosPlan(parts, tuple(_strike(random, part, next(dealt)) for part in struck))


def _deal(random: Random, verbs: Sequence[Verb]) -> Iterator[Verb]:
    while True:
        yield from random.sample(list(verbs), len(verbs))


def _strike(random: Random, part: int, verb: Verb) -> Strike:
    moments = MOMENTS[verb]
    return Strike(part, verb, random.choice(moments) if moments else None)
