"""The story of a trial: what is wrong, how it came about, which effect is to blame, and what to do."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from headrace_sim.deliveries import Batches, RowDelivery
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.requests_over_http import HttpRequest
from headrace_sim.spark.sinks.sink_effects import Effect, Entry, Failed, StateCall
from headrace_sim.spark.sinks.trial_contents import Column, Contents, ExpectedContents, Item, destination_of
from headrace_sim.spark.stores.store_changes import StoreWrite
from headrace_sim.spark.tables.row_changes import MULTIPLE_MATCHES
from headrace_sim.spark.tables.table_versions import TableVersion


class Wrong(Enum):
    """What a sink gets wrong."""

    TWICE = "twice"
    MISSING = "missing"
    DIFFERS = "differs"
    MEMORY = "memory"
    STUCK = "stuck"
    UNCOMMITTED = "never committed"
    LOST = "lost"
    SWALLOWED = "lost with an error"
    OVERWRITTEN = "overwritten"
    STALE = "stale"
    REDELIVERED = "delivered twice"
    RESTARTED = "new checkpoint"
    APART = "ids apart"
    UNSENT = "not flushed"
    ALIKE = "keys alike"


_UNDISTURBED = SinkFault(SinkFaultKind.NONE, 0, 0)


@dataclass(frozen=True, slots=True)
class OtherRows:
    """Rows that come otherwise than they are given, without any fault: the undisturbed run does not show what is wrong."""

    how: str  # how they come, behind "with"
    batches: Batches


class SinkTopic(Enum):
    """What only the author of a sink can say, by the name that answers it."""

    BATCHING = "batching"
    ORDER = "order"
    LOSS = "loss"
    KEYS = "keys"
    DUPLICATES = "duplicates"
    EVALUATED = "evaluated"
    ALIKE = "alike"


@dataclass(frozen=True, slots=True)
class SinkQuestion:
    """Something that a sink does, and that may be meant."""

    about: SinkTopic  # what is asked
    destination: str  # where
    place: str  # ``file:line`` of the effect
    message: str  # what it does
    answer: str  # how to say that it is meant, and what to do if it is not
    fault: SinkFault = _UNDISTURBED  # the first fault that showed it
    rows: OtherRows | None = None  # what shows it; None: the rows as they are given

    def __str__(self) -> str:
        """Say where, what it does, and how to answer."""
        return f"{shown_place(self.place)}: {self.message}. {self.answer}"


@dataclass(frozen=True, slots=True)
class SinkFinding:
    """Something that a sink gets wrong."""

    wrong: Wrong  # what
    destination: str  # where: ``out.db: payments``. For a sink that is stuck, the error
    items: tuple[Item, ...]  # some of the duplicated or missing rows or lines
    # ``file:line`` of the effect that is not idempotent; for missing rows, of the one that hides them
    place: str
    effect: str  # what is done there
    story: str  # what happened, in a sentence or two
    remedy: str  # what to do
    fault: SinkFault  # the first fault that showed it
    trials: int = 1  # the number of trials in which it showed
    rows: OtherRows | None = None  # as in `SinkQuestion`

    def __str__(self) -> str:
        """Say what is wrong, how it came about, and what to do."""
        return f"{shown_place(self.place)}: {self.story} {self.remedy}"


def uncommitted(effect: Effect, last: int) -> SinkFinding:
    """A transaction is open at the end of the undisturbed run. ``last``: the number of effects in the effect's batch."""
    story = f"{_named(effect)} is part of a transaction that the sink leaves open: when its process ends, this is lost."
    remedy = "Commit before the function returns, or let a with statement do it: with connection: ..."
    fault = SinkFault(SinkFaultKind.RESTART, effect.batch, last)
    return SinkFinding(
        Wrong.UNCOMMITTED, effect.target, (), effect.place, effect.action, story, remedy, fault
    )


def merged_twice(effect: Effect, twins: Iterable[object], rows: OtherRows) -> SinkFinding:
    """A merge inserts two rows of one key, which it finds in one batch."""
    one, other = twins
    story = (
        f"In a batch with all rows, as after an outage, the merge inserts {one} and {other} into {effect.target}, though one"
        " matches the other: it compares rows with the table, not with each other. From then on such a batch makes it fail."
    )
    return SinkFinding(
        Wrong.TWICE, effect.target, (), effect.place, effect.action, story, ONE_ROW_OF_EACH_KEY, _UNDISTURBED, rows=rows
    )  # fmt: skip


