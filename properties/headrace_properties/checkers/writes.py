"""Writes are atomic, come from the latest owner, and name each production once (MillWheel 6.1.2, 6.2, 7.1)."""

from collections.abc import Sequence

from headrace import format_time
from headrace.history import (
    Applied,
    CheckpointsDeleted,
    DeadLettered,
    Event,
    Executed,
    Injected,
    IntervalMinted,
    Output,
)
from headrace.wire.rows import Asked, AskedTimer, Production, RowDelta, Version
from headrace_properties.checkers.checker import Handlers, OpenVerdict
from headrace_properties.checkers.ledger import WorkLedger
from headrace_properties.checkers.letters import StepLetters


class Atomicity:
    """S4: an applied delta is exactly what the executions of its version did, and versions of a row only rise.

    Its timers and its hold are those that user code asked for, where the host tells.
    """

    name = "S4"
    title = "each step is applied whole, or not at all"
    section = "6.2, 7.1"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._topology = ledger.topology
        self._verdict = OpenVerdict("nothing was applied")
        self.verdict = self._verdict.verdict
        self._versions: dict[str, dict[str, tuple[int, int]]] = {}
        self.handlers: Handlers = {Applied: self._on_applied}

    def _on_applied(self, event: Applied) -> None:
        self._verdict.reached += 1
        computation, delta = event.computation, event.delta
        version = (event.sequencer, delta.number)
        versions = self._versions.get(computation)
        if versions is None:
            versions = self._versions[computation] = {}
        before = versions.get(delta.key)
        if before is not None and before >= version:
            self._broken(event, f"it follows the later version {before[0]}.{before[1]}")
        versions[delta.key] = version
        runs = self._ledger.runs(*version)
        problem = self._mismatch(event, runs) if runs else "no user code ran for it"
        if problem:
            self._broken(event, problem, *runs)

    def _broken(self, event: Applied, problem: str, *runs: Executed) -> None:
        delta = event.delta
        self._verdict.violated(
            f"version {event.sequencer}.{delta.number} of key {delta.key!r} at {event.computation!r}, applied at"
            f" {format_time(event.at_us)}, is not what one step did: {problem} (MillWheel 6.2)",
            *runs,
            event,
        )

    def _mismatch(self, event: Applied, runs: list[Executed]) -> str:
        """Describe how a delta differs from its executions; ``""``: not at all."""
        delta = event.delta
        computation = event.computation
        for run in runs:
            if run.computation != computation or run.key != delta.key:
                return f"its executions are of key {run.key!r} at {run.computation!r}"
        fired = tuple([run.timer for run in runs if run.timer is not None])
        if fired != delta.fired:
            return f"it fires {[timer.tag for timer in delta.fired]}, and timers {[timer.tag for timer in fired]} ran"
        if computation not in self._topology.at_least_once:
            seen = [run.cause for run in runs if run.timer is None]
            claimed = [record_id for record_id, _ in delta.seen]
            if seen != claimed:
                return f"it claims the records {claimed}, and {seen} ran"
        asked = [run.asked for run in runs if run.asked is not None]
        problem = _unlike_asked(asked, delta) if len(asked) == len(runs) else ""
        if problem:
            return problem
        if delta.set_timers:
            version = Version(event.sequencer, delta.number)
            for timer in delta.set_timers:
                if timer.set_by != version:
                    return f"its timer {timer.tag!r} was set by version {timer.set_by}"
        return self._productions_mismatch(event, runs)

    def _productions_mismatch(self, event: Applied, runs: list[Executed]) -> str:
        produced = runs[0].productions
        for run in runs[1:]:
            produced += run.productions
        checkpointed = event.delta.productions
        if checkpointed == produced:
            return ""
        if event.computation not in self._topology.weak:
            return f"it checkpoints {_ids(checkpointed)}, and {_ids(produced)} were produced"
        foreign = [production for production in checkpointed if production not in produced]
        return f"it checkpoints {_ids(foreign)}, which its steps did not produce" if foreign else ""


def _unlike_asked(asked: Sequence[Asked], delta: RowDelta) -> str:
    """Describe how a delta's hold and timers differ from what user code asked for; ``""``: not at all."""
    holds = [timer.hold for timer in asked if timer.hold is not None]
    if (holds[-1] if holds else None) != delta.hold:
        return f"user code asked for the holds {_times(holds)}, and it writes {_times([delta.hold])}"
    wanted = {timer.tag: timer for effect in asked for timer in effect.timers}
    written = [
        AskedTimer(setting.tag, setting.timestamp, setting.clock, setting.hold)
        for setting in delta.set_timers
    ]
    written += [AskedTimer(tag, None) for tag in delta.cancelled]
    unlike = [
        asked_timer.tag for asked_timer in written if wanted.pop(asked_timer.tag, None) != asked_timer
    ] + list(wanted)
    return f"user code asked otherwise for timers {unlike}" if unlike else ""


