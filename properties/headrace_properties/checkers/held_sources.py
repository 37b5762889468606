"""What the injectors' sources held, and how much of it was injected (MillWheel 5.2).

A host that can look into its sources records what they hold (`headrace.history.SourceHeld`). If it records nothing of a
source, the injected records are assumed to be everything.
"""

from headrace import MIN_TIME, DeadLetter, MalformedRecordError, format_time
from headrace.api.dead_letters import Letter, injector_letter
from headrace.api.time import is_timestamp
from headrace.history import Injected, SourceHeld
from headrace.injector.injection import productions_of
from headrace.wire.effects import SourceRecord
from headrace.wire.rows import Production
from headrace_properties.checkers.topology_union import TopologyUnion


class HeldSource:
    """The source of one injector's process.

    Attributes:
        owed: what has not been injected yet, by offset.
        low_us: the source's own low watermark, event time in microseconds.
    """

    __slots__ = ("_records", "_rises", "low_us", "owed")

    def __init__(self) -> None:
        self.owed: dict[int, SourceHeld] = {}
        self.low_us = MIN_TIME
        self._records: dict[int, SourceRecord] = {}
        self._rises: list[tuple[int, int]] = []

    def take(self, event: SourceHeld) -> None:
        """Add what it holds now."""
        what = event.what
        if isinstance(what, SourceRecord):
            self.owed[what.offset] = event
            self._records[what.offset] = what
        elif what.low_watermark > self.low_us:
            self.low_us = what.low_watermark
            self._rises.append((event.at_us, what.low_watermark))

    def low_at(self, at_us: int) -> int:
        """Return its low watermark at a time, event time in microseconds; ``at_us``: true time."""
        return max((low_us for risen_us, low_us in self._rises if risen_us <= at_us), default=MIN_TIME)

    def mismatch(self, event: Injected, topology: TopologyUnion, *, is_letter: bool) -> str:
        """Describe how an injected record differs from the source's at that offset; ``""``: not at all.

        Args:
            event: the injection.
            topology: of the run.
            is_letter: the injector says that the record was malformed, and that this is its dead letter.
        """
        record = self._records.get(event.offset)
        if record is None:
            return "the source held no record there"
        spec = topology.injectors[event.process.partition("/")[0]]
        policy = spec.on_malformed
        if not is_letter:
            wrong = next(
                (production for production in event.productions if not _is_of(production, record)), None
            )
            return (
                "" if wrong is None else f"the source held {_content(record)}, and {_content(wrong)} was sent"
            )
        if not isinstance(policy, DeadLetter):
            return ""  # a History from a file does not have it
        if any(production.stream != policy.stream for production in event.productions):
            return f"its dead letter did not go to {policy.stream!r}"
        right = set[bytes]()
        for pipeline in topology.versions:
            try:
                productions_of(pipeline, event.process, spec.outputs, record, 0)
            except MalformedRecordError as error:
                right.add(pipeline.codec(policy.stream).encode(_letter(event.process, record, error)))
        if not right:
            return "it went to the dead letters, and is well formed"
        wrong = next((production for production in event.productions if production.value not in right), None)
        return (
            ""
            if wrong is None
            else f"its dead letter, {wrong.value!r:.300}, is not that of {_content(record)}"
        )


def _letter(injector: str, record: SourceRecord, error: MalformedRecordError) -> Letter:
    stamp = record.timestamp if is_timestamp(record.timestamp) else repr(record.timestamp)
    stream, key = str(record.stream), str(record.key)
    return injector_letter(injector, stream, record.offset, key, record.value, stamp, str(error))


def _is_of(production: Production, record: SourceRecord) -> bool:
    return (
        production.value == record.value
        and production.timestamp == record.timestamp
        and production.stream == record.stream
    )


def _content(record: Production | SourceRecord) -> str:
    return f"{record.value!r:.60} of {record.stream!r} at {format_time(record.timestamp)}"