ONE_ROW_OF_EACH_KEY = (
    "Keep one row of each key before the merge: the newest, by row_number() over a window partitioned by it."
)


@dataclass(frozen=True, slots=True)
class TrialStory:
    """Tells what one trial showed."""

    fault: SinkFault
    entries: list[Entry]
    by_batch: list[list[Effect]]

    @property
    def effects(self) -> list[Effect]:
        """The effects of all processes."""
        return [entry for entry in self.entries if isinstance(entry, Effect)]

    def stuck(self, failure: Failed) -> SinkFinding:
        """The process that took over fails, as will the next."""
        error = f"{failure.error}: {failure.message}"
        story = f"{self.struck()}; called again, the sink raises {error}, as it will each time."
        remedy = "Let the function accept what an earlier call left behind."
        if MULTIPLE_MATCHES in error:
            remedy = ONE_ROW_OF_EACH_KEY
        return self._finding(Wrong.STUCK, error, (), failure.place, failure.error, story, remedy)

    def different(
        self, destination: str, surplus: Counter[Item], missing: Counter[Item], usual: ExpectedContents
    ) -> SinkFinding:
        """Rows are duplicated, missing, or different."""
        instead = f"{destination} has {shown_items(surplus)} instead of {shown_items(missing)}"
        if self.fault.kind is SinkFaultKind.STATE and missing:
            story = f"{self.struck()}; then {instead}."
            return self._blamed(
                Wrong.MEMORY, destination, surplus, self._again(destination, usual.names), story, _IN_STATE
            )
        if self.fault.kind is SinkFaultKind.RESTART:
            story = f"after a restart of the driver behind batch {self.fault.batch}, {instead}."
            remedy = "Keep nothing between batches in globals, attributes or caches: a restart empties them. Store it."
            wrong = Wrong.MEMORY
            if missing and not surplus and self._is_late(destination):
                remedy = "Let the function wait until all is written before it returns: flush() the producer, join() the threads."
                wrong = Wrong.UNSENT
            return self._blamed(
                wrong, destination, surplus, self._again(destination, usual.names), story, remedy
            )
        if missing and not surplus:
            story = f"{self.struck()}; then {destination} lacks {shown_items(missing)}."
            remedy = "Mark the batch as done together with its last row, in one transaction or by one rename, not before."
            if self.fault.kind is SinkFaultKind.REFUSE:
                remedy = "Let the error be raised: Spark then runs the batch again."
            if self.fault.kind is SinkFaultKind.FAIL:
                remedy = "Let the error be raised, and commit nothing after it, in except or finally: Spark runs the batch again."
            if self.fault.kind is SinkFaultKind.REORDER and self._nearest().partition is not None:
                remedy = _OTHER_PARTITIONS
            return self._blamed(Wrong.MISSING, destination, missing, self._last_durable(), story, remedy)
        blamed = self._again(destination, usual.names)
        if missing and self.fault.kind is SinkFaultKind.REORDER:
            remedy = "Do not depend on the order of rows in a batch, which differs when it is run again: sort them first."
            return self._blamed(
                Wrong.DIFFERS, destination, surplus, blamed, f"{self.struck()}; then {instead}.", remedy
            )
        if missing:
            return self._blamed(
                Wrong.DIFFERS, destination, surplus, blamed, f"{self.struck()}; then {instead}.", _remedy(blamed),
            )  # fmt: skip
        story = f"{self.struck()}; then {destination} has {shown_items(surplus)} once too often."
        remedy = _OTHER_PARTITIONS if self.fault.kind is SinkFaultKind.REORDER else _remedy(blamed)
        return self._blamed(Wrong.TWICE, destination, surplus, blamed, story, remedy)

    def doubled(self, destination: str, left: Contents, usual: ExpectedContents) -> dict[str, str]:
        """Say, by destination, what is there twice where no undisturbed run has anything twice, and rows cannot be compared."""
        calm, items = usual.contents.get(destination, Counter()), left.get(destination, Counter())
        twice = [item for item, count in items.items() if count > 1]
        if not twice or max(calm.values(), default=1) > 1:
            return {}
        question = f"{self.struck()}; then {destination} has {shown_items(twice)} more than once, and undisturbed nothing"
        return {destination: f"{question}. Are they rows that the source gave again, or two that are alike?"}

    def apart(self, one: Column, other: Column, value: str, names: frozenset[str]) -> SinkFinding:
        """The rows are all there, but those of two destinations have random ids of different calls."""
        story = (
            f"{self.struck()}; then {one[0]} has {one[1]}={value}, which is not in {other[0]}: one of them was written with"
            " the ids of the first call, and the other with those of the second."
        )
        remedy = "Make the ids of what the row and the batch id say (uuid5), so that each call gives the same ones."
        return self._blamed(Wrong.APART, other[0], Counter(), self._again(other[0], names), story, remedy)

    def _blamed(
        self,
        wrong: Wrong,
        destination: str,
        items: Counter[Item],
        blamed: list[Effect],
        story: str,
        remedy: str,
    ) -> SinkFinding:
        effect = blamed[-1] if blamed else self._nearest()
        return self._finding(wrong, destination, tuple(items)[:3], effect.place, effect.action, story, remedy)

    def _finding(
        self,
        wrong: Wrong,
        destination: str,
        items: tuple[Item, ...],
        place: str,
        effect: str,
        story: str,
        remedy: str,
    ) -> SinkFinding:
        return SinkFinding(
            wrong, destination, items, place, effect, story[0].upper() + story[1:], remedy, self.fault
        )

    def _writes(self, effect: Effect, destination: str, names: frozenset[str]) -> bool:
        target = effect.target
        return (
            target == destination
            or destination.startswith(f"{target}/")
            or destination_of(target, names) == destination
        )

    def _is_late(self, destination: str) -> bool:
        """Return whether somebody writes to it, or to files of its kind, when the function has returned."""
        late = (effect.target for effect in self.effects if effect.is_late)
        return destination_of(destination, _NONE) in {destination_of(target, _NONE) for target in late}

    def _again(self, destination: str, names: frozenset[str]) -> list[Effect]:
        """What was done to the destination a second time: by who took over, or by who was overtaken when it went on."""
        taken_over = next(
            (place for place, effect in enumerate(self.effects) if effect.attempt > 0), len(self.effects)
        )
        if self.fault.kind is SinkFaultKind.PAUSE:
            later = [effect for effect in self.effects[taken_over:] if effect.attempt == 0]
        else:
            later = [effect for effect in self.effects[taken_over:] if effect.batch == self.fault.batch]
        later = later or self.effects[taken_over:] or self.effects
        return [effect for effect in later if self._writes(effect, destination, names)] or later

    def _last_durable(self) -> list[Effect]:
        """What the process that died had done of the batch and not only in an open transaction."""
        mine = [effect for effect in self.effects if effect.attempt == 0 and effect.batch == self.fault.batch]
        return [effect for effect in mine if not effect.pending] or mine

    def _nearest(self) -> Effect:
        effects = self.by_batch[self.fault.batch] or [effect for batch in self.by_batch for effect in batch]
        return effects[max(0, min(self.fault.effect, len(effects) - 1))]

    def struck(self) -> str:
        """Say what happened first."""
        effects = self.by_batch[self.fault.batch]
        place = self.fault.effect
        batch = f"batch {self.fault.batch}"
        at = effects[place] if 0 <= place < len(effects) else None
        before = f"before {_named(at)}" if at is not None else "before Spark noted the batch as done"
        after = f"after {_named(effects[place - 1])} and " if 0 < place <= len(effects) else ""
        match self.fault.kind:
            case SinkFaultKind.KILL:
                return f"in {batch} the driver died {after}{before}"
            case SinkFaultKind.TEAR:
                assert at is not None
                return f"in {batch} the driver died in the middle of {_named(at)}"
            case SinkFaultKind.LOSE_REPLY:
                assert at is not None
                return f"in {batch} the request was carried out, but its reply was lost: {_named(at)}"
            case SinkFaultKind.REFUSE:
                assert at is not None
                return f"in {batch} the request failed, and was not carried out: {_named(at)}"
            case SinkFaultKind.FAIL:
                return f"in {batch} a Spark job that the sink started failed {after}{before}"
            case SinkFaultKind.PAUSE if place < 0:
                return f"in {batch} the driver hung before it called the function, another took over, and then the first went on"
            case SinkFaultKind.PAUSE:
                return f"in {batch} the driver hung {after}{before}, another took over, and then the first went on"
            case SinkFaultKind.REORDER if at is not None:
                how = "another order and other partitions" if at.partition is None else "one partition"
                return f"in {batch} the driver died {after}{before}, and its rows came back in {how}"
            case SinkFaultKind.TASK | SinkFaultKind.STATE:
                return f"in {batch} a task died {self._where_in_task(effects)}, and Spark ran it again"
            case SinkFaultKind.REORDER | SinkFaultKind.RESTART:
                return f"the driver died after {batch}, before Spark noted it as done, and its rows came back in other partitions"
            case _:
                return _UNSTRUCK[self.fault.kind].format(
                    [*RowDelivery][max(0, place) % len(RowDelivery)].value
                )

    def _where_in_task(self, effects: list[Effect]) -> str:
        if self.fault.kind is SinkFaultKind.TASK:
            return f"after {_named(effects[self.fault.effect - 1])}"
        calls = [entry for entry in self.entries if isinstance(entry, StateCall)]
        if self.fault.effect >= len(calls):  # it failed before
            return "at a call of its state"
        call = calls[self.fault.effect]
        return f"before {call.call}" + (f" ({shown_place(call.place)})" if call.place else "")


