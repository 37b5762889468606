"""What user code must not do, what only its author can mean, and how a finding is reported (4, 6.1).

Rule of this file: what the order or the schedule of arrival decides, and state that lasts, are questions to the author, since
they may be meant. All else is wrong whatever the author means: a retry, another machine or another day changes the outcome.
"""

import enum
from dataclasses import dataclass

from headrace import Pipeline
from headrace.wire.effects import SourceRecord
from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.printable import describe_record
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.user_frames import Place
from headrace_sim import Feed

MOST_SHOWN = 10
"""Maximum number of records shown with a finding."""


class Habit(enum.Enum):
    """Something that user code must not do, or should not do unless it is meant."""

    NEVER_ENDS = "never ends"
    ENDS_PROCESS = "ends the process"
    RAISES = "raises an exception"
    GOES_BACK = "produces with a timestamp before its cause"
    SHARES_STATE = "shares state between keys, outside its row"
    KEEPS_STATE = "keeps state outside its row"
    READS_CLOCK = "lets the wall clock decide its outcome"
    USES_CHANCE = "lets random numbers decide its outcome"
    USES_ZONE = "depends on the time zone of the machine that runs it"
    USES_HASHES = "depends on what differs between processes, such as hash() or the order of a set"
    NOT_DETERMINISTIC = "is nondeterministic: running it again gives another outcome"
    HAS_EFFECTS = "has effects outside its process, which a retry repeats"
    LEAVES_TRACES = "changes objects outside its row, and again when it is retried"
    STARTS_THREADS = "starts threads"
    NOT_READ_BACK = "leaves something in its state that the codec does not read back as it was"
    FAILS_IN_ANOTHER_ORDER = "raises an exception in another order of arrival"
    DEPENDS_ON_FAULTS = "gives a different result after a crash, a retry or a move to another machine"
    COUNTS_AGAIN = "counts records again that their source delivers again"
    SPLITS_KEYS = "takes two spellings of one key for two"
    MISREADS = "misreads what the previous version has left"
    DEPENDS_ON_ORDER = "depends on the order of arrival"
    DEPENDS_ON_SCHEDULE = "depends on when records arrive, or on how far the low watermark has come"
    GROWTH = "leaves state that nothing will ever clean up"

    @property
    def kind(self) -> Kind:
        """It as a kind of finding."""
        asks = self in (*ORDERS, Habit.GROWTH)
        finding_class = FindingClass.UNDECLARED if asks else FindingClass.VIOLATED
        name = self.name.lower().replace("_", "-")
        return Kind(Family.CODE, name, finding_class, list(Habit).index(self))

    @property
    def stops(self) -> bool:
        """Whether a run cannot continue after it."""
        return self in (Habit.NEVER_ENDS, Habit.ENDS_PROCESS, Habit.RAISES)

    @property
    def does_harm(self) -> bool:
        """Whether a run with it repeats effects outside its process."""
        return self in (Habit.HAS_EFFECTS, Habit.STARTS_THREADS)


def habit_of(finding: Finding) -> Habit | None:
    """Return what code does that a finding is about; ``None``: it is a note."""
    return next((habit for habit in Habit if habit.kind.name == finding.kind.name), None)


def headline_of(finding: Finding) -> str:
    """Say in a few words whose code does what."""
    habit = habit_of(finding)
    return str(finding.kind) if habit is None else f"the code of {finding.subject!r} {habit.value}"


