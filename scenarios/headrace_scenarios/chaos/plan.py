"""Which faults strike a pipeline on Spark, and when: a plan, drawn from a seed (compare `headrace_properties.search.plans`).

Rules of this file: the input arrives in parts, and at most one fault strikes each part, so that each fault strikes a healthy run
and its effect can be observed. Kinds of faults are dealt like cards: each is used once before any is used again.
"""

import enum
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from headrace import HeadraceError
from headrace_scenarios.chaos.job import BatchMoment, JobLayout


class Verb(enum.StrEnum):
    """A kind of fault."""

    KILL_EXECUTOR = "kill_executor"
    """SIGKILL to an executor that is processing the micro-batch, and to its Python workers."""
    KILL_PYTHON_WORKER = "kill_python_worker"
    """SIGKILL to a Python worker that is processing the micro-batch."""
    KILL_DRIVER = "kill_driver"
    """SIGKILL to the driver during a micro-batch, Python and Java; its executors are left running."""
    KILL_DRIVER_AFTER_SINK = "kill_driver_after_sink"
    """SIGKILL to all its processes when the sink has the micro-batch but Spark's commit log does not."""
    FORGET_COMMIT = "forget_commit"
    """The driver is stopped, and the last entry of its commit log is deleted."""
    ZOMBIE = "zombie"
    """All its processes are paused during a micro-batch; a successor runs the batch; then they resume."""
    RESTART = "restart"
    """The driver is stopped in an orderly way, and restarted."""
    RESHARD = "reshard"
    """It is stopped; its successor divides the keys into another number of intervals, and is killed meanwhile, or in the first
    micro-batch with them."""
    CHANGE = "change"
    """A computation is added to the running job, and the driver killed meanwhile, or in the next micro-batch."""


MOMENTS: dict[Verb, tuple[BatchMoment, ...]] = {
    Verb.KILL_EXECUTOR: (BatchMoment.READING, BatchMoment.WORKING),
    Verb.KILL_PYTHON_WORKER: (BatchMoment.READING, BatchMoment.WORKING),
    Verb.KILL_DRIVER: (BatchMoment.READING, BatchMoment.WORKING),
    Verb.KILL_DRIVER_AFTER_SINK: (BatchMoment.WRITTEN,),
    Verb.FORGET_COMMIT: (),
    Verb.ZOMBIE: (BatchMoment.READING, BatchMoment.WORKING, BatchMoment.WRITTEN),
    Verb.RESTART: (),
    Verb.RESHARD: (BatchMoment.CHANGING, BatchMoment.READING),
    Verb.CHANGE: (BatchMoment.CHANGING, BatchMoment.READING),
}
"""The moments of a micro-batch at which a fault can strike; none: between two micro-batches."""


SURVIVED = (Verb.KILL_EXECUTOR, Verb.KILL_PYTHON_WORKER)
"""Kinds after which the same driver goes on."""


def kinds_of(layout: JobLayout) -> tuple[Verb, ...]:
    """Return the kinds of faults that can strike a job that runs so."""
    return tuple(verb for verb in Verb if verb not in _OF_DEPLOYED or layout is not JobLayout.QUERY)


_OF_DEPLOYED = (Verb.RESHARD, Verb.CHANGE)
_NEEDS = f"{Verb.RESHARD} and {Verb.CHANGE} need --layout {JobLayout.PIPELINED} or {JobLayout.STAGED}"


class ChaosPlanError(HeadraceError):
    """A plan cannot be drawn. Fields: problem, remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        """Name the problem and the remedy."""
        return f"{self.problem}. {self.remedy}"


class Strike(msgspec.Struct, frozen=True):
    """A fault.

    Attributes:
        part: number of the input part that it strikes, from 0.
        verb: its kind.
        moment: the moment of that part's micro-batch; ``None``: after it.
    """

    part: int
    verb: Verb
    moment: BatchMoment | None = None

    def describe(self) -> str:
        """Describe the strike in words.

        >>> Strike(3, Verb.ZOMBIE, BatchMoment.WORKING).describe(), Strike(4, Verb.RESTART).describe()
        ('part 3: zombie, working', 'part 4: restart')
        """
        return f"part {self.part}: {self.verb}" + (f", {self.moment}" if self.moment is not None else "")


class ChaosPlan(msgspec.Struct, frozen=True):
    """All faults of a run.

    Attributes:
        parts: number of parts of the input.
        strikes: the faults, ordered by part.
    """

    parts: int
    strikes: tuple[Strike, ...]

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """The kinds of faults in it, each once."""
        return tuple(dict.fromkeys(strike.verb for strike in self.strikes))


def draw_plan(
    faults: int,
    seed: int,
    entries: int,
    verbs: Sequence[Verb] | None = None,
    *,
    layout: JobLayout = JobLayout.QUERY,
) -> ChaosPlan:
    """Draw a plan.

    Args:
        faults: number of faults.
        seed: seed for the plan.
        entries: number of entries of the input; each part has at least one.
        verbs: kinds of faults to use; ``None``: all.
        layout: of the job that they strike.

    Raises:
        ChaosPlanError: there is too little input for that many faults, or there is no kind.
    """
    possible = kinds_of(layout)
    if verbs is None:
        verbs = possible
    if not verbs:
        raise ChaosPlanError("no kind of fault is given", f"The kinds are: {', '.join(Verb)}")
    if strange := [verb for verb in verbs if verb not in possible]:
        raise ChaosPlanError(f"this job cannot be struck by {', '.join(strange)}", _NEEDS)
    if faults >= entries:
        problem = (
            f"{faults} faults need more than {entries} entries of input, because each strikes a separate part"
        )
        raise ChaosPlanError(problem, "Use fewer faults, or a longer input")
    random = Random(f"{seed}/chaos")
    parts = faults + 1
    struck = sorted(random.sample(range(parts), faults))
    dealt = _deal(random, verbs)
    return ChaosPlan(parts, tuple(_strike(random, part, next(dealt), layout) for part in struck))


def _deal(random: Random, verbs: Sequence[Verb]) -> Iterator[Verb]:
    while True:
        yield from random.sample(list(verbs), len(verbs))


def _strike(random: Random, part: int, verb: Verb, layout: JobLayout) -> Strike:
    # The tasks of a deployed job's last level are out of reach: its rows pass through the driver on their way to the sinks.
    moments = [
        moment for moment in MOMENTS[verb] if layout is JobLayout.QUERY or moment is not BatchMoment.WORKING
    ]
    return Strike(part, verb, random.choice(moments) if moments else None)
