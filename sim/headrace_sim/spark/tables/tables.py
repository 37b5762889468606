"""The tables of a trial: each write and each statement makes a new version of one, as one effect of the ledger.

What a process that died has committed is there for the next one, and for other queries of the same script; temporary views are
not, since they belong to the session. A statement on a table with a log reads and commits at one moment: Delta refuses it if
another one has changed in between what it read.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import types as t

from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.columns.sql_text import parse_expression
from headrace_sim.spark.refusals import users_place
from headrace_sim.spark.tables.changes import Affected, Changed, deleted, merged, updated
from headrace_sim.spark.tables.connectors import guarantee
from headrace_sim.spark.tables.statements import (
    CreateTable,
    CreateView,
    Delete,
    DropTable,
    DropView,
    IfExists,
    Insert,
    Merge,
    Source,
    Statement,
    Truncate,
    Update,
)
from headrace_sim.spark.tables.versions import (
    WITH_A_LOG,
    Replaces,
    SaveMode,
    Version,
    WriteRequest,
    written,
)

_NOTHING = t.StructType([])


class Done(Protocol):
    """An effect, as the ledger of a trial has it."""

    @property
    def target(self) -> str:
        """To what."""

    @property
    def payload(self) -> Any:
        """A `Version`, if it is one of a table."""


class Watch(Protocol):
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


def tables(effects: Iterable[Done]) -> dict[str, Version]:
    """Return each table as these effects leave it, by its name."""
    return _there(_last(effects))


def _last(effects: Iterable[Done]) -> dict[str, Version]:
    return {effect.target: effect.payload for effect in effects if isinstance(effect.payload, Version)}


def _there(versions: Mapping[str, Version]) -> dict[str, Version]:
    return {name: version for name, version in versions.items() if not version.is_dropped}


class UnknownTableError(AnalysisException):
    """A table or path is read that nothing in the trial has made."""


class Tables:
    """The tables that a job writes and reads.

    Args:
        probe: Where effects are noted; None: of a script that has started no query yet.
        keys: The columns by which an unknown connector writes, by table, as the author says.
        settings: Returns a setting of the session, or None.
        frame_of: Runs a plan.
        before: What is there to begin with, by name.

    """

    def __init__(
        self,
        probe: Watch | None = None,
        keys: Mapping[str, tuple[str, ...]] | None = None,
        *,
        settings: Callable[[str], str | None] = lambda _name: None,
        frame_of: Callable[[Any, "Tables"], Rows] | None = None,
        before: Mapping[str, Version] | None = None,
    ) -> None:
        self._probe = probe
        self._keys = keys or {}
        self._settings = settings
        self._frame_of = frame_of
        self._before = dict(before or {})
        self._views: dict[str, Source] = {}

    def versions(self) -> dict[str, Version]:
        """Return the tables as they are now, by name."""
        effects = [] if self._probe is None else self._probe.done()
        return _there({**self._before, **_last(effects)})

    def exists(self, name: str) -> bool:
        """Return whether there is a table or a view of this name, or a table at this path."""
        return self._view(name) is not None or self._target(name) in self.versions()

    def read(self, name: str) -> Rows:
        """Return the rows of a table or a view, by its name, or of what was written to a path.

        Raises:
            UnknownTableError: If there is none.

        """
        view = self._view(name)
        if view is not None:
            return self._rows(view)
        version = self.versions().get(self._target(name))
        if version is None:
            kind = "PATH_NOT_FOUND" if "/" in name else "TABLE_OR_VIEW_NOT_FOUND"
            remedy = "If it is there before the job, let prepare() write it"
            raise UnknownTableError(message=f"[{kind}] {name}: nothing in this trial has made it. {remedy}")
        return self._frame(version)

    def write(self, source: Source, request: WriteRequest) -> None:
        """Write rows.

        Raises:
            AnalysisException: If Spark would refuse it, as where the table is there in ``SaveMode.ERROR``.

        """
        target, table = self._target(request.target), self.versions().get(self._target(request.target))
        request = self._completed(request, target, table)
        if table is not None and request.mode is SaveMode.ERROR:
            kind = "PATH_ALREADY_EXISTS" if "/" in target else "TABLE_OR_VIEW_ALREADY_EXISTS"
            raise AnalysisException(
                message=f"[{kind}] {target} already exists. Set mode as 'overwrite' to overwrite it"
            )
        if table is not None and request.mode is SaveMode.IGNORE:
            return
        action = f"{'overwrite' if request.mode is SaveMode.OVERWRITE else 'append'} ({request.format})"
        if request.format in WITH_A_LOG:
            self._commit(action, target, lambda: self._written(self._rows(source), request))
            return
        frame = self._rows(source)
        rows = frame.all()
        half = Rows(frame.schema, [tuple(rows[: len(rows) // 2])])
        self._commit(
            action,
            target,
            lambda: self._written(frame, request),
            part=(lambda: self._written(half, request)) if len(rows) > 1 else None,
        )

    def execute(self, statement: Statement) -> Affected:
        """Carry out a statement; return how many rows it touched.

        Raises:
            AnalysisException: If Spark would refuse it.

        """
        match statement:
            case Merge():
                return self._change(
                    "merge", statement, lambda table: merged(table, self._rows(statement.source), statement)
                )
            case Update():
                return self._change("update", statement, lambda table: updated(table, statement))
            case Delete():
                return self._change("delete", statement, lambda table: deleted(table, statement))
            case Truncate():
                return self._change(
                    "truncate", statement, lambda table: deleted(table, Delete(statement.table))
                )
            case Insert():
                self._insert(statement)
            case CreateTable():
                self._create(statement)
            case DropTable():
                self._drop(statement)
            case CreateView():
                self._create_view(statement)
            case DropView():
                if (
                    self._views.pop(plain_name(statement.view).lower(), None) is None
                    and not statement.may_lack
                ):
                    raise _not_found(statement.view)
        return Affected()

    def _change(
        self, verb: str, statement: Merge | Update | Delete | Truncate, change: Callable[[Version], Changed]
    ) -> Affected:
        """Change the rows of a table, in one step. One that nothing has made is taken to be there, and empty."""
        target = self._target(statement.table)
        affected = Affected()

        def changed() -> Version:
            nonlocal affected
            table = self.versions().get(target) or Version(_NOTHING, is_assumed=True)
            if not (table.schema.fields or isinstance(statement, Merge)):
                return table
            result = change(table)
            affected = result.affected
            return result.table

        known = self.versions().get(target)
        self._commit(f"{verb} ({known.format if known is not None else 'delta'})", target, changed)
        return affected

    def _insert(self, statement: Insert) -> None:
        frame, table = self._rows(statement.source), self.versions().get(self._target(statement.table))
        fixed = {name.lower(): value for name, value in statement.partition if value is not None}
        where = statement.where
        if table is not None:
            names = statement.columns or tuple(
                name for name in table.schema.names if name.lower() not in fixed
            )
            if not statement.by_name:
                frame = _renamed(frame, names, statement.table)
        for name, value in statement.partition:
            if value is not None:
                frame = frame.with_columns({name: value})
                same = Recorded("equalTo", (Recorded("col", (name,), value.place), value), value.place)
                where = same if where is None else Recorded("and", (where, same), value.place)
        mode = SaveMode.OVERWRITE if statement.overwrites or statement.where is not None else SaveMode.APPEND
        self.write(
            frame,
            WriteRequest(
                statement.table,
                "",
                mode,
                replaces=self.replaces(),
                where=where if mode is SaveMode.OVERWRITE else None,
            ),
        )

    def replaces(self, option: Any = None) -> Replaces:
        """Return what is overwritten, as an option or else the session says."""
        chosen = option or self._settings("spark.sql.sources.partitionOverwriteMode") or "static"
        return Replaces.PARTITIONS if str(chosen).lower() == "dynamic" else Replaces.TABLE

    def _create(self, statement: CreateTable) -> None:
        target = self._target(statement.table)
        if target in self.versions():
            if statement.if_exists is IfExists.KEEP:
                return
            if statement.if_exists is IfExists.FAIL:
                raise AnalysisException(message=f"[TABLE_OR_VIEW_ALREADY_EXISTS] {target} already exists")
        frame = Rows(statement.schema or _NOTHING, ())
        if statement.source is not None:
            frame = self._rows(statement.source)
        options = {"path": statement.location} if statement.location else {}
        partitions = tuple(name.lower() for name in statement.partitions)
        request = WriteRequest(
            target, statement.provider.lower(), SaveMode.OVERWRITE, options, partitions, creates=True
        )
        request = self._completed(request, target, None)
        self._commit(f"create ({request.format})", target, lambda: self._written(frame, request))

    def _drop(self, statement: DropTable) -> None:
        target = self._target(statement.table)
        table = self.versions().get(target)
        if table is not None:
            self._commit(f"drop ({table.format})", target, lambda: replace(table, rows=(), is_dropped=True))
        elif not statement.may_lack:
            raise _not_found(statement.table)

    def _create_view(self, statement: CreateView) -> None:
        name = plain_name(statement.view).lower()
        if name in self._views and statement.if_exists is IfExists.FAIL:
            raise AnalysisException(message=f"[TEMP_TABLE_OR_VIEW_ALREADY_EXISTS] {name} already exists")
        if name in self._views and statement.if_exists is IfExists.KEEP:
            return
        if self._probe is not None and self._probe.is_preparing:  # a process that takes over has it, too
            request = WriteRequest(name, mode=SaveMode.OVERWRITE, creates=True)
            self._commit("create view", name, lambda: self._written(self._rows(statement.source), request))
        else:
            self._views[name] = statement.source

    def _completed(self, request: WriteRequest, target: str, table: Version | None) -> WriteRequest:
        """Return a request with the table's name, its format, and the condition of its options."""
        default = self._settings("spark.sql.sources.default") or "parquet"
        form = request.format or (table.format if table is not None else default)
        where, mode = request.where, request.mode
        if where is None and (text := request.options.get("replacewhere")) is not None:
            where = parse_expression(str(text), users_place())
        if form == "kafka":
            if mode in {SaveMode.OVERWRITE, SaveMode.IGNORE}:
                allowed = "Allowed save modes are Append and ErrorIfExists (default)"
                raise AnalysisException(
                    message=f"Save mode {mode.value.title()} not allowed for Kafka. {allowed}"
                )
            mode = SaveMode.APPEND
        return replace(request, target=target, format=form, where=where, mode=mode)

    def _written(self, frame: Rows, request: WriteRequest) -> Version:
        columns = {name.lower() for name in frame.columns}
        mode = "append" if request.mode is SaveMode.ERROR else request.mode.value
        known = guarantee(request.format, mode, request.options, columns, self._keys.get(request.target))
        return written(self.versions().get(request.target), frame, request, known)

    def _commit(
        self,
        action: str,
        target: str,
        change: Callable[[], Version],
        part: Callable[[], Version] | None = None,
    ) -> None:
        """Make a new version of a table. ``part``: that which a process leaves that dies in the middle of it."""
        probe = self._probe
        if probe is None:
            self._before[target] = change()
        elif probe.is_preparing:
            probe.note(action, target, change())
        else:
            half = None if part is None else lambda: probe.note(f"part of {action}", target, part())
            versions: list[Version] = []
            with probe.action(), probe.effect(action, target, half=half, payload=lambda: versions[0]):
                versions.append(change())

    def _rows(self, source: Source) -> Rows:
        if isinstance(source, Rows):
            return source
        assert self._frame_of is not None
        return self._frame_of(source, self)

    def _frame(self, version: Version) -> Rows:
        return Rows(version.schema, [version.rows])

    def _view(self, name: str) -> Source | None:
        return self._views.get(plain_name(name).lower())

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
        return (name if path is None else path[1]).removeprefix("dbfs:").removeprefix("file:").rstrip(
            "/"
        ) or "/"
    return name.replace("`", "").strip().removeprefix("spark_catalog.").removeprefix("default.")


_PATH = re.compile(r"(?:avro|csv|delta|hudi|iceberg|json|orc|parquet|text)\.`(.+)`")
"""A path in the place of a table's name."""


def _not_found(name: str) -> AnalysisException:
    return AnalysisException(message=f"[TABLE_OR_VIEW_NOT_FOUND] {name} cannot be found")


def _renamed(frame: Rows, names: Sequence[str], table: str) -> Rows:
    """Return a frame whose columns have the names of a table's, by their place."""
    if len(names) != len(frame.columns):
        message = f"{table} takes {len(names)} columns, the rows have {len(frame.columns)}"
        raise AnalysisException(message=f"[INSERT_COLUMN_ARITY_MISMATCH] Cannot write: {message}")
    return frame.named(names)
