"""The tables of a trial: each write and each statement makes a new version of one, as one effect of the ledger.

What a process that died has committed is there for the next one, and for other queries of the same script; temporary views are
not, since they belong to the session. A statement on a table with a log reads and commits at one moment: Delta refuses it if
another one has changed in between what it read. So does its append, unlike Iceberg's and Hudi's.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import types as t

from headrace_sim.spark.columns.drawn_values import rows_there
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.columns.sql_text import parse_expression
from headrace_sim.spark.refusals import UnknownTableError, users_place
from headrace_sim.spark.tables.connectors import Guarantee, guarantee
from headrace_sim.spark.tables.row_changes import Affected, Changed, deleted, merged, updated
from headrace_sim.spark.tables.statements import (
    CreateTable,
    Delete,
    DropTable,
    IfExists,
    Insert,
    Merge,
    Source,
    TableStatement,
    Truncate,
    Update,
)
from headrace_sim.spark.tables.table_versions import (
    WITH_A_LOG,
    Replaces,
    SaveMode,
    TableVersion,
    WriteRequest,
    written,
)

_NOTHING = t.StructType([])
_OF_STATEMENTS = Guarantee(
    remedy="Set what is there instead of adding to it, or keep the batch id in the row, and change only rows with a smaller one."
)


class Done(Protocol):
    """An effect, as the ledger of a trial has it."""

    @property
    def target(self) -> str:
        """To what."""

    @property
    def action(self) -> str:
        """What was done."""

    @property
    def payload(self) -> Any:
        """A `TableVersion`, if it is one of a table."""


class EffectWatch(Protocol):
    """Hears of each effect before it happens, and may end the process."""

    @property
    def is_preparing(self) -> bool:
        """Whether no batch has begun."""

    def done(self) -> Sequence[Done]:
        """Return the effects so far, of all processes."""

    def action(self) -> AbstractContextManager[None]:
        """Begin a job of Spark's."""

    def effect(
        self, action: str, target: str, *, half: Callable[[], Any] | None, payload: Callable[[], Any]
    ) -> AbstractContextManager[None]:
        """Begin an effect. ``half``: does the first part of it; ``payload``: what is kept of it, once it is done."""

    def note(self, action: str, target: str, payload: Any) -> None:
        """Note what is done, without counting it."""


def tables(effects: Iterable[Done]) -> dict[str, TableVersion]:
    """Return each table as these effects leave it, by its name."""
    return _there(_last(effects))


def _last(effects: Iterable[Done]) -> dict[str, TableVersion]:
    return {effect.target: effect.payload for effect in effects if isinstance(effect.payload, TableVersion)}


def _there(versions: Mapping[str, TableVersion]) -> dict[str, TableVersion]:
    return {name: version for name, version in versions.items() if not version.is_dropped}