def _times(holds: Sequence[int | None]) -> list[str]:
    return ["none" if hold is None else format_time(hold) for hold in holds]


def _ids(productions: tuple[Production, ...] | list[Production]) -> list[str]:
    return [production.record_id for production in productions]


_Content = tuple[str, str, bytes, int]
"""The cause, stream, value and timestamp of a production."""


class OneIdOneRecord:
    """S5: a production id stands for one byte string and one logical emission, wherever it is seen.

    An injected record's is its place in the source, and stands for what the source held there, or for its dead letter if that was
    malformed. A dead letter of a computation names the record or timer that it stands for, and the error.
    """

    name = "S5"
    title = "one id, one record"
    section = "6.1.2"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._weak = ledger.topology.weak
        self._verdict = OpenVerdict("nothing was produced")
        self.verdict = self._verdict.verdict
        self._letters: set[str] = set()
        self._step_letters = StepLetters(ledger.topology)
        self._emissions: dict[str, tuple[_Content, Event]] = {}
        self._weak_causes: dict[str, tuple[str, Event]] = {}
        self.handlers: Handlers = {
            **self._step_letters.handlers,
            Injected: self._on_injected,
            Executed: self._on_executed,
            Output: self._on_output,
            DeadLettered: self._on_dead_lettered,
        }

    def _on_dead_lettered(self, event: DeadLettered) -> None:
        self._letters.add(event.cause)
        self._step_letters.handlers[DeadLettered](event)

    def _reported(self, event: Executed) -> tuple[str, bytes] | None:
        """Return stream and value of the record that user code ran for, if known."""
        emissions = self._emissions.get(event.cause)
        if emissions is not None:
            return emissions[0][1], emissions[0][2]
        owed = self._ledger.owed.get(event.computation, {}).get(event.cause)
        what = None if owed is None else owed.what
        return (what.stream, what.value) if isinstance(what, Production) else None

    def _on_injected(self, event: Injected) -> None:
        self._compare_with_source(event)
        for production in event.productions:
            self._note("", production, event)

    def _compare_with_source(self, event: Injected) -> None:
        source = self._ledger.sources.get(event.process)
        if source is None:
            return
        is_letter = any(production.record_id in self._letters for production in event.productions)
        problem = source.mismatch(event, self._ledger.topology, is_letter=is_letter)
        if problem:
            self._verdict.violated(
                f"{event.process} injected a record at {format_time(event.at_us)} as that of offset {event.offset}: {problem}"
                " (MillWheel 5.2, 6.1.1)",
                event,
            )

    def _on_executed(self, event: Executed) -> None:
        productions = event.productions
        wrong = self._step_letters.problem(event, self._reported)
        if wrong:
            self._verdict.violated(
                f"{event.computation!r} gave {event.cause} up at {format_time(event.at_us)}: {wrong} (MillWheel 6.1.2)",
                event,
            )
        if not productions:
            return
        if len(productions) > 1 and len(
            {(production.record_id, production.consumer) for production in productions}
        ) < len(productions):
            self._verdict.violated(
                f"one run of {event.computation!r} for {event.cause} at {format_time(event.at_us)} gives one id to two"
                f" productions: {_ids(productions)} (MillWheel 6.1.1)",
                event,
            )
        if event.computation in self._weak:
            for production in productions:
                self._note_weak(event, production)
        else:
            for production in productions:
                self._note(event.cause, production, event)

    def _note(self, cause: str, production: Production, event: Event) -> None:
        self._verdict.reached += 1
        emission = (cause, production.stream, production.value, production.timestamp)
        known = self._emissions.get(production.record_id)
        if known is None:
            self._emissions[production.record_id] = (emission, event)
        elif known[0] != emission:
            self._verdict.violated(
                f"id {production.record_id} stands for two records: {_emission(known[0])}, and {_emission(emission)}"
                " (MillWheel 6.1.2)",
                known[1],
                event,
            )

    def _note_weak(self, event: Executed, production: Production) -> None:
        """Reruns may diverge (that is S5-weak), but an id still names its cause."""
        self._verdict.reached += 1
        known = self._weak_causes.setdefault(production.record_id, (event.cause, event))
        if known[0] != event.cause:
            self._verdict.violated(
                f"id {production.record_id} stands for what {known[0]} and {event.cause} made (MillWheel 6.1.2)",
                known[1],
                event,
            )

    def _on_output(self, event: Output) -> None:
        production = event.production
        known = self._emissions.get(production.record_id)
        if known is not None:
            emission = (known[0][0], production.stream, production.value, production.timestamp)
            if emission != known[0]:
                self._verdict.violated(
                    f"id {production.record_id} left as {_emission(emission)}, and was made as {_emission(known[0])}"
                    " (MillWheel 6.1.2)",
                    known[1],
                    event,
                )
        elif production.record_id not in self._weak_causes:
            self._verdict.violated(
                f"output {production.record_id} was never produced (MillWheel 6.1.2)", event
            )


