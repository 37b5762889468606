"""Columns of a Connect plan as `Recorded` trees, which the evaluator binds.

The evaluator takes functions as Java's ``functions`` declares them: some arguments are plain values, some are lists. A field of
the protocol that is set and not read here is refused.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyspark.sql.connect.proto as pb
from google.protobuf.message import Message
from pyspark.sql import types as t
from pyspark.sql.connect.expressions import LiteralExpression
from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type
from pyspark.sql.udf import UserDefinedFunction

from headrace_sim.spark.columns.ddl import parse_type
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.recorded import (
    LAMBDA,
    LAMBDA_VARIABLE,
    NAMED_ARGUMENT,
    OF_A_FRAME,
    USER_FUNCTION,
    Recorded,
    WindowSpec,
)
from headrace_sim.spark.columns.sql_text import parse_expression
from headrace_sim.spark.refusals import CannotFollowError

_REMEDY = "Compute it in another way, or in Python"


@dataclass(slots=True)
class Reading:
    """What columns are read with."""

    place: str  # ``file:line`` of the user's code, for columns that do not know theirs
    # the user's functions that have a name in the session (``udf.register``)
    functions: dict[str, UserDefinedFunction] = field(default_factory=dict)

    def __call__(self, expression: pb.Expression) -> Recorded:
        """Return a column as a tree of calls. Raise `CannotFollowError` if it has a part that is not simulated."""
        kind = expression.WhichOneof("expr_type")
        read = _KINDS.get(kind or "")
        at = self._place(expression)
        if read is None:
            raise CannotFollowError(f"a column of the kind {kind!r}", at, _REMEDY)
        message = getattr(expression, kind or "")
        refuse_unread(message, _FIELDS.get(kind or "", _ALL), at)
        return read(self, message, at)

    def _place(self, expression: pb.Expression) -> str:
        common = getattr(expression, "common", None)
        site = (
            common.origin.python_origin.call_site if common is not None and hasattr(common, "origin") else ""
        )
        return site or self.place

    def _attribute(self, name: Any, at: str) -> Recorded:
        # PySpark's client names the frame that a column was taken from.
        return Recorded(
            "col", (name.unparsed_identifier, *([OF_A_FRAME] if name.HasField("plan_id") else [])), at
        )

    def _star(self, star: Any, at: str) -> Recorded:
        return Recorded("col", (star.unparsed_target or "*",), at)

    def _text(self, message: Any, at: str) -> Recorded:
        node: Recorded = self.named_functions(parse_expression(message.expression, at))
        return node

    def named_functions(self, node: Any) -> Any:
        """Replace calls of the session's own functions, which SQL text calls by name."""
        if isinstance(node, list | tuple):
            return type(node)(self.named_functions(part) for part in node)
        if not isinstance(node, Recorded) or not self.functions:
            return node
        arguments = tuple(self.named_functions(part) for part in node.args)
        known = self.functions.get(node.name.lower())
        if known is not None:
            return Recorded(USER_FUNCTION, (known, list(arguments)), node.place)
        return Recorded(node.name, arguments, node.place)

    def _alias(self, alias: Any, at: str) -> Recorded:
        names = list(alias.name)
        return Recorded("as", (self(alias.expr), names[0] if len(names) == 1 else names), at)

    def _cast(self, cast: Any, at: str) -> Recorded:
        kind = cast.type_str or kind_of(cast.type)
        mode = {0: "cast", 1: "cast", 2: "cast", 3: "try_cast"}[getattr(cast, "eval_mode", 0)]
        return Recorded(mode, (self(cast.expr), kind), at)

    def order(self, order: Any, at: str = "") -> Recorded:
        """Return a column to sort by."""
        upwards = order.direction == order.SORT_DIRECTION_ASCENDING
        usual = order.SORT_NULLS_FIRST if upwards else order.SORT_NULLS_LAST
        name = "asc" if upwards else "desc"
        if order.null_ordering not in {0, usual}:
            name += "_nulls_last" if upwards else "_nulls_first"
        return Recorded(name, (self(order.child),), at or self.place)

    def _item(self, extract: Any, at: str) -> Recorded:
        key = self(extract.extraction)
        return Recorded("apply", (self(extract.child), key.args[0] if key.name == "lit" else key), at)

    def _named(self, argument: Any, at: str) -> Recorded:
        return Recorded(NAMED_ARGUMENT, (argument.key, self(argument.value)), at)

    def _updated(self, update: Any, at: str) -> Recorded:
        inner = self(update.struct_expression)
        if not update.HasField("value_expression"):
            return Recorded("dropFields", (inner, update.field_name), at)
        return Recorded("withField", (inner, update.field_name, self(update.value_expression)), at)

    def _lambda(self, message: Any, at: str) -> Recorded:
        return Recorded(
            LAMBDA, (self(message.function), [self._variable(name, at) for name in message.arguments]), at
        )

    def _variable(self, variable: Any, at: str) -> Recorded:
        return Recorded(LAMBDA_VARIABLE, (".".join(variable.name_parts),), at)

    def _window(self, window: Any, at: str) -> Recorded:
        refuse_unread(window.frame_spec, {"frame_type", "lower", "upper"}, at)
        order = tuple(self.order(order, at) for order in window.order_spec)
        spec = WindowSpec(tuple(map(self, window.partition_spec)), order, _frame(window))
        return Recorded("over", (self(window.window_function), spec), at)

    def _users(self, call: Any, at: str) -> Recorded:
        if call.WhichOneof("function") != "python_udf":
            raise CannotFollowError(f"{call.function_name}(), a function in Java or Scala,", at, _REMEDY)
        return Recorded(USER_FUNCTION, (user_function(call), list(map(self, call.arguments))), at)

    def _function(self, call: Any, at: str) -> Recorded:
        name, arguments = call.function_name, list(map(self, call.arguments))
        if (known := self.functions.get(name.lower())) is not None:
            return Recorded(USER_FUNCTION, (known, arguments), at)
        name = _NAMES.get(name, name)
        if getattr(call, "is_distinct", False):
            if name not in {"count", "sum"}:
                raise CannotFollowError(f"{name}(DISTINCT ...)", at, _REMEDY)
            rest = [arguments[1:]] if name == "count" else []
            return Recorded(f"{name}_distinct", (arguments[0], *rest), at)
        take = _ARGUMENTS.get(name)
        return Recorded(name, tuple(arguments), at) if take is None else take(name, arguments, at)


