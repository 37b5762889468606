"""How rows that the undisturbed run loses are reported: a finding, a question that only the author can answer, or a note."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import Any

from headrace_properties.sinks.baseline import Baseline, Cut, Loss, Lost, grows_whole, pattern_of
from headrace_properties.sinks.story import OtherRows, SinkFinding, SinkQuestion, SinkTopic, Wrong
from headrace_sim.spark.columns.evaluations import Evaluated
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_effects import Effect, Swallowed
from headrace_sim.spark.sinks.trial_contents import Raw, destination_of

_ALLOWED = {
    Loss.OVERWRITTEN: "batching", Loss.SKIPPED: "batching", Loss.COMPANIONS: "batching", Loss.STALE: "order",
    Loss.ORDER: "order", Loss.CHOSEN: "loss",
}  # fmt: skip
ALLOWED = {
    Wrong.OVERWRITTEN: "batching", Wrong.LOST: "batching", Wrong.SWALLOWED: "loss", Wrong.STALE: "order",
    Wrong.REDELIVERED: "duplicates", Wrong.ALIKE: "alike",
}  # fmt: skip
"""What the author allows by saying so."""


class RowsOf(Enum):
    """Where the rows of the batches come from."""

    SOURCE = "a source, which may deliver them in other batches, and in another order"
    UNKNOWN = "a source, or a query whose output mode is not known: each batch may be its whole result"
    APPENDED = "a query with state in output mode Append: Spark keeps the order of what it yields"
    UPDATED = "a query with state in another output mode: what comes later is newer"


@dataclass(frozen=True, slots=True)
class Losses:
    """What the undisturbed run loses: findings, questions for the author, and notes that change no verdict.

    ``replaced`` are the destinations that each batch replaces with the whole result, so that the next one mends what is old.
    """

    findings: tuple[SinkFinding, ...] = ()
    questions: tuple[SinkQuestion, ...] = ()
    notes: tuple[str, ...] = ()
    replaced: frozenset[str] = frozenset()


def told_losses(
    baseline: Baseline,
    by_batch: Sequence[Sequence[Effect]],
    swallowed: Sequence[Swallowed],
    rows_of: RowsOf,
    allow: Collection[str],
    names: frozenset[str],
    errors_without: Callable[[Collection[int]], Collection[tuple[str, str]]],
    revised: Sequence[tuple[int, int]] = (),
) -> Losses:
    """Judge the undisturbed run.

    Args:
        baseline: Its rows, and how to run others.
        by_batch: Its effects.
        swallowed: The errors that were raised in it and did not end it.
        rows_of: Where its rows come from.
        allow: What the author allows: ``batching``, ``order``, ``loss``.
        names: The destinations that have the same name in each run.
        errors_without: Return the errors that the sink catches without these rows, and their places.
        revised: The numbers of rows of which the second one is a newer result for the key of the first one.

    """
    if rows_of is RowsOf.UPDATED:
        asked = () if "batching" in allow else baseline.beside(revised)
        return Losses(questions=tuple(_beside(baseline, pair, by_batch, names) for pair in asked))
    replaced = list[str]()
    findings, questions, notes = list[SinkFinding](), list[SinkQuestion](), list[str]()
    for lost in baseline.lost():
        ordered = rows_of is RowsOf.APPENDED and lost.loss in {Loss.STALE, Loss.ORDER}
        whole = lost.loss is Loss.OVERWRITTEN and grows_whole(baseline.batches)
        caught = [entry for entry in swallowed if entry.batch == lost.batch]
        if caught and lost.loss is Loss.CHOSEN:
            others = errors_without(lost.rows)
            caught = [entry for entry in caught if (entry.error, entry.place) not in others]
        is_swallowed = bool(caught) and lost.loss is Loss.COMPANIONS
        allowed = (ALLOWED[Wrong.SWALLOWED] if is_swallowed else _ALLOWED[lost.loss]) in allow
        if lost.loss is Loss.OVERWRITTEN and (whole or allowed or rows_of is RowsOf.UNKNOWN):
            replaced.append(lost.destination)
        if ordered or whole or allowed:
            continue
        rows = _rows_told(baseline.batches, lost.rows)
        question = _question(lost, rows, caught, rows_of)
        if question is not None:
            place = caught[0].place if caught else last_effect(lost.destination, by_batch, names).place
            open_question = SinkQuestion(question[0], lost.destination, place, *question[1:])
            questions.append(replace(open_question, rows=_shown_by(baseline, lost)))
        elif lost.loss is Loss.CHOSEN:
            what = "in no effect, in whatever batch and order: filtered, a duplicate or an older version?"
            if lost.was_there:
                what = "written, and replaced in whatever batch and order the others come: an older version?"
            notes.append(f"{rows} {what}")
        else:
            loss = _finding(lost, rows, baseline.batches, by_batch, names, caught)
            findings.append(replace(loss, rows=_shown_by(baseline, lost)))
    if swallowed and not any(finding.wrong is Wrong.SWALLOWED for finding in findings):
        errors = dict.fromkeys(str(entry) for entry in swallowed)
        notes += [f"an error was caught in the sink, undisturbed: {error}" for error in list(errors)[:2]]
    return Losses(tuple(findings), tuple(questions), tuple(notes), frozenset(replaced))


def _shown_by(baseline: Baseline, lost: Lost) -> OtherRows | None:
    """Return the rows as they come where the lost ones leave a trace."""
    if lost.cut is Cut.AS_GIVEN:
        return None
    return OtherRows(f"the rows {lost.cut.value}", baseline.arranged(lost.cut))


def evaluated_apart(
    entries: Iterable[object], contents: Raw, allow: Collection[str]
) -> Iterator[SinkQuestion]:
    """Ask about results of Python functions of which one action left other ones than another, in one batch.

    ``entries``: of the undisturbed run. ``contents``: what it left.
    """

    def left(values: Iterable[str]) -> Iterator[tuple[str, str]]:
        return ((value, name) for value in values for name, items in contents.items() if value in repr(items))

    noted = (
        []
        if SinkTopic.EVALUATED.value in allow
        else [each for each in entries if isinstance(each, Evaluated)]
    )
    for each in noted:
        for (one, here), (other, there) in islice(zip(left(each.first), left(each.later), strict=False), 1):
            message = (
                f"each action on the frame calls {each.function}() again: in one batch, {here} has {one!r} and {there}"
                f" has {other!r} for the same values"
            )
            yield SinkQuestion(SinkTopic.EVALUATED, there, each.place, message, _EVALUATED_ONCE)


_EVALUATED_ONCE = (
    "Is that meant? Then say --allow evaluated. If not: make it of what the row says (uuid5), or write the frame once and read it"
    " back; cache() keeps it only until Spark evicts it"
)


def _beside(
    baseline: Baseline,
    pair: tuple[str, int, int],
    by_batch: Sequence[Sequence[Effect]],
    names: frozenset[str],
) -> SinkQuestion:
    """Ask whether a destination is meant to keep all results of a key."""
    where, *numbers = pair
    rows = [row for batch in baseline.batches for row in batch]
    old, new = (tuple(rows[number]) for number in numbers)
    message = f"{where} has {old} beside the newer result {new}: the query revises its results, and each of them is added"
    if old == new:
        message = (
            f"{where} has {old} twice: the query gives out its results again, and each time they are added"
        )
    answer = (
        "Is it a log of changes? Then declare running=True, or say --allow batching. "
        "If not: MERGE by the key, replace the whole table, or choose outputMode('append') with a watermark"
    )
    return SinkQuestion(SinkTopic.BATCHING, where, last_effect(where, by_batch, names).place, message, answer)


def _question(
    lost: Lost, rows: str, caught: Sequence[Swallowed], rows_of: RowsOf
) -> tuple[SinkTopic, str, str] | None:
    """Return what is asked about a loss, what the sink does, and how to answer."""
    if lost.loss is Loss.COMPANIONS and not caught:
        return (
            SinkTopic.BATCHING,
            f"{rows} in no effect, and would be in a batch without the others",
            "Is that meant, as one row for each batch is? Then declare running=True, or say --allow batching",
        )
    if lost.loss is Loss.ORDER:
        return (
            SinkTopic.ORDER,
            f"{rows} replaced, or not, by the order in which rows come. A source keeps it within a partition only",
            "Does it so for each key? Then declare source=FeedSource(ordered=True), or say --allow order. If not: compare times",
        )
    if lost.loss is Loss.CHOSEN and caught:
        return (
            SinkTopic.LOSS,
            f"{rows} in no effect, and the sink caught {caught[0]}",
            "Is the loss meant? Then say --allow loss. If not: let the error be raised, or write the row elsewhere",
        )
    if lost.loss is Loss.OVERWRITTEN and rows_of is RowsOf.UNKNOWN:
        return (
            SinkTopic.BATCHING,
            f"each batch replaces the whole of {lost.destination}",
            "Is it the whole result (output mode Complete)? Then say --allow batching. If not: the last rows alone are left",
        )
    return None


def _finding(
    lost: Lost,
    rows: str,
    batches: Sequence[Sequence[Any]],
    by_batch: Sequence[Sequence[Effect]],
    names: frozenset[str],
    caught: Sequence[Swallowed],
) -> SinkFinding:
    where = lost.destination
    if lost.loss is Loss.OVERWRITTEN:
        wrong = Wrong.OVERWRITTEN
        story = f"{rows} gone: a later batch replaces what an earlier one wrote to {where}; in one batch all are kept."
        remedy = "Replace the part of the batch only (its partition, replaceWhere, DELETE ... WHERE batch = ?), or append once."
    elif lost.loss is Loss.SKIPPED:
        wrong = Wrong.LOST
        story = (
            f"{rows} in no effect, though nothing failed; with the same rows in one batch, {where} has them."
        )
        remedy = "Write the rows of each batch before the function returns: Spark does not bring them again."
    elif lost.loss is Loss.COMPANIONS:
        wrong = Wrong.SWALLOWED
        story = f"The sink caught {caught[0]} and returned, so that batch {lost.batch} counts as written: {rows} in no effect."
        remedy = "Let the error be raised, so that Spark runs the batch again; or set the bad row aside, and write the others."
    else:
        wrong = Wrong.STALE
        instead = _rows_told(batches, lost.instead)
        story = (
            f"In one batch the sink leaves out {rows.rpartition(' ')[0]} for newer ones, but in a batch of its own, after them, "
            f"an older row replaces the newer one in {where}."
        )
        if lost.instead:
            story = f"Undisturbed, {rows} not in {where}, and {instead} there instead; in one batch the sink chooses otherwise."
        remedy = "Compare with the row that is there, too (DO UPDATE ... WHERE excluded.version > version): it may be newer."
    blamed = last_effect(lost.destination, by_batch, names)
    place, effect = blamed.place, blamed.action
    if wrong is Wrong.SWALLOWED:
        place, effect = caught[0].place, caught[0].error
    fault = SinkFault(SinkFaultKind.NONE, lost.batch, 0)
    return SinkFinding(wrong, where, (), place, effect, story[0].upper() + story[1:], remedy, fault)


def _rows_told(batches: Sequence[Sequence[Any]], numbers: Iterable[int]) -> str:
    """Name rows: ``the row (1, 'a') is``, ``the rows (1, 'a'), (2, 'b') and 3 more are``."""
    rows = [row for batch in batches for row in batch]
    shown = [str(tuple(rows[number])) for number in numbers]
    more = f" and {len(shown) - 2} more" if len(shown) > 2 else ""
    return f"the row {shown[0]} is" if len(shown) == 1 else f"the rows {', '.join(shown[:2])}{more} are"


def last_effect(destination: str, by_batch: Sequence[Sequence[Effect]], names: frozenset[str]) -> Effect:
    """Return the last effect on the destination, or the last one of all."""
    effects = [effect for effects in by_batch for effect in effects]
    wanted = pattern_of(destination)
    patterns = [{pattern_of(each.target), pattern_of(destination_of(each.target, names))} for each in effects]
    of_it = [effect for effect, known in zip(effects, patterns, strict=True) if wanted in known]
    return (of_it or effects)[-1]


def swallowed_in_trial(finding: SinkFinding, caught: Swallowed) -> SinkFinding:
    """Return the finding that rows are missing because the sink caught an error in a trial and went on."""
    story = finding.story.replace("; then ", f"; the sink caught {caught} and went on; then ", 1)
    remedy = "Let the error be raised: Spark then runs the batch again."
    return replace(finding, place=caught.place, effect=caught.error, story=story, remedy=remedy)