def _emission(emission: _Content) -> str:
    cause, stream, value, timestamp = emission
    of = f" for {cause}" if cause else ""
    return f"{value!r:.60} on {stream!r} at {format_time(timestamp)}{of}"


class WeakRerunsAgree:
    """S5-weak: user code with weak productions makes the same again. A finding about the user's code, not the protocol."""

    name = "S5-weak"
    title = "weak productions are the same when they are made again"
    section = "6.1.2, 6.1.3"

    def __init__(self, ledger: WorkLedger) -> None:
        self._weak = ledger.topology.weak
        self._verdict = OpenVerdict(
            "no weak step ran twice" if self._weak else "no computation has weak productions"
        )
        self.verdict = self._verdict.verdict
        self._first: dict[tuple[str, str, str], Executed] = {}
        self.handlers: Handlers = {Executed: self._on_executed} if self._weak else {}

    def _on_executed(self, event: Executed) -> None:
        if event.computation not in self._weak:
            return
        first = self._first.setdefault((event.computation, event.key, event.cause), event)
        if first is event:
            return
        self._verdict.reached += 1
        content, again = _content(first), _content(event)
        if content != again:
            self._verdict.violated(
                f"{event.computation!r} ran twice for {event.cause}, and produced {_named(content)} at"
                f" {format_time(first.at_us)} but {_named(again)} at {format_time(event.at_us)}: weak productions need"
                " idempotent code (MillWheel 6.1.3)",
                first,
                event,
            )


def _named(content: list[tuple[str, str, bytes, int]]) -> str:
    """Name what was produced for people."""
    named = [
        f"{value.decode(errors='replace'):.120} on {stream!r} (timestamp {format_time(timestamp)})"
        for _, stream, value, timestamp in content
    ]
    return " and ".join(named) or "nothing"


def _content(run: Executed) -> list[tuple[str, str, bytes, int]]:
    """Return what user code produced, without its consumers: these depend on the topology, which may have changed."""
    return sorted(
        {
            (production.record_id, production.stream, production.value, production.timestamp)
            for production in run.productions
        }
    )


class SingleWriter:
    """S6: a write is applied under the latest sequencer that covers its key at that moment.

    Both what the store says is live and the mints of the History are held against it: one of them may be wrong. And no sequencer
    is given out twice: its former owner's writes would be as good as the new one's (7.1).
    """

    name = "S6"
    title = "only the latest owner writes"
    section = "6.2, 7.1"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._verdict = OpenVerdict("nothing was applied")
        self.verdict = self._verdict.verdict
        self._minted: dict[int, IntervalMinted] = {}
        self.handlers: Handlers = {
            Applied: self._on_applied,
            CheckpointsDeleted: self._on_deleted,
            IntervalMinted: self._on_minted,
        }

    def _on_minted(self, event: IntervalMinted) -> None:
        before = self._minted.setdefault(event.sequencer, event)
        if before is not event:
            self._verdict.violated(
                f"sequencer {event.sequencer} was minted twice: for {before.computation!r} {before.interval} at"
                f" {format_time(before.at_us)}, and for {event.computation!r} {event.interval} at {format_time(event.at_us)}"
                " (MillWheel 7.1)",
                before,
                event,
            )

    def _on_applied(self, event: Applied) -> None:
        self._judge(event, event.delta.key)

    def _on_deleted(self, event: CheckpointsDeleted) -> None:
        for key, _, _ in event.checkpoints:
            self._judge(event, key)

    def _judge(self, event: Applied | CheckpointsDeleted, key: str) -> None:
        self._verdict.reached += 1
        minted = self._ledger.owner(event.computation, key)
        if event.sequencer != event.live or (minted and minted != event.sequencer):
            live = minted or event.live
            mint = self._ledger.latest_mint(event.computation, live)
            witness = (mint, event) if isinstance(mint, IntervalMinted) else (event,)
            self._verdict.violated(
                f"a write of key {key!r} at {event.computation!r} was applied at {format_time(event.at_us)} under"
                f" sequencer {event.sequencer}, when {live} owned the key: a zombie's (MillWheel 6.2)",
                *witness,
            )