def kind_of(message: Any) -> t.DataType:
    """Return a type of the protocol, which may be a text that the user wrote."""
    if message.WhichOneof("kind") == "unparsed":
        return parse_type(message.unparsed.data_type_string)
    return proto_schema_to_pyspark_data_type(message)


def user_function(call: Any) -> UserDefinedFunction:
    """Return the function in Python that a plan calls."""
    function, _ = object_of(call.python_udf.command)
    kind = kind_of(call.python_udf.output_type)
    return UserDefinedFunction(
        function, kind, call.function_name, call.python_udf.eval_type, call.deterministic
    )


def literal_of(message: Any) -> Any:
    """Return the value of a literal."""
    value: Any = LiteralExpression._to_value(message)
    kind = message.WhichOneof("literal_type")
    if kind == "timestamp" and not isinstance(value, dt.datetime):
        return t.TimestampType().fromInternal(message.timestamp)
    if kind == "date" and not isinstance(value, dt.date):
        return t.DateType().fromInternal(message.date)
    return value


def _literal(_reading: Reading, message: Any, at: str) -> Recorded:
    return Recorded("lit", (literal_of(message),), at)


def _frame(window: Any) -> tuple[str, int | None, int | None] | None:
    if not window.HasField("frame_spec"):
        return None
    spec = window.frame_spec

    def edge(boundary: Any) -> int | None:
        if boundary.unbounded:
            return None
        return 0 if boundary.current_row else int(literal_of(boundary.value.literal))

    return "rows" if spec.frame_type == spec.FRAME_TYPE_ROW else "range", edge(spec.lower), edge(spec.upper)


def refuse_unread(message: Message, read: frozenset[str] | set[str], place: str) -> None:
    """Refuse what a message says and is not read here.

    Raise `CannotFollowError` if it says something else than the fields that are read.
    """
    if read is _ALL:
        return
    for described, value in message.ListFields():
        if described.name not in read and value is not False:
            raise CannotFollowError(f"{described.name} of {message.DESCRIPTOR.name}", place, _REMEDY)


def messages_in(message: Message) -> Iterator[Message]:
    """Yield a message of a plan, and all within it."""
    yield message
    for described, value in message.ListFields():
        if described.message_type is not None:
            for part in value if isinstance(value, Sequence) or described.is_repeated else (value,):
                if isinstance(part, Message):
                    yield from messages_in(part)


def expressions_in(message: Message) -> Iterator[pb.Expression]:
    """Yield the columns of a relation, but not those of its inputs."""
    for described, value in message.ListFields():
        if described.message_type is None:
            continue
        for part in value if described.is_repeated and not isinstance(value, Message) else [value]:
            if isinstance(part, pb.Expression):
                yield part
            elif isinstance(part, Message) and not isinstance(part, pb.Relation):
                yield from expressions_in(part)


