"""What user code must not do, and how a finding is reported (4, 6.1)."""

import enum
from dataclasses import dataclass

from headrace import Pipeline
from headrace.wire.effects import SourceRecord
from headrace_properties.findings import Family, Kind
from headrace_properties.printable import describe_record
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.user_frames import Place
from headrace_properties.verdict import Violated
from headrace_sim import Feed

MOST_SHOWN = 10
"""Maximum number of records shown with a finding."""


class Habit(enum.Enum):
    """Something that user code must not do."""

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
    DEPENDS_ON_ORDER = "depends on the order of arrival"
    DEPENDS_ON_SCHEDULE = "depends on when records arrive, or on how far the low watermark has come"

    @property
    def kind(self) -> Kind:
        """It as a kind of finding."""
        return Kind(Family.CODE, self.name.lower().replace("_", "-"))

    @property
    def stops(self) -> bool:
        """Whether a run cannot continue after it."""
        return self in (Habit.NEVER_ENDS, Habit.ENDS_PROCESS, Habit.RAISES)


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
    Habit.DEPENDS_ON_SCHEDULE: "Go by record.timestamp and record.late, or by a timer for each window; or declare ordered=True",
    Habit.DEPENDS_ON_ORDER: "Compare timestamps, or wait for the low watermark; or declare ordered=True",
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
class UserFinding:
    """One bug in user code.

    Attributes:
        habit: what it does.
        computation: whose code.
        detail: how the bug shows.
        feed: the smallest input found that shows it.
        cause: the record or timer, and its key, of the call that shows it.
        place: the line of code; ``None``: unknown.
        outcomes: the differing outcomes, each with its circumstances.
        kept: positions of the feed's records in the original input, counted from 0.
        feed_seed: seed of the original input.
        shown: the feed's records, as text.
        seed: seed of the orders and schedules of arrival that were tried.
        remedy: what to do; default: what `REMEDIES` says of the habit.
    """

    habit: Habit
    computation: str
    detail: str
    feed: Feed
    cause: str = ""
    place: Place | None = None
    outcomes: tuple[tuple[str, str], ...] = ()
    kept: tuple[int, ...] = ()
    feed_seed: int = 0
    shown: tuple[str, ...] = ()
    seed: int = 0
    remedy: str = ""

    @property
    def verdict(self) -> Violated:
        """The finding as a verdict."""
        return Violated(str(self), ())

    @property
    def kind(self) -> Kind:
        """What is wrong."""
        return self.habit.kind

    @property
    def trial(self) -> CodeTrial:
        """What shows it again."""
        return CodeTrial(self.feed_seed, self.kept, self.seed)

    def __str__(self) -> str:
        """Write the finding for people: what the code does and where, the outcomes, and the records that show it."""
        return " ".join(self.story())

    def story(self) -> list[str]:
        """Write the finding in sentences; the first states the bug and its place."""
        where = f" ({self.place})" if self.place else ""
        sentences = [f"The code of {self.computation!r} {self.habit.value}{where}: {self.detail}."]
        if self.cause:
            sentences.append(f"It was called for {self.cause}.")
        sentences += [f"{circumstances}: {outcome:.400}." for circumstances, outcome in self.outcomes]
        number = "one record" if self.feed.records == 1 else f"{self.feed.records} records"
        more = [f"and {len(self.shown) - MOST_SHOWN} more"] if len(self.shown) > MOST_SHOWN else []
        shown = "; ".join([*self.shown[:MOST_SHOWN], *more])
        sentences.append(f"Shown by {number}{f': {shown}' if shown else ''}.")
        return [*sentences, f"{self.remedy or REMEDIES[self.habit]}."]


@dataclass(frozen=True, slots=True)
class Witness:
    """How a habit shows up in one input.

    Attributes:
        computation: whose code.
        detail: how it shows up.
        records: how many of the input's first records are enough.
        cause: see `UserFinding`.
        place: see `UserFinding`.
        outcomes: see `UserFinding`.
        remedy: see `UserFinding`.
        by_clock: it goes by the wall clock, which ``ordered=True`` does not declare.
    """

    computation: str
    detail: str
    records: int
    cause: str = ""
    place: Place | None = None
    outcomes: tuple[tuple[str, str], ...] = ()
    remedy: str = ""
    by_clock: bool = False


def shown_records(pipeline: Pipeline, feed: Feed) -> tuple[str, ...]:
    """Return the records of an input as text for people."""
    records = [entry.event for entry in feed.entries if isinstance(entry.event, SourceRecord)]
    return tuple(describe_record(pipeline, record) for record in records)
