"""The DataFrame of one micro-batch, in memory: the argument of a `foreachBatch` function without Spark.

Rows are tuples with a schema. Columns are PySpark's own, recorded (`recorded_columns`) and evaluated in Python (`expressions`).
Nothing is lazy: a frame is its rows. A call that is not simulated raises `CannotFollowError`, which names the call and its
place.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import Any, Self

from pyspark import cloudpickle
from pyspark.errors import AnalysisException, PySparkAttributeError, PySparkTypeError
from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import types as t
from pyspark.sql.classic.dataframe import DataFrameNaFunctions, DataFrameStatFunctions

from headrace_sim.spark.columns.bound import ALIAS, Bound, hashable
from headrace_sim.spark.columns.expressions import bind, expand
from headrace_sim.spark.columns.joins import joined, kind_of_join
from headrace_sim.spark.columns.recorded import OF_A_FRAME, Recorded
from headrace_sim.spark.columns.recorded_columns import column_of, node_of
from headrace_sim.spark.columns.sql_text import parse_expression
from headrace_sim.spark.columns.whole_columns import Partition, computed_first, windows_in
from headrace_sim.spark.columns.window_functions import places_in_order
from headrace_sim.spark.refusals import CannotFollowError, refuse_the_rest, users_place


class Rows(DataFrame):
    """A DataFrame of rows in memory.

    Args:
        session: What ``sparkSession`` returns.
        schema: That of the rows.
        partitions: The rows, as tuples, in their partitions.

    """

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make one of ours: PySpark's would be a DataFrame on Java."""
        return object.__new__(cls)

    def __init__(self, session: Any, schema: t.StructType, partitions: Sequence[Partition]) -> None:
        self._session = session
        self._schema = schema
        self._partitions = tuple(partitions)

    def _with(self, schema: t.StructType, partitions: Sequence[Partition]) -> "Rows":
        return Rows(self._session, schema, partitions)

    def _all(self) -> list[tuple[Any, ...]]:
        return [row for partition in self._partitions for row in partition]

    def _bind(self, column: Any) -> Bound:
        return bind(node_of(column), self._schema)

    def _row(self, values: tuple[Any, ...]) -> Any:
        return t._create_row(self._schema.names, values)

    # Description

    @property
    def sparkSession(self) -> Any:
        """The session that made it."""
        return self._session

    @property
    def schema(self) -> t.StructType:
        """The schema of its rows."""
        return self._schema

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self._schema.names)

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """The names and types of its columns."""
        return [(field.name, field.dataType.simpleString()) for field in self._schema.fields]

    @property
    def isStreaming(self) -> bool:
        """Always false: a micro-batch is not a stream."""
        return False

    @property
    def write(self) -> Any:
        """A writer, whose effects the session records."""
        return self._session.writer(self)

    def writeTo(self, table: str) -> Any:
        """A writer to a table."""
        return self._session.writer(self).to_table(table)

    def printSchema(self, level: int | None = None) -> None:
        """Print nothing: what is printed is no effect of a sink."""

    def show(self, n: int = 20, truncate: Any = True, vertical: Any = False) -> None:
        """Print nothing: what is printed is no effect of a sink."""

    def __getitem__(self, item: Any) -> Any:
        """Return the column with this name or place, or a frame of several, or of the rows for which a column is true."""
        if isinstance(item, Column):
            return self.filter(item)
        if isinstance(item, (list, tuple)):
            return self.select(*item)
        name = self._schema.names[item] if isinstance(item, int) else item
        self._bind(name)
        return column_of(Recorded("col", (name, OF_A_FRAME), users_place()))

    def __getattr__(self, name: str) -> Any:
        """Return the column with this name."""
        if name.startswith("_j"):
            raise CannotFollowError(f"DataFrame.{name}, which is Java's,", users_place(), _REMEDY)
        if name.startswith("_") or name not in self._schema.names:
            message = f"[ATTRIBUTE_NOT_SUPPORTED] Attribute `{name}` is not supported"
            raise PySparkAttributeError(message)
        return self[name]

    def __repr__(self) -> str:
        """Show the columns, as Spark does."""
        return f"DataFrame[{', '.join(f'{name}: {kind}' for name, kind in self.dtypes)}]"

    # Columns.

    def select(self, *cols: Any) -> "Rows":
        """Compute columns."""
        nodes = [recorded for column in _flat(cols) for recorded in expand(node_of(column), self._schema)]
        nodes, schema, partitions = self._computed_first(nodes)
        return self._computed([bind(node, schema) for node in nodes], partitions)

    def selectExpr(self, *expr: Any) -> "Rows":
        """Compute columns given as SQL text."""
        return self.select(*(parse_expression(text, users_place()) for text in _flat(expr)))

    def _computed_first(
        self, nodes: list[Recorded]
    ) -> tuple[list[Recorded], t.StructType, Sequence[Partition]]:
        if self.isStreaming and any(windows_in(nodes)):
            message = "[NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING] Window functions are for batches: use them in foreachBatch()"
            raise AnalysisException(message=message)
        return computed_first(nodes, self._schema, self._partitions)

    def _computed(self, columns: list[Bound], partitions: Sequence[Partition]) -> "Rows":
        schema = t.StructType([column.field for column in columns])
        values = [column.value for column in columns]
        return self._with(
            schema,
            [tuple(tuple(value(row) for value in values) for row in part) for part in partitions],
        )

    def withColumn(self, colName: str, col: Any) -> "Rows":
        """Add a column, or replace the one of this name."""
        return self.withColumns({colName: col})

    def withColumns(self, *colsMap: dict[str, Any]) -> "Rows":
        """Add columns, or replace those with these names."""
        given = [node_of(column) for column in colsMap[0].values()]
        nodes, schema, partitions = self._computed_first(given)
        made = zip(colsMap[0], (bind(node, schema) for node in nodes), strict=True)
        named = {name.lower(): Bound(name, bound.type, bound.nullable, bound.value) for name, bound in made}
        kept = [
            named.pop(name.lower()) if name.lower() in named else bind(field, schema)
            for name, field in zip(self._schema.names, expand(node_of("*"), self._schema), strict=True)
        ]
        return self._computed([*kept, *named.values()], partitions)

    def withColumnRenamed(self, existing: str, new: str) -> "Rows":
        """Rename a column, if it exists."""
        return self.withColumnsRenamed({existing: new})

    def withColumnsRenamed(self, colsMap: dict[str, str]) -> "Rows":
        """Rename columns, ignoring missing ones."""
        new_names = {old.lower(): new for old, new in colsMap.items()}
        return self.toDF(*(new_names.get(name.lower(), name) for name in self._schema.names))

    def toDF(self, *cols: str) -> "Rows":
        """Rename all columns."""
        if len(cols) != len(self._schema.fields):
            raise AnalysisException(
                message=f"[NUM_COLUMNS_MISMATCH] toDF() got {len(cols)} names for {len(self._schema.fields)} columns"
            )
        pairs = zip(cols, self._schema.fields, strict=True)
        return self._with(
            t.StructType([t.StructField(name, old.dataType, old.nullable) for name, old in pairs]),
            self._partitions,
        )

    def drop(self, *cols: Any) -> "Rows":
        """Drop columns, ignoring missing ones."""
        nodes, names = list(map(node_of, cols)), [name.lower() for name in self._schema.names]
        dropped = {str(node.args[0]).strip("`").lower() for node in nodes}
        for node in nodes:
            if node.name != "col":
                raise CannotFollowError("drop() with a computed column", node.place, "Name the column")
            if OF_A_FRAME in node.args and names.count(str(node.args[0]).lower()) > 1:
                self._bind(node)
        fields = expand(node_of("*"), self._schema)
        return self.select(*(field for field, name in zip(fields, names, strict=True) if name not in dropped))

    # Rows.

    def filter(self, condition: Any) -> "Rows":
        """Keep the rows for which a column is true."""
        node = (
            parse_expression(condition, users_place()) if isinstance(condition, str) else node_of(condition)
        )
        if any(windows_in(node)):
            raise AnalysisException(
                message="[WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE] A window function is in a condition"
            )
        (node,), schema, partitions = self._computed_first([node])
        test, width = bind(node, schema), len(self._schema.fields)
        if not isinstance(test.type, (t.BooleanType, t.NullType)):
            raise AnalysisException(
                message=f"[DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN] {test.name} is {test.type.simpleString()}, not BOOLEAN"
            )
        kept = [tuple(row[:width] for row in part if test.value(row)) for part in partitions]
        return self._with(self._schema, kept)

    def where(self, condition: Any) -> "Rows":
        """Keep the rows for which a column is true."""
        return self.filter(condition)

    def limit(self, num: int) -> "Rows":
        """Keep the first rows."""
        return self._with(self._schema, [tuple(self._all()[:num])])

    def distinct(self) -> "Rows":
        """Drop duplicate rows."""
        return self.dropDuplicates()

    def dropDuplicates(self, subset: Sequence[str] | None = None) -> "Rows":
        """Keep one row for each value of some columns."""
        columns = [f"`{name}`" for name in subset] if subset else expand(node_of("*"), self._schema)
        keys = [self._bind(column).value for column in columns]
        kept = {tuple(hashable(key(row)) for key in keys): row for row in reversed(self._all())}
        return self._with(self._schema, [tuple(reversed(kept.values()))])

    drop_duplicates = dropDuplicates

    def dropna(self, how: str = "any", thresh: int | None = None, subset: Any = None) -> "Rows":
        """Drop rows with nulls."""
        names = [subset] if isinstance(subset, str) else (subset or self._schema.names)
        needed = thresh if thresh is not None else len(names) if how == "any" else 1
        values = [self._bind(f"`{name}`").value for name in names]

        def kept(row: tuple[Any, ...]) -> bool:
            return sum(value(row) is not None for value in values) >= needed

        return self._with(self._schema, [tuple(filter(kept, part)) for part in self._partitions])

    def fillna(self, value: Any, subset: Any = None) -> "Rows":
        """Replace nulls, and NaN, in the columns of the value's sort."""
        if not isinstance(value, (bool, int, float, str, dict)):
            given = {
                "expected_type": "bool, dict, float, int or str",
                "arg_name": "value",
                "arg_type": type(value).__name__,
            }
            raise PySparkTypeError(errorClass="NOT_EXPECTED_TYPE", messageParameters=given)
        place, names = users_place(), [subset] if isinstance(subset, str) else subset
        values: dict[str, Any] = value if isinstance(value, dict) else {}
        if not isinstance(value, dict):
            sort = (
                t.BooleanType
                if isinstance(value, bool)
                else t.StringType
                if isinstance(value, str)
                else t.NumericType
            )
            chosen = {
                self._bind(f"`{name}`").name.lower()
                for name in (self._schema.names if names is None else names)
            }
            values = {
                field.name: value
                for field in self._schema.fields
                if isinstance(field.dataType, sort) and field.name.lower() in chosen
            }
        return self.withColumns({name: self._filled(name, by, place) for name, by in values.items()})

    def _filled(self, name: str, value: Any, place: str) -> Recorded:
        node = Recorded("col", (f"`{name}`",), place)
        kind = self._bind(node).type
        instead = Recorded("cast", (Recorded("lit", (value,), place), kind), place)
        if isinstance(kind, (t.DoubleType, t.FloatType)):
            nothing = Recorded("lit", (None,), place)
            node = Recorded(
                "otherwise",
                (Recorded("when", (Recorded("isnan", (node,), place), nothing), place), node),
                place,
            )
        return Recorded("coalesce", ([node, instead],), place)

    @property
    def na(self) -> DataFrameNaFunctions:
        """Its functions for nulls."""
        return DataFrameNaFunctions(self)

    @property
    def stat(self) -> DataFrameStatFunctions:
        """Its statistics."""
        return DataFrameStatFunctions(self)

    def union(self, other: "Rows") -> "Rows":
        """Append the rows of another frame, matching columns by position."""
        place = users_place()
        if len(other._schema.fields) != len(self._schema.fields):
            raise AnalysisException(
                message="[NUM_COLUMNS_MISMATCH] UNION needs frames with the same number of columns"
            )
        for one, two in zip(self._schema.fields, other._schema.fields, strict=True):
            if one.dataType != two.dataType and one.dataType.simpleString() != two.dataType.simpleString():
                types = f"{one.dataType.simpleString()} and {two.dataType.simpleString()}"
                remedy = f"Cast the column {one.name!r} of both frames to one type before"
                raise CannotFollowError(f"union() of columns of types {types}", place, remedy)
        return self._with(self._schema, (*self._partitions, *other._partitions))

    unionAll = union

    def unionByName(self, other: "Rows", allowMissingColumns: bool = False) -> "Rows":
        """Append the rows of another frame, matching columns by name; add nulls for what one of them lacks, if allowed."""
        one = self
        if allowMissingColumns:
            one, other = self._with_columns_of(other), other._with_columns_of(self)
        if len(other._schema.fields) != len(one._schema.fields):
            return one.union(other)
        return one.union(other.select(*(f"`{name}`" for name in one._schema.names)))

    def _with_columns_of(self, other: "Rows") -> "Rows":
        place, known = users_place(), {name.lower() for name in self._schema.names}
        nothing = Recorded("lit", (None,), place)
        lacking = [field for field in other._schema.fields if field.name.lower() not in known]
        return self.withColumns(
            {field.name: Recorded("cast", (nothing, field.dataType), place) for field in lacking}
        )

    def join(self, other: Any, on: Any = None, how: str | None = None) -> "Rows":
        """Join another frame, by names of columns or a condition."""
        kind, place = kind_of_join(how or "inner"), users_place()
        if not isinstance(other, Rows):
            raise CannotFollowError(
                "a join with a stream", place, "Let the stream come first: stream.join(frame, 'id')"
            )
        given = [on] if isinstance(on, (str, Column)) else on
        names: Any = given
        if given and isinstance(given[0], Column):
            names = reduce(lambda one, two: Recorded("and", (one, two), place), map(node_of, given))
        sides = (self._schema, self._all()), (other._schema, other._all())
        schema, rows = joined(*sides, kind, names, place)
        return self._with(schema, [tuple(rows)])

    def crossJoin(self, other: Any) -> "Rows":
        """Pair each row with each of another frame."""
        return self.join(other)

    def hint(self, name: str, *parameters: Any) -> "Rows":
        """Do nothing: a hint changes how fast a join is."""
        return self

    def orderBy(self, *cols: Any, ascending: Any = True) -> "Rows":
        """Sort the rows: nulls first, or last if descending."""
        columns = list(_flat(cols))
        directions = ascending if isinstance(ascending, list) else [ascending] * len(columns)
        nodes = [
            node
            if node.name.startswith(("asc", "desc"))
            else Recorded("asc" if upwards else "desc", (node,), node.place)
            for node, upwards in zip(map(node_of, columns), directions, strict=True)
        ]
        rows = self._all()
        order = places_in_order(rows, nodes, self._schema)
        return self._with(self._schema, [tuple(rows[place] for place in order)])

    sort = orderBy

    def coalesce(self, numPartitions: int) -> "Rows":
        """Merge the rows into fewer partitions."""
        return self.repartition(min(numPartitions, len(self._partitions)))

    def repartition(self, numPartitions: Any, *_cols: Any) -> "Rows":
        """Distribute the rows over this many partitions."""
        if not isinstance(numPartitions, int):
            return self
        rows = self._all()
        return self._with(self._schema, [tuple(rows[start::numPartitions]) for start in range(numPartitions)])

    def persist(self, *_level: Any) -> "Rows":
        """Do nothing: the rows are in memory."""
        return self

    cache = persist

    def unpersist(self, blocking: bool = False) -> "Rows":
        """Change nothing."""
        return self

    def alias(self, alias: str) -> "Rows":
        """Name the frame, for columns such as ``F.col("alias.name")``."""
        fields = [
            t.StructField(old.name, old.dataType, old.nullable, {ALIAS: alias}) for old in self._schema.fields
        ]
        return self._with(t.StructType(fields), self._partitions)

    def transform(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the function with this frame."""
        return func(self, *args, **kwargs)

    # Groups.

    def groupBy(self, *cols: Any) -> "Groups":
        """Group the rows by columns."""
        return Groups(self, [node_of(column) for column in _flat(cols)])

    groupby = groupBy

    def agg(self, *exprs: Any) -> "Rows":
        """Aggregate all rows."""
        return self.groupBy().agg(*exprs)

    # Actions

    def collect(self) -> list[Any]:
        """Return the rows."""
        return [self._row(row) for row in self._all()]

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Any]:
        """Return the rows, one by one."""
        return iter(self.collect())

    def count(self) -> int:
        """Return the number of rows."""
        return len(self._all())

    def isEmpty(self) -> bool:
        """Return whether it has no rows."""
        return not self._all()

    def take(self, num: int) -> list[Any]:
        """Return the first rows."""
        return self.collect()[:num]

    def head(self, n: int | None = None) -> Any:
        """Return the first row, or None; or the first rows."""
        return next(iter(self.collect()), None) if n is None else self.take(n)

    def first(self) -> Any:
        """Return the first row, or None."""
        return self.head()

    def toPandas(self) -> Any:
        """Return the rows as a pandas DataFrame with Spark's types."""
        import pandas  # noqa: ICN001, PLC0415 # it takes a second to load, and few sinks need it
        from pyspark.sql.pandas.types import _create_converter_to_pandas, _get_local_timezone  # noqa: PLC0415

        frame = pandas.DataFrame.from_records(self._all(), columns=self._schema.names)
        for name, field in zip(self._schema.names, self._schema.fields, strict=True):
            convert = _create_converter_to_pandas(
                field.dataType,
                field.nullable,
                timezone=_get_local_timezone(),
                struct_in_pandas="row",
                timestamp_utc_localized=False,
            )
            frame[name] = convert(frame[name])
        return frame

    def foreach(self, f: Callable[[Any], None]) -> None:
        """Call a function for each row, in another process in Spark: here, with a copy of it for each partition."""

        def each(rows: Iterator[Any]) -> None:
            for row in rows:
                f(row)

        self.foreachPartition(each)

    def foreachPartition(self, f: Callable[[Iterator[Any]], None]) -> None:
        """Call a function with the rows of each partition; with a pickled copy of it, as it travels in Spark."""
        for partition in self._partitions:
            travelled = cloudpickle.loads(cloudpickle.dumps(f))
            travelled(map(self._row, partition))


class Groups(GroupedData):
    """The rows of a frame, grouped by columns."""

    def __init__(self, frame: Rows, keys: list[Recorded]) -> None:
        self._frame = frame
        self._keys = keys

    def agg(self, *exprs: Any) -> Rows:
        """Aggregate each group."""
        if exprs and isinstance(exprs[0], dict):
            nodes = [
                Recorded(name, (Recorded("col", (column,), users_place()),), users_place())
                for column, name in exprs[0].items()
            ]
        else:
            nodes = [node_of(column) for column in exprs]
        given, schema, partitions = self._frame._computed_first(self._keys)
        keys = [bind(node, schema) for node in given]
        columns = [bind(node, schema, [key.name for key in keys]) for node in nodes]
        groups: dict[Any, list[tuple[Any, ...]]] = {} if keys else {(): []}
        for row in chain.from_iterable(partitions):
            groups.setdefault(tuple(hashable(key.value(row)) for key in keys), []).append(row)
        made = t.StructType(
            [t.StructField(bound.name, bound.type, bound.nullable) for bound in (*keys, *columns)]
        )
        rows = [
            (*(key.value(group[0]) for key in keys), *(column.value(group) for column in columns))
            for group in groups.values()
        ]
        return self._frame._with(made, [tuple(rows)])

    def count(self) -> Rows:
        """Count the rows of each group."""
        place = users_place()
        return self.agg(
            column_of(
                Recorded("as", (Recorded("count", (Recorded("lit", (1,), place),), place), "count"), place)
            )
        )

    def _each(self, function: str, columns: tuple[str, ...]) -> Rows:
        place = users_place()
        return self.agg(
            *(column_of(Recorded(function, (Recorded("col", (name,), place),), place)) for name in columns)
        )

    def sum(self, *cols: str) -> Rows:
        """Sum columns of each group."""
        return self._each("sum", cols)

    def avg(self, *cols: str) -> Rows:
        """Average columns of each group."""
        return self._each("avg", cols)

    mean = avg

    def min(self, *cols: str) -> Rows:
        """Return the least value of columns in each group."""
        return self._each("min", cols)

    def max(self, *cols: str) -> Rows:
        """Return the greatest value of columns in each group."""
        return self._each("max", cols)


def _flat(columns: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(columns[0]) if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns


_REMEDY = "Compute it in Python from collect() instead, or move it behind a function that the check can call with plain rows"
refuse_the_rest(Rows, DataFrame, _REMEDY)
refuse_the_rest(Groups, GroupedData, _REMEDY)