REMEDIES = {
    Habit.NEVER_ENDS: "Bound the loop, or the timers that it sets",
    Habit.ENDS_PROCESS: "Return, or raise an exception",
    Habit.RAISES: "Handle the record, or give the computation on_failure=DeadLetter(stream)",
    Habit.GOES_BACK: "Give the production the timestamp of its cause or a later one",
    Habit.SHARES_STATE: "Keep it in context.state",
    Habit.KEEPS_STATE: "Keep it in context.state",
    Habit.READS_CLOCK: 'Use record.timestamp; or declare nondeterministic="why"',
    Habit.USES_CHANCE: 'Derive it from the record; or declare nondeterministic="why"',
    Habit.USES_ZONE: 'Name the zone, as in datetime.fromtimestamp(seconds, UTC); or declare nondeterministic="why"',
    Habit.USES_HASHES: 'Sort the set, or use zlib.crc32 for hash(); or declare nondeterministic="why"',
    Habit.NOT_DETERMINISTIC: 'Use the record and the state only; or declare nondeterministic="why"',
    Habit.HAS_EFFECTS: 'Produce a record instead, and let a consumer of it do that once; or declare nondeterministic="why"',
    Habit.LEAVES_TRACES: 'Keep it in context.state, or produce it; or declare nondeterministic="why"',
    Habit.STARTS_THREADS: 'Produce a record instead; or declare nondeterministic="why"',
    Habit.NOT_READ_BACK: "Leave only what the codec reads back unchanged; or do without share_state",
    Habit.FAILS_IN_ANOTHER_ORDER: "Handle the record in any order, or give the computation on_failure=DeadLetter(stream)",
    Habit.DEPENDS_ON_FAULTS: "Use the record and the state only",
    Habit.COUNTS_AGAIN: "Keep the ids of records in context.state as long as their source may repeat them, and drop known ones",
    Habit.SPLITS_KEYS: "Normalize keys where the pipeline extracts them: record.value[...].strip().lower()",
    Habit.MISREADS: "Read the state of both versions, or give the computation another name",
    Habit.DEPENDS_ON_SCHEDULE: "If that is meant, declare ordered=True; or go by record.timestamp, or by a timer for each window",
    Habit.DEPENDS_ON_ORDER: "If that is meant, declare ordered=True; or compare timestamps, or wait for the low watermark",
    Habit.GROWTH: "If it may stay, promise bounded_state(COMPUTATION, keeps=...), or allow 'growth' to be unknown; or let a timer"
    " clear it",
}  # fmt: skip

READ_BACK = (
    "Leave only what the codec reads back unchanged, a list for a tuple and text for a number as a key; or give it a state_codec,"
    " such as TypedCodec(State)"
)
"""What to do about `Habit.NOT_READ_BACK` in a state that is not shared."""

COMBINE_IN_ANY_ORDER = (
    "Let the combiner give the same for its values in any order, however they are merged or taken back"
)
"""What to do about a grouping of the Dataflow layer that depends on the order of arrival."""

ORDERS = (Habit.DEPENDS_ON_ORDER, Habit.DEPENDS_ON_SCHEDULE)
"""What ``ordered=True`` declares, unless the wall clock decides."""


@dataclass(frozen=True, slots=True)
class Witness:
    """How a habit shows up in one input.

    Attributes:
        computation: whose code.
        detail: how it shows up.
        records: how many of the input's first records are enough.
        cause: the record or timer, and its key, of the call that shows it.
        place: the line of code; ``None``: unknown.
        outcomes: the differing outcomes, each with its circumstances.
        remedy: what to do; default: what `REMEDIES` says of the habit.
        by_clock: the wall clock decides, which no order of arrival makes, and ``ordered=True`` does not declare.
        stops: it stops the run.
    """

    computation: str
    detail: str
    records: int
    cause: str = ""
    place: Place | None = None
    outcomes: tuple[tuple[str, str], ...] = ()
    remedy: str = ""
    by_clock: bool = False
    stops: bool = False


def finding_of(habit: Habit, witness: Witness, trial: CodeTrial, feed: Feed, pipeline: Pipeline) -> Finding:
    """Return what a habit shows as a finding.

    Args:
        habit: what the code does.
        witness: how that shows.
        trial: what shows it again.
        feed: the records that the trial keeps.
        pipeline: whose records they are.
    """
    shown = shown_records(pipeline, feed)
    number = "one record" if feed.records == 1 else f"{feed.records} records"
    more = [f"and {len(shown) - MOST_SHOWN} more"] if len(shown) > MOST_SHOWN else []
    records = "; ".join([*shown[:MOST_SHOWN], *more])
    story = [f"It was called for {witness.cause}."] if witness.cause else []
    story += [f"{circumstances}: {outcome:.400}." for circumstances, outcome in witness.outcomes]
    story.append(f"Shown by {number}{f': {records}' if records else ''}.")
    return Finding(
        habit.kind,
        f"The code of {witness.computation!r} {habit.value}: {witness.detail}",
        witness.place,
        witness.remedy or REMEDIES[habit],
        tuple(story),
        trial,
        subject=witness.computation,
    )


def shown_records(pipeline: Pipeline, feed: Feed) -> tuple[str, ...]:
    """Return the records of an input as text for people."""
    records = [entry.event for entry in feed.entries if isinstance(entry.event, SourceRecord)]
    return tuple(describe_record(pipeline, record) for record in records)
