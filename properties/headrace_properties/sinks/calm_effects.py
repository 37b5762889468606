"""What the effects of a sink's undisturbed run ask, assume and leave open."""

from collections.abc import Mapping

from headrace_properties.sinks.story import (
    ONE_ROW_OF_EACH_KEY,
    SinkFinding,
    SinkQuestion,
    SinkTopic,
    Wrong,
)
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_effects import (
    AssumedTable,
    Effect,
    Entry,
    RolledBack,
)
from headrace_sim.spark.sinks.sink_runs import (
    SinkFailsError,
    UnfollowableSinkError,
)
from headrace_sim.spark.sinks.sqlite_effects import BEGIN
from headrace_sim.spark.stores.store_changes import StoreWrite
from headrace_sim.spark.tables.row_changes import MULTIPLE_MATCHES
from headrace_sim.spark.tables.table_versions import TableVersion


def questions_of(effects: list[Effect], declared: Mapping[str, tuple[str, ...]]) -> dict[str, SinkQuestion]:
    """Return what only the author can say of the tables that are written, by table.

    Raise `UnfollowableSinkError` if a key is declared of a table that is not written.
    """
    writes = [effect for effect in effects if isinstance(effect.payload, TableVersion)]
    stores = [effect for effect in effects if isinstance(effect.payload, StoreWrite)]
    tables = dict.fromkeys([effect.target for effect in writes] + [_table_of(effect) for effect in stores])
    for table in declared:
        if table not in tables:
            problem = f"a key is declared of {table!r}, and the sink writes no such table with df.write, nor with a client"
            raise UnfollowableSinkError(f"{problem}. Its tables: {', '.join(tables) or 'none'}")
    unkeyed = {
        effect.target: SinkQuestion(
            SinkTopic.KEYS,
            effect.target,
            effect.place,
            f"{effect.target} tells rows apart by its key, which the code does not say, and a row that is written again differs",
            f"Say --keys {_table_of(effect)}=column,...",
        )
        for effect in reversed(stores)
        if not effect.payload.is_keyed
    }
    return unkeyed | {
        effect.target: SinkQuestion(
            SinkTopic.KEYS,
            effect.target,
            effect.place,
            f"{effect.target}: {effect.payload.guarantee.question}",
            f"Say --keys {effect.target}=column,... if it writes by a key, or --keys {effect.target}= if it adds rows",
        )
        for effect in reversed(writes)
        if effect.payload.guarantee.question
    }


def _table_of(effect: Effect) -> str:
    """Return a table's name without its store's."""
    return effect.target.partition(": ")[2]


def assumed(effects: list[Effect]) -> tuple[str, ...]:
    """Say which tables are changed that nothing in the trial has made."""
    assumed = (
        effect.target
        for effect in effects
        if isinstance(effect.payload, TableVersion | AssumedTable) and effect.payload.is_assumed
    )
    return tuple(
        f"nothing has made the table {name}: it is taken to be there, and empty. Let prepare() make it to try it with rows"
        for name in dict.fromkeys(assumed)
    )


def nothing_left(by_batch: list[list[Effect]]) -> str:
    """Say that no rows can be compared, and what was done."""
    effects = [effect for effects in by_batch for effect in effects]
    done = next((effect for effect in effects if effect.action != BEGIN), effects[0])
    return (
        f"the sink left no row anywhere, even undisturbed, so none could be missing; {shown_place(done.place)} did "
        f"{done.action} on {done.target}. Does it read an iterator twice, or drop every row?"
    )


def left_open(entries: list[Entry]) -> list[Effect]:
    """The last change on each connection that neither a commit nor a rollback has followed."""
    left: dict[int, Effect] = {}
    for entry in entries:
        if isinstance(entry, Effect) and entry.pending and entry.action != BEGIN:
            left[entry.connection] = entry
        elif isinstance(entry, (Effect, RolledBack)):
            left.pop(entry.connection, None)
    return [*left.values()]


def failing(error: SinkFailsError) -> SinkFinding:
    """Return the finding that a sink can never write a batch; raise the error again if it is another."""
    if MULTIPLE_MATCHES in error.message:
        story = f"A batch has several rows of one key, and the merge fails, as it will each time: {error.message}."
        remedy = ONE_ROW_OF_EACH_KEY
    elif error.batch > 0 and "_ALREADY_EXISTS]" in error.message:
        story = f"Batch {error.batch} finds what the batch before wrote, and fails, as each later one will: {error.message}."
        remedy = "The save mode is errorifexists, the default: say what is meant, append, or overwrite of the batch's own part."
    else:
        raise error
    fault = SinkFault(SinkFaultKind.NONE, error.batch, 0)
    return SinkFinding(Wrong.STUCK, error.error, (), error.place, error.error, story, remedy, fault)