_ALL: frozenset[str] = frozenset({"*"})
_FIELDS = {
    "alias": frozenset({"expr", "name"}),
    "common_inline_user_defined_function": frozenset({"function_name", "deterministic", "arguments", "python_udf"}),
    "unresolved_attribute": frozenset({"unparsed_identifier", "plan_id"}),
    "unresolved_function": frozenset({"function_name", "arguments", "is_distinct", "is_user_defined_function"}),
    "unresolved_star": frozenset({"unparsed_target", "plan_id"}),
    "window": frozenset({"window_function", "partition_spec", "order_spec", "frame_spec"}),
}  # fmt: skip
"""The fields that are read of kinds of columns that have further ones."""
_KINDS: dict[str, Callable[[Reading, Any, str], Recorded]] = {
    "alias": Reading._alias, "call_function": Reading._function, "cast": Reading._cast,
    "common_inline_user_defined_function": Reading._users, "expression_string": Reading._text,
    "lambda_function": Reading._lambda, "literal": _literal, "named_argument_expression": Reading._named,
    "sort_order": Reading.order, "unresolved_attribute": Reading._attribute, "unresolved_extract_value": Reading._item,
    "unresolved_function": Reading._function, "unresolved_named_lambda_variable": Reading._variable,
    "unresolved_star": Reading._star, "update_fields": Reading._updated, "window": Reading._window,
}  # fmt: skip
_NAMES = {
    "!=": "notEqual", "%": "mod", "*": "multiply", "+": "plus", "-": "minus", "/": "divide", "<": "lt", "<=": "leq",
    "<=>": "eqNullSafe", "==": "equalTo", ">": "gt", ">=": "geq", "ceiling": "ceil", "day": "dayofmonth", "endswith": "endsWith",
    "isNull": "isNull", "isNotNull": "isNotNull", "ln": "log", "negative": "negate", "power": "pow", "sha": "sha1",
    "startswith": "startsWith",
}  # fmt: skip
"""The names that the evaluator has for functions, where it has another one than the protocol."""


def _plain_behind(name: str, arguments: list[Recorded], at: str) -> Recorded:
    """Return a call whose arguments but the first are plain values, if they are literals."""
    return Recorded(name, (arguments[0], *map(_plain, arguments[1:])), at)


def _neighbour(name: str, arguments: list[Recorded], at: str) -> Recorded:
    """Return a call of ``lag`` or ``lead``, whose offset and default are plain values."""
    plain = [*map(_plain, arguments[1:]), *[1, None][len(arguments) - 1 :]]
    return Recorded(name, (arguments[0], *plain), at)


def _plain(node: Recorded) -> Any:
    return node.args[0] if node.name == "lit" else node


def _case(_name: str, arguments: list[Recorded], at: str) -> Recorded:
    node, rest = Recorded("when", tuple(arguments[:2]), at), arguments[2:]
    while len(rest) > 1:
        node, rest = Recorded("when", (node, *rest[:2]), at), rest[2:]
    return Recorded("otherwise", (node, rest[0]), at) if rest else node


_ARGUMENTS: dict[str, Callable[[str, list[Recorded], str], Recorded]] = {
    "concat_ws": lambda name, arguments, at: Recorded(name, (_plain(arguments[0]), arguments[1:]), at),
    "in": lambda _name, arguments, at: Recorded("isin", (arguments[0], arguments[1:]), at),
    "lag": _neighbour,
    "lead": _neighbour,
    "when": _case,
    **dict.fromkeys(
        ("array", "coalesce", "concat", "greatest", "least", "map", "struct"),
        lambda name, arguments, at: Recorded(name, (arguments,), at),
    ),
    **dict.fromkeys(("rand", "randn"), lambda name, arguments, at: Recorded(name, tuple(map(_plain, arguments)), at)),
    **dict.fromkeys(
        (
            "date_add", "date_format", "date_sub", "date_trunc", "from_json", "get_json_object", "instr", "like",
            "lpad", "regexp_extract", "regexp_replace", "repeat", "rlike", "round", "rpad", "sha2", "sort_array", "split",
            "substring", "to_date", "to_json", "to_timestamp", "trunc", "window",
        ),
        _plain_behind,
    ),
}  # fmt: skip
"""How the evaluator takes the arguments of a function, where it does not take each as a column."""


_PREFIX = b"headrace object "
_OBJECTS: list[Any] = []


def handle(value: Any) -> bytes:
    """Return the bytes that stand for an object in this process and its forks, which PySpark's client would pickle."""
    _OBJECTS.append(value)
    return _PREFIX + str(len(_OBJECTS) - 1).encode()


def object_of(handle_bytes: bytes) -> Any:
    """Return the object that some bytes stand for. Raise `KeyError` if they stand for none."""
    if not handle_bytes.startswith(_PREFIX):
        raise KeyError(handle_bytes)
    return _OBJECTS[int(handle_bytes.removeprefix(_PREFIX))]


_MARK = "\0"


def marked(condition: pb.Expression, sides: Sequence[pb.Relation]) -> pb.Expression:
    """Return a condition in which columns that are taken from one of two frames say of which. ``sides``: both relations.

    PySpark's client names the frame by its plan id, as in `left.id == right.id`. `placed` finds the columns by place.
    """
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
