"""Why the outcome of a Spark query is not settled, or what is wrong even so: what each cause claims, and what it explains.

PySpark is not needed here, so that a replay file can be read without it.
"""

from dataclasses import dataclass
from enum import Enum

from headrace_properties.findings import Family, FindingClass, Kind


class Cause(Enum):
    """Why an outcome is not settled, or what is wrong even so."""

    FAULTS = "faults"
    PARTITIONS = "partitions"
    ORDER = "order"
    BATCHING = "batching"
    FRAMES = "frames"
    CHANCE = "chance"
    LATE = "late"
    MEMORY = "memory"
    TIMER = "timer"
    TTL = "ttl"
    GROWTH = "growth"
    ERROR = "error"
    DUPLICATES = "duplicates"
    FORGOTTEN = "forgotten"
    ZONE = "zone"
    CALENDAR = "calendar"
    PROMISE = "promise"
    EFFECT = "effect"
    VALUE = "value"
    SWALLOWED = "swallowed"
    LOSS = "loss"
    REPEATED = "repeated"
    SETTINGS = "settings"
    UPGRADE = "upgrade"
    EVALUATED = "evaluated"
    ALIKE = "alike"

    def kind(self, finding_class: FindingClass | None = None) -> Kind:
        """Return the kind of its findings. ``finding_class``: what they claim, if not what they usually do."""
        rank = list(CAUSES).index(self)
        return Kind(Family.OUTCOME, self.value, finding_class or CAUSES[self].finding_class, rank)


@dataclass(frozen=True, slots=True)
class CauseRow:
    """What is said of a cause."""

    what: str = ""  # what it does to the outcome; "": the finding says so itself
    remedy: str = ""  # what to do
    # what its findings claim, unless the author has declared what is broken
    finding_class: FindingClass = FindingClass.VIOLATED
    allowable: bool = False  # whether the author may allow it by name
    answer: str = ""  # what the author declares if it is meant; "": nothing


_ASKED = FindingClass.UNDECLARED
CAUSES = {
    Cause.SWALLOWED: CauseRow(
        remedy="Fix the call, and let errors of the state end the task, or yield the row to where failed ones are kept"
    ),
    Cause.VALUE: CauseRow(
        remedy="Declare a type that holds it, or convert the value; or allow it, if it is meant", allowable=True
    ),
    Cause.TIMER: CauseRow(remedy="Register a later time"),
    Cause.TTL: CauseRow(
        remedy="Let the TTL outlast the timer, or let the timer alone clear the state; or allow it, if it is meant",
        allowable=True,
    ),
    Cause.MEMORY: CauseRow(
        "depends on what is kept outside state",
        "Keep it in a state variable: an object lasts for a task, a module for a worker, and any worker may run the next task",
    ),
    Cause.CHANCE: CauseRow(
        "depends on the clock or on chance", "Take times from the rows or the watermark, and ids from the key"
    ),
    Cause.PROMISE: CauseRow(remedy="Keep the promise, or change it"),
    Cause.EFFECT: CauseRow(
        remedy="Yield what is to be written, and write it in foreachBatch", allowable=True
    ),
    Cause.FAULTS: CauseRow(
        "depends on faults", "Keep everything in state, and do nothing outside it: a task that died runs again"
    ),
    Cause.ERROR: CauseRow(
        "fails", "Let the code accept these rows at any time: Spark promises neither batches nor their times"
    ),
    Cause.CALENDAR: CauseRow(
        remedy="Let the calendar count: add_months(), date + interval, calendar.monthrange(); and take hours that are left out"
    ),
    Cause.PARTITIONS: CauseRow(
        "depends on the number of partitions", "Count by key, not by task: a task has some of the keys only", allowable=True,
    ),
    Cause.FRAMES: CauseRow(
        "depends on how a key's rows are cut into pandas frames",
        "Read every frame of the iterator, `for frame in rows`: Spark cuts at spark.sql.execution.arrow.maxRecordsPerBatch",
        allowable=True,
    ),
    Cause.DUPLICATES: CauseRow(
        "changes when the source delivers a row twice",
        "Keep the ids of rows that have been counted in state, or dropDuplicatesWithinWatermark() before", allowable=True,
    ),
    Cause.FORGOTTEN: CauseRow(
        "changes when the source delivers a row again long after the first time, when its id is forgotten",
        "Keep ids longer than the source may repeat them, or let the target take each key once",
        _ASKED, allowable=True, answer="source=FeedSource(once=False, again_within_s=...)",
    ),
    Cause.UPGRADE: CauseRow(
        remedy="Give new state a new name, fill it from the old one, or start from a new checkpoint",
        finding_class=_ASKED, allowable=True,
    ),
    Cause.LOSS: CauseRow(finding_class=_ASKED, allowable=True),
    Cause.EVALUATED: CauseRow(finding_class=_ASKED, allowable=True),
    Cause.ALIKE: CauseRow(
        remedy="Normalize keys once, before anything goes by them: lower(trim(key))",
        finding_class=_ASKED, allowable=True, answer="source=FeedSource(keys_alike=False)",
    ),
    Cause.REPEATED: CauseRow(finding_class=_ASKED, allowable=True, answer="repeated=True"),
    Cause.SETTINGS: CauseRow(finding_class=_ASKED, allowable=True, answer="settings=('latest',)"),
    Cause.LATE: CauseRow(
        "loses rows that come behind the watermark", "Allow them more time in withWatermark(), or send them elsewhere before",
        _ASKED, allowable=True, answer="late=True",
    ),
    Cause.BATCHING: CauseRow(
        "depends on how the input is cut into batches", "Tell results when a timer fires, not once for each call",
        _ASKED, allowable=True, answer="running=True",
    ),
    Cause.ORDER: CauseRow(
        "depends on the order of rows", "Compare event times instead of relying on arrival",
        _ASKED, allowable=True, answer="source=FeedSource(ordered=True)",
    ),
    Cause.ZONE: CauseRow(
        remedy="Set spark.sql.session.timeZone, and give Python's datetimes a zone: datetime.fromtimestamp(s, UTC), "
        "at.astimezone(ZoneInfo(...)); or take dates in columns, F.to_date(...)",
        finding_class=_ASKED, allowable=True,
    ),
    Cause.GROWTH: CauseRow(
        remedy="Register a timer that clears it, or give it a TTL",
        finding_class=_ASKED, allowable=True, answer="bounded_by='what bounds its keys'",
    ),
}  # fmt: skip
"""A row for each cause: what stands higher explains what stands below."""
