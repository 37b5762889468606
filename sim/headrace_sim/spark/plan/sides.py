"""Columns in the condition of a join that were taken from one of the two frames: `left.id == right.id`.

PySpark's client names the frame by its plan id. The evaluator finds columns by name, so these are found here, by place.
"""

from collections.abc import Sequence
from typing import Any

import pyspark.sql.connect.proto as pb
from pyspark.sql import types as t

from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.plan.plan_expressions import messages_in

_MARK = "\0"


def marked(condition: pb.Expression, sides: Sequence[pb.Relation]) -> pb.Expression:
    """Return a condition in which columns that are taken from one of two frames say of which. ``sides``: both relations."""
    copied = pb.Expression()
    copied.CopyFrom(condition)
    plans = [
        {message.common.plan_id for message in messages_in(side) if isinstance(message, pb.Relation)}
        for side in sides
    ]
    for name in messages_in(copied):
        if not isinstance(name, pb.Expression.UnresolvedAttribute):
            continue
        matching = [str(number) for number, known in enumerate(plans) if name.plan_id in known]
        if name.HasField("plan_id") and len(matching) == 1:
            name.unparsed_identifier = _MARK.join(("", *matching, name.unparsed_identifier))
            name.ClearField("plan_id")
    return copied


def placed(node: Any, schemas: Sequence[t.StructType]) -> Any:
    """Return a condition whose marked columns are those at their places. ``schemas``: of both sides."""
    if isinstance(node, list | tuple):
        return type(node)(placed(part, schemas) for part in node)
    if not isinstance(node, Recorded):
        return node
    if node.name == "col" and str(node.args[0]).startswith(_MARK):
        _, side, name = str(node.args[0]).split(_MARK)
        schema = schemas[int(side)]
        place = bind(Recorded("col", (name,), node.place), schema).value(range(len(schema.fields)))
        before = len(schemas[0].fields) * int(side)
        return Recorded("field", (before + place, schema.names[place]), node.place)
    return Recorded(node.name, tuple(placed(part, schemas) for part in node.args), node.place)
