"""`spark.sql` in a session of this process: what PySpark's client sends, read; and what comes back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyspark.sql.connect.proto as pb
from sqlglot import exp

from headrace_sim.spark.columns.grammar import SqlTextError, tree_of
from headrace_sim.spark.plan.plan_expressions import literal_of
from headrace_sim.spark.plan.selects import Queries, View, alias_of, table_name
from headrace_sim.spark.plan.sql import Meaning, SqlText
from headrace_sim.spark.tables.row_changes import Affected
from headrace_sim.spark.tables.statements import Delete, Merge, Statement, Update


@dataclass(frozen=True, slots=True)
class SqlCommand:
    """A call of `spark.sql`."""

    query: pb.SQL  # the text with its parameters
    place: str
    # makes relations of queries; its views are those of the session, and the frames that the call was given
    queries: Queries

    def meaning(self) -> Meaning:
        """Return what it means. Raise `CannotFollowError` if it is no query and is not simulated."""
        # PySpark 3.5 knows literals alone, and calls them otherwise.
        named = {**self.query.args, **getattr(self.query, "named_arguments", {})}
        positional = [*self.query.pos_args, *getattr(self.query, "pos_arguments", ())]
        values = {name: _value(argument) for name, argument in named.items()}
        text = SqlText(self.query.query, self.place, values, list(map(_value, positional)))
        return text.meaning(self.queries, self._whole)

    def _whole(self) -> pb.Relation:
        """Return the query as it is, with the views that it names."""
        relation = pb.Relation(sql=self.query)
        if hasattr(pb, "WithRelations"):  # PySpark 3.5 lacks it
            relation = pb.Relation(with_relations=pb.WithRelations(root=relation))
            for name in _names_in(self.query.query):
                if (view := self.queries.view(name)) is not None:
                    alias = self.queries.make("subquery_alias", input=view, alias=name)
                    relation.with_relations.references.append(alias)
        relation.common.plan_id = self.queries.number()
        return relation

    def counts(self, numbers: Mapping[str, int]) -> pb.Relation:
        """Return a relation with a row of these numbers; without any, no row and no column."""
        if not numbers:
            return self.queries.make("local_relation")
        literals = [pb.Expression(literal=pb.Expression.Literal(long=number)) for number in numbers.values()]
        named = [alias_of(literal, name) for literal, name in zip(literals, numbers, strict=True)]
        return self.queries.project(None, named)


def sql_command(command: Any, queries: Queries, place: str) -> SqlCommand:
    """Return a call of `spark.sql` from the command that PySpark's client makes of it.

    ``queries``: makes relations of queries, with the views of the session.
    """
    if "input" not in command.DESCRIPTOR.fields_by_name:  # PySpark 3.5
        query = pb.SQL(query=command.sql, args=command.args, pos_args=command.pos_args)
        return SqlCommand(query, place, queries)
    relation = command.input
    if relation.WhichOneof("rel_type") != "with_relations":
        return SqlCommand(relation.sql, place, queries)
    references = [reference.subquery_alias for reference in relation.with_relations.references]
    own = {alias.alias.lower(): alias.input for alias in references}
    views = partial(_own, own, queries.view)
    return SqlCommand(relation.with_relations.root.sql, place, replace(queries, view=views))


def counts_of(change: Statement, affected: Affected) -> dict[str, int]:
    """Return what a change of a table answers with, as Delta Lake does."""
    whole = affected.updated + affected.deleted + affected.inserted
    parts = {"updated": affected.updated, "deleted": affected.deleted, "inserted": affected.inserted}
    parts = parts if isinstance(change, Merge) else {}
    counts = {f"num_{name}_rows": number for name, number in {"affected": whole, **parts}.items()}
    return counts if isinstance(change, Merge | Delete | Update) else {}


def _own(own: Mapping[str, pb.Relation], view: View, name: str) -> pb.Relation | None:
    return own.get(name.lower()) or view(name)


def _value(argument: Any) -> Any:
    """Return the value of a literal; of anything else, it."""
    literal = (
        argument.literal if isinstance(argument, pb.Expression) and argument.HasField("literal") else argument
    )
    return literal if isinstance(literal, pb.Expression) else literal_of(literal)


def _names_in(text: str) -> Sequence[str]:
    """Return the names of the tables in a text. One that cannot be parsed names none."""
    try:
        return list(dict.fromkeys(table_name(table) for table in tree_of(text).find_all(exp.Table)))
    except SqlTextError:
        return []
