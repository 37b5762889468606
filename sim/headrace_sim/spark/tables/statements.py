"""The statements that change tables, as values: what SQL text, ``df.mergeInto`` and ``DeltaTable`` have in common.

Names of tables are as they are written, without backticks: ``sales``, ``db.sales``, ``delta./data/sales``. Conditions and values
are columns of the rows of the target, under its alias, and, in a `Merge`, of those of the source under its own.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, Union

from pyspark.sql import types as t

from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.recorded import Recorded

if TYPE_CHECKING:
    from pyspark.sql.connect.proto import Relation  # half a second

Source: TypeAlias = Union["Relation", Rows]
"""A plan that is run when the statement is, or rows."""


class Match(Enum):
    """Which rows a clause of a `Merge` is about."""

    MATCHED = "WHEN MATCHED"
    NOT_MATCHED = "WHEN NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "WHEN NOT MATCHED BY SOURCE"


class MergeAction(Enum):
    """What a clause of a `Merge` does with them."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


class IfExists(Enum):
    """What ``CREATE`` does if there is one of that name."""

    FAIL = "CREATE"
    KEEP = "CREATE IF NOT EXISTS"
    REPLACE = "CREATE OR REPLACE"


@dataclass(frozen=True, slots=True)
class ColumnAssignment:
    """The new value of a column of the target."""

    column: str
    value: Recorded


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause of a `Merge`."""

    match: Match  # which rows it is about
    act: MergeAction  # what it does with them
    condition: Recorded | None = None  # which of these rows, or None: all
    # the values of columns, or None: all columns from those of the source (``UPDATE SET *``, ``INSERT *``)
    assignments: tuple[ColumnAssignment, ...] | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """``MERGE INTO table AS alias USING source AS source_alias ON condition``."""

    table: str
    source: Source  # the rows that are merged into it
    condition: Recorded  # which row of the source matches which of the target
    clauses: tuple[Clause, ...]  # in their order: the first that applies to a row counts
    alias: str = ""  # of the target; "": its name
    source_alias: str = ""  # of the source; "": the names that its columns have
    evolves: bool = False  # whether columns that the target lacks are added (``WITH SCHEMA EVOLUTION``)


@dataclass(frozen=True, slots=True)
class Insert:
    """``INSERT INTO`` or ``INSERT OVERWRITE``."""

    table: str
    source: Source
    # those of the target that the rows have, in their order; none: all, or those of the same name if ``by_name``
    columns: tuple[str, ...] = ()
    # whether rows of the target are replaced: all, or those of ``where``, or the partitions that are written
    overwrites: bool = False
    by_name: bool = False  # whether columns are matched by name (``BY NAME``), not by place
    # columns of ``PARTITION (day = '...', hour)``; None: the value comes with the rows, behind the other columns
    partition: tuple[tuple[str, Recorded | None], ...] = ()
    where: Recorded | None = None  # which rows are replaced (``REPLACE WHERE``), or None


@dataclass(frozen=True, slots=True)
class Delete:
    """``DELETE FROM table AS alias WHERE condition``; without a condition, all rows."""

    table: str
    condition: Recorded | None = None
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Update:
    """``UPDATE table AS alias SET assignments WHERE condition``; without a condition, all rows."""

    table: str
    assignments: tuple[ColumnAssignment, ...]
    condition: Recorded | None = None
    alias: str = ""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """``CREATE TABLE``."""

    table: str
    schema: t.StructType | None = None  # its columns, or None: those of the source
    provider: str = ""  # its format (``USING delta``), or "": the default one
    partitions: tuple[str, ...] = ()  # the columns that it is partitioned by
    if_exists: IfExists = IfExists.FAIL  # what is done if it exists
    source: Source | None = None  # the rows that it begins with (``AS SELECT``), or None
    location: str = ""  # where its files are (``LOCATION``), or ""


@dataclass(frozen=True, slots=True)
class DropTable:
    """``DROP TABLE [IF EXISTS] table``."""

    table: str
    may_lack: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """``TRUNCATE TABLE table``."""

    table: str


@dataclass(frozen=True, slots=True)
class CreateView:
    """``CREATE TEMPORARY VIEW``, or ``createOrReplaceTempView``: it lives as long as its session."""

    view: str
    source: Source
    if_exists: IfExists = IfExists.FAIL


@dataclass(frozen=True, slots=True)
class DropView:
    """``DROP VIEW [IF EXISTS] view``."""

    view: str
    may_lack: bool = False


TableStatement = Merge | Insert | Delete | Update | CreateTable | DropTable | Truncate
ViewStatement = CreateView | DropView
Statement = TableStatement | ViewStatement
