"""A sink on rows that come as its source may really deliver them: again, not at all in a batch, or spoiled (`DELIVERIES`)."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headrace_properties.sinks.lost_rows import last_effect
from headrace_properties.sinks.story import (
    OtherRows,
    SinkFinding,
    SinkQuestion,
    SinkTopic,
    Wrong,
    shown_items,
)
from headrace_sim.deliveries import (
    DELIVERIES,
    REPEATS,
    Batches,
    KeyTwins,
    Row,
    RowDelivery,
    are_split,
    key_twins,
    spoiled_rows,
    with_first,
)
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_effects import Effect, Swallowed
from headrace_sim.spark.sinks.sink_runs import SinkFailsError, Trial
from headrace_sim.spark.sinks.trial_contents import Contents, ExpectedContents, Item

RunsOn = Callable[[Batches], Trial]
"""Runs the sink undisturbed on other batches; it may raise `SinkFailsError`."""


@dataclass(slots=True)
class RedeliveryTrial:
    """Tries one sink, and keeps what that shows."""

    batches: Batches
    run: RunsOn
    usual: ExpectedContents  # what is left of the batches as they are
    by_batch: Sequence[Sequence[Effect]]  # the effects of that
    compared: Sequence[str]  # the destinations that can be compared
    caught: Sequence[Swallowed] = ()  # the errors that the sink catches in the undisturbed run
    keys_alike: bool | None = None  # as in `FeedSource`
    filters: bool = False  # whether the query before the sink may leave no row of a batch
    watch: Callable[[Trial], None] = lambda _: None  # told of runs in which rows come twice
    findings: list[SinkFinding] = field(default_factory=list)
    questions: list[SinkQuestion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def spoiled_or_empty(self) -> None:
        """Try a batch without rows, and rows that do not parse or have nulls: together, and apart if that shows something."""
        both = DELIVERIES[RowDelivery.EMPTY].of(DELIVERIES[RowDelivery.SPOILED].of(self.batches))
        try:
            if not self._newly_caught(self.run(both)):
                return
        except SinkFailsError:
            self.empty()
        self._spoiled()

    def again(self) -> None:
        """Let rows come twice, which the source may do."""
        for delivery in REPEATS:
            left = self._left(delivery, self.watch)
            for name in self.compared:
                if left is None or left.get(name) != self.usual.contents[name]:
                    self.findings.append(self._redelivered(name, left, delivery))

    def asked_of_repeats(self) -> None:
        """Ask whether rows may come again in a later batch, where the sink takes each once within a batch, and not beyond it."""
        later = self._left(RowDelivery.LATER)
        grown = [name for name in self.compared if later is not None and self._rows_more(name, later)]
        again = self._left(RowDelivery.AGAIN) if grown else None
        for name in grown:
            if again is not None and again.get(name) == self.usual.contents[name]:
                self.questions.append(self._asked(name, later or {}))

    def spelled_otherwise(self) -> None:
        """Let keys come in other case, or with a blank at their end.

        The sink may take them for one or for two; that it does the one here and the other there is asked, unless its author says
        that they are one.
        """
        for delivery in (RowDelivery.CASE, RowDelivery.BLANK):
            twins = key_twins(self.batches, delivery)
            if twins is None or self.keys_alike is False:
                return
            alike, apart, other = map(self._of, (twins.alike, twins.apart, twins.other))
            for name in self.compared:
                usual, *left = (
                    each.get(name, Counter()) for each in (self.usual.contents, alike, apart, other)
                )
                if alike and apart and are_split(twins, usual, *left, are_one=self.keys_alike is True):
                    self._tell_spelled(name, delivery, twins, left[0])

    def _tell_spelled(self, name: str, delivery: RowDelivery, twins: KeyTwins, left: Counter[Item]) -> None:
        blamed = last_effect(name, self.by_batch, self.usual.names)
        both = f"the keys {twins.key!r} and {twins.spelled!r}"
        have = f"{name} has {shown_items(left - self.usual.contents[name])}"
        remedy = "Normalize keys once, before anything goes by them: lower(trim(key))"
        fault, every = _fault(delivery), f"{twins.spelled!r} for {twins.key!r} in every second of its rows"
        rows = OtherRows(every, twins.alike)
        if self.keys_alike:
            story = f"{both[0].upper()}{both[1:]} are one, and the sink takes them for two: {have}."
            finding = SinkFinding(
                Wrong.ALIKE, name, (), blamed.place, blamed.action, story, f"{remedy}.", fault, rows=rows
            )
            self.findings.append(finding)
            return
        message = f"{both} are one key to a part of the sink, and two to another: {have}"
        answer = (
            "Are they two? Then declare source=FeedSource(keys_alike=False), or say --allow alike; keys_alike=True has it judged"
            f". If they are one: {remedy[0].lower()}{remedy[1:]}"
        )
        self.questions.append(SinkQuestion(SinkTopic.ALIKE, name, blamed.place, message, answer, fault, rows))

    def _of(self, batches: Batches) -> Contents:
        """Return what is left of other batches; nothing if the sink fails on them."""
        try:
            trial = self.run(batches)
        except SinkFailsError:
            return {}
        return self.usual.read(trial.contents, trial.effects)

    def _rows_more(self, name: str, left: Contents) -> bool:
        repeated = sum(map(len, self.batches[:-1]))
        return left.get(name, Counter()).total() >= self.usual.contents[name].total() + max(1, repeated // 2)

    def _left(
        self, delivery: RowDelivery, watch: Callable[[Trial], None] = lambda _: None
    ) -> Contents | None:
        """Return what is left of such a delivery; None: the sink fails on it."""
        try:
            trial = self.run(DELIVERIES[delivery].of(self.batches))
        except SinkFailsError:
            return None
        watch(replace(trial, fault=_fault(delivery)))
        return self.usual.read(trial.contents, trial.effects)

    def empty(self) -> None:
        """Try a batch without rows."""
        error = self._failure(DELIVERIES[RowDelivery.EMPTY].of(self.batches))
        if error is None:
            return
        what = f"a batch without rows ends the sink with {error.error}: {error.message.rstrip('.')}"
        remedy = "Return where there is nothing to write: if df.isEmpty(): return."
        if not self.filters:
            self.notes.append(f"{shown_place(error.place)}: {what}. {remedy}")
            return
        story = (
            f"The query's filter may leave no row of a batch, and {what}; called again, it fails each time."
        )
        fault = _fault(RowDelivery.EMPTY)
        self.findings.append(
            SinkFinding(
                Wrong.STUCK, error.error, (), error.place, error.error, story, remedy, fault, rows=self._rows(RowDelivery.EMPTY)
            )
        )  # fmt: skip

    def _spoiled(self) -> None:
        """Name the first spoiled row on which the sink fails, and the first one whose error makes it lose others."""
        runs = [*self._runs_alone()]
        for row, error in runs:
            if not isinstance(error, SinkFailsError):
                continue
            self.notes.append(
                f"{shown_place(error.place)}: one bad record ends the query: with the row {row}, the sink raises {error.error}: "
                f"{error.message.rstrip('.')}, and again after each restart. Filter such rows out, or set them aside"
            )
            break
        for row, trial in runs:
            if isinstance(trial, Trial) and (caught := self._newly_caught(trial)) and self._lost(trial):
                self.findings.append(self._lost_beside(row, trial, caught[0]))
                return

    def _runs_alone(self) -> Iterator[tuple[Row, Trial | SinkFailsError]]:
        for row in spoiled_rows(self.batches):
            try:
                yield row, self.run(with_first(self.batches, [row]))
            except SinkFailsError as error:
                yield row, error

    def _failure(self, batches: Batches) -> SinkFailsError | None:
        try:
            self.run(batches)
        except SinkFailsError as error:
            return error
        return None

    def _newly_caught(self, trial: Trial) -> list[Swallowed]:
        known = {(entry.error, entry.place) for entry in self.caught}
        heard = [entry for entry in trial.entries if isinstance(entry, Swallowed)]
        return [entry for entry in heard if (entry.error, entry.place) not in known]

    def _lost(self, trial: Trial) -> dict[str, Counter[Item]]:
        """Return what is missing, by destination: nothing is there instead, or as much is left as without the whole batch."""
        left = self.usual.read(trial.contents, trial.effects)
        usual, none = self.usual.contents, Counter[Item]()
        without = self._without_first()
        missing = {name: usual[name] - left.get(name, none) for name in self.compared}
        return {
            name: lost
            for name, lost in missing.items()
            if lost
            and (
                (name in without and left.get(name) == without[name])
                or not left.get(name, none) - usual[name]
            )
        }

    def _without_first(self) -> Contents:
        """Return what is left without the first batch that has rows; nothing if the sink fails then."""
        first = next(place for place, batch in enumerate(self.batches) if batch)
        try:
            trial = self.run([[] if place == first else batch for place, batch in enumerate(self.batches)])
        except SinkFailsError:
            return {}
        return self.usual.read(trial.contents, trial.effects)

    def _lost_beside(self, row: Row, trial: Trial, caught: Swallowed) -> SinkFinding:
        name, lost = next(iter(self._lost(trial).items()))
        story = (
            f"With the row {row} in batch {caught.batch}, the sink caught {caught} and returned, so that the batch counts as "
            f"written: {name} lacks {shown_items(lost)}."
        )
        remedy = (
            "Set the bad row aside and write the others; or let the error be raised, which ends the query."
        )
        fault = _fault(RowDelivery.SPOILED)
        rows = OtherRows(f"the row {row}", with_first(self.batches, [row]))
        return SinkFinding(
            Wrong.SWALLOWED, name, (), caught.place, caught.error, story, remedy, fault, rows=rows
        )

    def _redelivered(self, name: str, left: Contents | None, delivery: RowDelivery) -> SinkFinding:
        blamed = last_effect(name, self.by_batch, self.usual.names)
        story = f"If the source delivers {delivery.value}, {self._changed(name, left)}."
        remedy = f"Give the rows a key: {_ONCE}."
        fault = _fault(delivery)
        rows = self._rows(delivery)
        return SinkFinding(
            Wrong.REDELIVERED, name, (), blamed.place, blamed.action, story, remedy, fault, rows=rows
        )

    def _changed(self, name: str, left: Contents | None) -> str:
        if left is None:
            return "the sink fails"
        surplus = left.get(name, Counter()) - self.usual.contents[name]
        missing = self.usual.contents[name] - left.get(name, Counter())
        if missing and surplus:
            return f"{name} has {shown_items(surplus)} instead of {shown_items(missing)}"
        return (
            f"{name} lacks {shown_items(missing)}"
            if missing
            else f"{name} has {shown_items(surplus)} too often"
        )

    def _asked(self, name: str, left: Contents) -> SinkQuestion:
        blamed = last_effect(name, self.by_batch, self.usual.names)
        message = f"a row that comes twice in a batch is written once, and in a later batch again: {self._changed(name, left)}"
        answer = (
            "Does the source never repeat a row across batches, or is that meant? Then declare "
            f"source=FeedSource(once=True), or say --allow duplicates. If not: {_ONCE[0].lower()}{_ONCE[1:]}"
        )
        later = RowDelivery.LATER
        return SinkQuestion(
            SinkTopic.DUPLICATES, name, blamed.place, message, answer, _fault(later), self._rows(later)
        )

    def _rows(self, delivery: RowDelivery) -> OtherRows:
        return OtherRows(delivery.value, DELIVERIES[delivery].of(self.batches))


_ONCE = "dropDuplicates() in the batch, and a table that takes each key once, or MERGE, across batches"


def _fault(delivery: RowDelivery) -> SinkFault:
    return SinkFault(SinkFaultKind.DELIVERED, 0, [*RowDelivery].index(delivery))