class Tables:
    """The tables that a job writes and reads.

    ``probe``: where effects are noted; None: of a script that has started no query yet. ``keys``: the columns by which an
    unknown connector writes, by table, as the author says. ``settings``: returns a setting of the session, or None.
    ``frame_of``: runs a plan. ``before``: what is there to begin with, by name. Without a probe, it is changed.
    """

    def __init__(
        self,
        probe: EffectWatch | None = None,
        keys: Mapping[str, tuple[str, ...]] | None = None,
        *,
        settings: Callable[[str], str | None] = lambda _name: None,
        frame_of: Callable[[Any], Rows] = lambda source: source,
        before: dict[str, TableVersion] | None = None,
    ) -> None:
        self._probe = probe
        self._keys = keys or {}
        self._settings = settings
        self._frame_of = frame_of
        self._before = {} if before is None else before
        self._read: set[str] = set()

    def versions(self) -> dict[str, TableVersion]:
        """Return the tables as they are now, by name."""
        effects = [] if self._probe is None else self._probe.done()
        return _there({**self._before, **_last(effects)})

    def exists(self, name: str) -> bool:
        """Return whether there is a table of this name or at this path."""
        return self._target(name) in self.versions()

    @property
    def are_of_program(self) -> bool:
        """Whether a program reads them that has started no query yet, and no trial."""
        return self._probe is None

    def read(self, name: str, known: t.StructType | None = None) -> Rows:
        """Return the rows of a table.

        ``name``: its own, or the path that it was written to. ``known``: its schema where it is there before the job. None: it
        is not. Raise `UnknownTableError` if there is none.
        """
        target = self._target(name)
        version = self.versions().get(target)
        self._read.add(target)
        if version is None and known is not None:
            version = TableVersion(known, rows_there(known))
            if self.are_of_program:
                self._before[target] = version
        if version is None:
            raise UnknownTableError(name)
        return Rows(version.schema, [version.rows])

    def history(self, name: str) -> list[str]:
        """Return what was done to a table, in order, in Delta's words."""
        target = self._target(name)
        done = [] if self._probe is None else self._probe.done()
        acts = [effect.action.partition(" (")[0] for effect in done if effect.target == target]
        acts = ["create"] * (target in self._before) + acts
        return [_OPERATIONS.get(act, act.upper()) for act in acts]

    def write(self, source: Source, request: WriteRequest) -> None:
        """Write rows. Raise `AnalysisException` if Spark would refuse it, as where the table is there in ``SaveMode.ERROR``."""
        target, table = self._target(request.target), self.versions().get(self._target(request.target))
        request = self._completed(request, target, table)
        self._refuse_known(request)
        if table is not None and request.mode is SaveMode.IGNORE:
            return
        action = f"{'overwrite' if request.mode is SaveMode.OVERWRITE else 'append'} ({request.format})"
        if request.format == "delta" or (request.format in WITH_A_LOG and request.mode is SaveMode.OVERWRITE):
            self._commit(action, target, lambda: self._written(self._rows(source), request))
            return
        self._read = set()
        frame = self._rows(source)
        if target in self._read and request.mode is SaveMode.OVERWRITE:
            message = f"Can't overwrite the target {target} that is also being read from: its files are deleted first"
            raise AnalysisException(message=f"[UNSUPPORTED_OVERWRITE] {message}")
        rows = frame.all()
        half = Rows(frame.schema, [tuple(rows[: len(rows) // 2])])
        has_parts = request.format not in WITH_A_LOG and len(rows) > 1
        part = (lambda: self._written(half, request)) if has_parts else None
        self._commit(action, target, lambda: self._written(frame, request), part)

    def execute(self, statement: TableStatement) -> Affected:
        """Carry out a statement; return how many rows it touched. Raise `AnalysisException` if Spark would refuse it."""
        match statement:
            case Merge():
                source = statement.source
                return self._change(
                    "merge", statement, lambda table: merged(table, self._rows(source), statement)
                )
            case Update():
                return self._change("update", statement, lambda table: updated(table, statement))
            case Delete():
                return self._change("delete", statement, lambda table: deleted(table, statement))
            case Truncate():
                all_rows = Delete(statement.table)
                return self._change("truncate", statement, lambda table: deleted(table, all_rows))
            case Insert():
                self._insert(statement)
            case CreateTable():
                self._create(statement)
            case DropTable():
                self._drop(statement)
        return Affected()

    def _change(
        self,
        verb: str,
        statement: Merge | Update | Delete | Truncate,
        change: Callable[[TableVersion], Changed],
    ) -> Affected:
        """Change the rows of a table, in one step. One that nothing has made is taken to be there, and empty."""
        target = self._target(statement.table)
        affected = Affected()

        def changed() -> TableVersion:
            nonlocal affected
            table = self.versions().get(target) or TableVersion(_NOTHING, is_assumed=True)
            if not (table.schema.fields or isinstance(statement, Merge)):
                return table
            result = change(table)
            affected = result.affected
            return replace(result.table, guarantee=_OF_STATEMENTS)

        known = self.versions().get(target)
        self._commit(f"{verb} ({known.format if known is not None else 'delta'})", target, changed)
        return affected

    def _insert(self, statement: Insert) -> None:
        frame, table = self._rows(statement.source), self.versions().get(self._target(statement.table))
        fixed = {name.lower(): value for name, value in statement.partition if value is not None}
        where = statement.where
        if table is not None:
            others = tuple(name for name in table.schema.names if name.lower() not in fixed)
            names = statement.columns or others
            if not statement.by_name:
                frame = _renamed(frame, names, statement.table)
        for name, value in statement.partition:
            if value is not None:
                frame = frame.with_columns({name: value})
                same = Recorded("equalTo", (Recorded("col", (name,), value.place), value), value.place)
                where = same if where is None else Recorded("and", (where, same), value.place)
        overwrites = statement.overwrites or statement.where is not None
        mode, where = (SaveMode.OVERWRITE, where) if overwrites else (SaveMode.APPEND, None)
        self.write(frame, WriteRequest(statement.table, "", mode, replaces=self.replaces(), where=where))

    def replaces(self, option: Any = None) -> Replaces:
        """Return what is overwritten, as an option or else the session says."""
        chosen = option or self._settings("spark.sql.sources.partitionOverwriteMode") or "static"
        return Replaces.PARTITIONS if str(chosen).lower() == "dynamic" else Replaces.TABLE

    def _create(self, statement: CreateTable) -> None:
        target = self._target(statement.table)
        if statement.if_exists is IfExists.KEEP and target in self.versions():
            return
        options = {"path": statement.location} if statement.location else {}
        partitions = tuple(name.lower() for name in statement.partitions)
        mode = SaveMode.ERROR if statement.if_exists is IfExists.FAIL else SaveMode.OVERWRITE
        request = WriteRequest(target, statement.provider.lower(), mode, options, partitions, creates=True)
        request = self._completed(request, target, None)

        def created() -> TableVersion:
            there = self.versions().get(target)
            if there is not None and statement.if_exists is IfExists.KEEP:
                return there
            source = statement.source
            rows = Rows(statement.schema or _NOTHING, ()) if source is None else self._rows(source)
            return self._written(rows, request)

        self._refuse_known(request)
        self._commit(f"create ({request.format})", target, created)

    def _drop(self, statement: DropTable) -> None:
        target = self._target(statement.table)
        table = self.versions().get(target)
        if table is not None:
            self._commit(f"drop ({table.format})", target, lambda: replace(table, rows=(), is_dropped=True))
        elif not statement.may_lack:
            message = f"[TABLE_OR_VIEW_NOT_FOUND] {statement.table} cannot be found"
            raise AnalysisException(message=message)

    def _completed(self, request: WriteRequest, target: str, table: TableVersion | None) -> WriteRequest:
        """Return a request with the table's name, its format, and the condition of its options."""
        default = self._settings("spark.sql.sources.default") or "parquet"
        form = request.format or (table.format if table is not None else default)
        where, mode = request.where, request.mode
        if where is None and (text := request.options.get("replacewhere")) is not None:
            where = parse_expression(str(text), users_place())
        if form == "kafka":
            if mode in {SaveMode.OVERWRITE, SaveMode.IGNORE}:
                message = f"Save mode {mode.value.title()} not allowed for Kafka"
                raise AnalysisException(
                    message=f"{message}. Allowed save modes are Append and ErrorIfExists (default)"
                )
            mode = SaveMode.APPEND
        return replace(request, target=target, format=form, where=where, mode=mode)

    def _refuse_known(self, request: WriteRequest) -> None:
        if request.mode is SaveMode.ERROR and request.target in self.versions():
            kind = "PATH_ALREADY_EXISTS" if "/" in request.target else "TABLE_OR_VIEW_ALREADY_EXISTS"
            message = f"{request.target} already exists. Set mode as 'overwrite' to overwrite it"
            raise AnalysisException(message=f"[{kind}] {message}")

    def _written(self, frame: Rows, request: WriteRequest) -> TableVersion:
        columns = {name.lower() for name in frame.columns}
        mode = "append" if request.mode is SaveMode.ERROR else request.mode.value
        self._refuse_known(request)
        known = guarantee(request.format, mode, request.options, columns, self._keys.get(request.target))
        return written(self.versions().get(request.target), frame, request, known)

    def _commit(
        self,
        action: str,
        target: str,
        change: Callable[[], TableVersion],
        part: Callable[[], TableVersion] | None = None,
    ) -> None:
        """Make a new version of a table. ``part``: that which a process leaves that dies in the middle of it."""
        probe = self._probe
        if probe is None:
            self._before[target] = change()
        elif probe.is_preparing:
            probe.note(action, target, change())
        else:
            half = None if part is None else lambda: probe.note(f"part of {action}", target, part())
            versions: list[TableVersion] = []
            with probe.action(), probe.effect(action, target, half=half, payload=lambda: versions[0]):
                versions.append(change())

    def _rows(self, source: Source) -> Rows:
        return source if isinstance(source, Rows) else self._frame_of(source)

    def _target(self, name: str) -> str:
        """Return the name by which a table is kept: its own, even if it is called in other letters, or by its path."""
        plain, versions = plain_name(name), self.versions()
        if plain in versions:
            return plain
        alike = (
            other
            for other, version in versions.items()
            if (other.lower() == plain.lower() and "/" not in plain)
            or (version.location and plain_name(version.location) == plain)
        )
        return next(alike, plain)


def plain_name(name: str) -> str:
    """Return a table's name without backticks and without what Spark adds by default, or a path as it is kept."""
    path = _PATH.fullmatch(name.strip())
    if path is not None or "/" in name:
        plain = name if path is None else path[1] or path[2]
        return plain.removeprefix("dbfs:").removeprefix("file:").rstrip("/") or "/"
    return name.replace("`", "").strip().removeprefix("spark_catalog.").removeprefix("default.")


_OPERATIONS = {"append": "WRITE", "overwrite": "WRITE", "create": "CREATE TABLE"}
_PATH = re.compile(r"(?:avro|csv|delta|hudi|iceberg|json|orc|parquet|text)\.(?:`(.+)`|(.*/.*))")
"""A path in the place of a table's name."""


def _renamed(frame: Rows, names: Sequence[str], table: str) -> Rows:
    """Return a frame whose columns have the names of a table's, by their place."""
    if len(names) != len(frame.columns):
        message = f"{table} takes {len(names)} columns, the rows have {len(frame.columns)}"
        raise AnalysisException(message=f"[INSERT_COLUMN_ARITY_MISMATCH] Cannot write: {message}")
    return frame.named(names)