_OTHER_PARTITIONS = (
    "Replace rows by a key of their own: a batch that runs again may be cut into other partitions."
)
_IN_STATE = "Keep it in a state variable, not in a module, a class or an object: another worker may run the next task."
_NONE = frozenset[str]()
_UNSTRUCK = {
    SinkFaultKind.NONE: "undisturbed",
    SinkFaultKind.DELIVERED: "the source delivers {}",
    SinkFaultKind.NEW_CHECKPOINT: "the checkpoint was deleted",
    SinkFaultKind.CHECKPOINT_RESTORED: "the checkpoint was restored from a backup",
}


def _remedy(blamed: list[Effect]) -> str:
    """What makes an effect of this sort idempotent."""
    effect = blamed[-1] if blamed else None
    if effect is not None and isinstance(effect.payload, HttpRequest):
        return "PUT it to an address that names the batch, or send an Idempotency-Key made of the batch id and the row."
    if effect is not None and isinstance(effect.payload, StoreWrite):
        return (
            "Write by a key that the row has, so that it replaces what is there, and let a condition on a version or a time of"
            " the row keep an older one from replacing a newer one."
        )
    if effect is not None and isinstance(effect.payload, TableVersion):
        return effect.payload.guarantee.remedy
    if effect is not None and effect.action in {"open", "write"}:
        return "Write a file that is named by the batch id, and rename it into place."
    return "Keep the batch id in the same transaction as the rows: begin by inserting the id, or replace what it has written."


