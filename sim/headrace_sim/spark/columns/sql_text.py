"""Expressions in SQL text, as ``filter("amount > 0")``, ``selectExpr()`` and ``F.expr()`` take them: as recorded columns.

An expression becomes the calls that would have made it with columns; whether those are simulated is for `expressions` to say.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Never

from pyspark.sql import types as t

from headrace_sim.spark.columns.ddl import SchemaTextError, parse_type
from headrace_sim.spark.columns.recorded import Recorded, WindowSpec, shown
from headrace_sim.spark.refusals import CannotFollowError

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?:bd|[ldfsy])?\b)
    |(?P<name>`(?:[^`]|``)+`|[a-z_]\w*)
    |(?P<mark>--|<=>|<>|!=|<=|>=|==|::|\|\||[-+*/%=<>()\[\],.]))""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_BINARY = {
    "or": (1, "or"), "and": (2, "and"), "=": (4, "equalTo"), "==": (4, "equalTo"), "<>": (4, "notEqual"), "!=": (4, "notEqual"),
    "<": (4, "lt"), "<=": (4, "leq"), ">": (4, "gt"), ">=": (4, "geq"), "<=>": (4, "eqNullSafe"), "+": (5, "plus"),
    "-": (5, "minus"), "||": (5, "concat"), "*": (6, "multiply"), "/": (6, "divide"), "%": (6, "mod"),
}  # fmt: skip
"""Operator to how tightly it binds, and the name of its call."""
_NOT, _PREDICATE, _UNARY = 3, 4, 7
_PREDICATES = frozenset({"is", "in", "between", "like", "rlike", "regexp", "not"})
_KEYWORDS = frozenset(
    {*_PREDICATES, "or", "and", "as", "when", "then", "else", "end", "over", "div", "escape", "from"}
)
_CONSTANTS = {"true": True, "false": False, "null": None}
_TYPES = frozenset(
    {
        "bigint",
        "binary",
        "boolean",
        "date",
        "double",
        "float",
        "int",
        "smallint",
        "string",
        "timestamp",
        "tinyint",
    }
)
_OF_MANY = frozenset({"array", "coalesce", "concat", "greatest", "least", "map", "struct"})
_JAVA_NAMES = {
    "ceiling": "ceil", "day": "dayofmonth", "endswith": "endsWith", "mean": "avg", "negative": "negate", "nvl": "coalesce",
    "ifnull": "coalesce", "power": "pow", "regexp": "rlike", "sha": "sha1", "startswith": "startsWith", "substr": "substring",
}  # fmt: skip
"""What is called otherwise in SQL than in Java."""
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_"}


def parse_expression(text: str, place: str) -> Recorded:
    """Return the column that an SQL text stands for. ``place``: of the user's code.

    Raises:
        CannotFollowError: It is not an expression, or has a form that is not simulated.

    """
    return _Parser(text, place).whole()


class _Parser:
    """Reads an expression by precedence."""

    def __init__(self, text: str, place: str) -> None:
        self._text = text
        self._place = place
        self._position = 0
        self._kind, self._word, self._end = "", "", 0
        self._look()

    def _look(self) -> None:
        """Look at the next token; there is none at the end."""
        found = _TOKEN.match(self._text, self._position)
        if found is None and self._text[self._position :].strip():
            self._fail()
        self._kind = (found and found.lastgroup) or ""
        self._word, self._end = (found[self._kind], found.end()) if found else ("", len(self._text))

    def _fail(self) -> Never:
        rest = self._text[self._position :].strip()
        where = f", at {rest!r}" if rest else ", at its end"
        what = f"the SQL text {self._text!r}{where}"
        raise CannotFollowError(what, self._place, "Write it with columns, such as F.col('x') > 0")

    def _next(self) -> str:
        token = self._word
        self._position = self._end
        self._look()
        return token

    def _take(self, *wanted: str) -> bool:
        """Skip these tokens if they come next, and return whether they did."""
        before = self._position
        for token in wanted:
            if self._kind == "text" or self._word.lower() != token:
                self._position = before
                self._look()
                return False
            self._next()
        return True

    def _expect(self, wanted: str) -> None:
        if not self._take(wanted):
            self._fail()

    def _called(self, name: str, *args: Any) -> Recorded:
        return Recorded(name, args, self._place)

    def whole(self) -> Recorded:
        node = self._named()
        if self._word:
            self._fail()
        return node if isinstance(node, Recorded) else self._called("lit", node)

    def _named(self) -> Any:
        node = self._expression()
        if self._take("as") or (self._kind == "name" and self._word.lower() not in _KEYWORDS):
            return self._called("as", node, self._name())
        return node

    def _quoted_name(self) -> str:
        if self._kind != "name":
            self._fail()
        return self._next()

    def _name(self) -> str:
        return self._quoted_name().strip("`").replace("``", "`")

    def _expression(self, tightness: int = 0) -> Any:
        """Read operators that bind more tightly than this."""
        if tightness < _NOT and self._take("not"):
            node: Any = self._called("not", self._expression(_NOT - 1))
        else:
            node = self._operand()
        tested = False
        while True:
            operator = self._word.lower() if self._kind in {"mark", "name"} else ""
            level, call = _BINARY.get(operator, (0, ""))
            if tested and (operator in _PREDICATES or level >= _PREDICATE):
                self._fail()
            if tightness < _PREDICATE and operator in _PREDICATES:
                node, tested = self._predicate(node), True
                continue
            if level <= tightness:
                return node
            tested = False
            self._next()
            right = self._expression(level)
            node = self._called(call, [node, right]) if call == "concat" else self._called(call, node, right)

    def _predicate(self, node: Any) -> Recorded:
        if self._take("is"):
            negated = self._take("not")
            self._expect("null")
            return self._called("isNotNull" if negated else "isNull", node)
        negated = self._take("not")
        if self._take("in"):
            self._expect("(")
            found = self._called("isin", node, self._arguments())
        elif self._take("between"):
            low = self._called("geq", node, self._expression(_PREDICATE))
            self._expect("and")
            found = self._called("and", low, self._called("leq", node, self._expression(_PREDICATE)))
        elif self._word.lower() in {"like", "rlike", "regexp"}:
            name = self._next().lower()
            found = self._called(_JAVA_NAMES.get(name, name), node, self._expression(_PREDICATE))
        else:
            self._fail()
        return self._called("not", found) if negated else found

    def _operand(self) -> Any:
        if self._take("-"):
            node = self._expression(_UNARY - 1)
            return self._called("negate", node) if isinstance(node, Recorded) else -node
        if self._take("+"):
            return self._expression(_UNARY - 1)
        node = self._primary()
        while True:
            if self._take("["):
                node = self._called("apply", node, self._expression())
                self._expect("]")
            elif self._take("."):
                node = self._called("apply", node, self._name())
            elif self._take("::"):
                node = self._cast(node, self._next())
            else:
                return node

    def _primary(self) -> Any:
        if self._kind == "text":
            return self._literal_text()
        if self._kind == "number":
            return self._number()
        if self._take("*"):
            return self._called("col", "*")
        if self._take("("):
            node = self._expression()
            self._expect(")")
            return node
        word = self._word.lower()
        if self._kind != "name" or word in _KEYWORDS or word == "interval":
            self._fail()
        if word in _CONSTANTS:
            self._next()
            return _CONSTANTS[word]
        if self._take("case"):
            return self._case()
        return self._column_or_call()

    def _column_or_call(self) -> Any:
        first = self._next()
        if self._take("("):
            return self._call(first.lower())
        if self._kind == "text" and first.lower() in {"date", "timestamp"}:
            return self._cast(self._literal_text(), first)
        if first.lower() in {"current_date", "current_timestamp"}:
            return self._called(first.lower())
        parts = [first]
        while self._take("."):
            parts.append("*" if self._take("*") else self._quoted_name())
        return self._called("col", ".".join(parts))

    def _call(self, name: str) -> Any:
        if name == "cast":
            node = self._expression()
            self._expect("as")
            return self._cast(node, self._type_text())
        if self._take("distinct"):
            self._fail()
        given = self._arguments()
        name = _JAVA_NAMES.get(name, name)
        if name in _TYPES and len(given) == 1:
            return self._cast(given[0], name)
        if name == "if" and len(given) == 3:
            condition = self._cast(None, "boolean") if given[0] is None else given[0]
            made = self._called("otherwise", self._called("when", condition, given[1]), given[2])
            shown_as = f"(IF({', '.join(map(shown, given))}))"
            return self._called("as", made, shown_as)
        if name == "named_struct" and len(given) % 2 == 0:
            parts = zip(given[1::2], given[::2], strict=True)
            return self._called("struct", [self._called("as", node, label) for node, label in parts])
        if name == "substring" and len(given) == 2:
            given.append((1 << 31) - 1)
        if name in _OF_MANY:
            return self._called(name, given)
        made = self._called(name, given[0], given[1:]) if name == "concat_ws" else self._called(name, *given)
        return self._called("over", made, self._window()) if self._take("over") else made

    def _window(self) -> WindowSpec:
        self._expect("(")
        partition = self._listed(self._expression) if self._take("partition", "by") else []
        order = self._listed(self._ordered) if self._take("order", "by") else []
        found = WindowSpec(tuple(partition), tuple(order))
        unit = self._word.lower()
        if unit in {"rows", "range"}:
            self._next()
            self._expect("between")
            start = self._limit()
            self._expect("and")
            found = replace(found, frame=(unit, start, self._limit()))
        self._expect(")")
        return found

    def _listed(self, read: Callable[[], Any]) -> list[Any]:
        found = [read()]
        while self._take(","):
            found.append(read())
        return found

    def _ordered(self) -> Recorded:
        node = self._expression()
        way = "desc" if self._take("desc") else "asc"
        self._take("asc")
        if self._take("nulls"):
            way += "_nulls_first" if self._take("first") else "_nulls_last"
            self._take("last")
        return self._called(way, node)

    def _limit(self) -> int | None:
        """Read an end of a frame, counted from the row at hand; None: there is none."""
        if self._take("unbounded", "preceding") or self._take("unbounded", "following"):
            return None
        if self._take("current", "row"):
            return 0
        number = self._number() if self._kind == "number" else None
        if not isinstance(number, int):
            self._fail()
        if self._take("preceding"):
            return -number
        self._expect("following")
        return number

    def _arguments(self) -> list[Any]:
        found: list[Any] = []
        while not self._take(")"):
            if found:
                self._expect(",")
            found.append(self._named())
        return found

    def _type_text(self) -> str:
        """Take the text up to the parenthesis that ends a cast."""
        begin, depth = self._position, 0
        while depth or self._word != ")":
            if not self._word:
                self._fail()
            depth += {"(": 1, ")": -1}.get(self._next(), 0)
        text = self._text[begin : self._position]
        self._next()
        return text

    def _cast(self, node: Any, type_text: str) -> Recorded:
        try:
            return self._called("cast", node, parse_type(type_text))
        except SchemaTextError:
            self._fail()

    def _case(self) -> Recorded:
        tested = None if self._word.lower() == "when" else [self._expression()]
        node: Recorded | None = None
        while self._take("when"):
            condition = self._expression()
            if tested is not None:
                condition = self._called("equalTo", tested[0], condition)
            self._expect("then")
            before = () if node is None else (node,)
            node = self._called("when", *before, condition, self._expression())
        if node is None:
            self._fail()
        if self._take("else"):
            node = self._called("otherwise", node, self._expression())
        self._expect("end")
        return node

    def _literal_text(self) -> str:
        inner = self._next()[1:-1]
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), inner, flags=re.DOTALL)

    def _number(self) -> Any:
        token = self._next().lower()
        digits = token.rstrip("bdlfsy")
        suffix = token[len(digits) :]
        if suffix in {"s", "y", "f"}:
            self._fail()
        if suffix == "d" or (not suffix and "e" in digits):
            return float(digits)
        if "." in digits or suffix == "bd" or int(digits) >= 1 << 63:
            return Decimal(digits)
        return self._called("lit", int(digits), t.LongType()) if suffix == "l" else int(digits)