def _named(effect: Effect) -> str:
    return f"{effect.action} on {effect.target} ({shown_place(effect.place)})"


def shown_items(items: Iterable[Item], most: int = 2) -> str:
    """Show the first rows or lines. ``most``: how many."""
    texts = [
        item if isinstance(item, str) else "(" + ", ".join(f"{name}={value}" for name, value in item) + ")"
        for item in items
    ]
    return (", ".join(texts[:most]) or "nothing") + (
        f" and {len(texts) - most} more" if len(texts) > most else ""
    )


def distinct(findings: list[SinkFinding]) -> tuple[SinkFinding, ...]:
    """Let causes lead, and leave out findings that only repeat another one about the same destination less precisely."""
    named = {finding.destination for finding in findings if finding.wrong is not Wrong.DIFFERS}
    caused = {
        wrong: {finding.destination for finding in findings if finding.wrong is wrong} for wrong in _FOLLOW
    }
    return tuple(
        finding
        for finding in sorted(findings, key=lambda finding: finding.wrong not in _FOLLOW)
        if (finding.wrong is not Wrong.DIFFERS or finding.destination not in named)
        and not any(
            finding.wrong in _FOLLOW[wrong] and finding.destination in places
            for wrong, places in caused.items()
        )
    )


_FOLLOW = {
    Wrong.MEMORY: {Wrong.MISSING, Wrong.LOST}, Wrong.UNSENT: {Wrong.MISSING, Wrong.LOST}, Wrong.SWALLOWED: {Wrong.MISSING},
    Wrong.OVERWRITTEN: {Wrong.MISSING, Wrong.TWICE}, Wrong.STALE: set[Wrong](), Wrong.LOST: set[Wrong](),
}  # fmt: skip
"""What follows from a cause, in the same destination: the cause says it all."""
