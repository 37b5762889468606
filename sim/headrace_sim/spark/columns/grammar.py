"""Spark's grammar of SQL, as sqlglot parses it: its trees alone, never its types or its optimizer.

Where sqlglot reads more, or something else, than Spark does, the text is refused: see `tree_of`.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.databricks import DatabricksParser
from sqlglot.tokenizer_core import Token, TokenType

from headrace_sim.spark.columns.in_force import ESCAPES, is_on

_SYNTACTIC = ("CAST", "EXTRACT", "POSITION", "TRIM", "TRY_CAST")
"""Functions with a syntax of their own. Others are calls with arguments, which stay as they are written."""
IS_NOT, TYPED_LITERAL = "is not", "typed literal"
"""What the metadata have of a negation that was not written in front, and of a cast that was written ``DATE '2024-01-02'``."""
_NOT_PARSED = "it is not SQL that can be parsed here"


class SparkSql(Databricks):
    """Databricks' grammar, whose function calls stay as they are written: sqlglot would rename and rewrite them."""

    class Tokenizer(Databricks.Tokenizer):
        """Leaves ``1L`` one word, since a cast of 1 would be named otherwise, and ``'it''s'`` one text."""

        NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]

    class Parser(DatabricksParser):
        """Parses no function into a class of its own, and ``||`` as tightly as ``+``."""

        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: DatabricksParser.FUNCTION_PARSERS[name] for name in _SYNTACTIC
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: DatabricksParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE")
        }
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}  # `array(1, 2)[0]` is a call, not an array with a 0
        TYPE_LITERAL_PARSERS: ClassVar[dict[Any, Callable[..., Any]]] = {
            kind: lambda _parser, text, kind: _typed_literal(text, kind)
            for kind in (exp.DType.DATE, exp.DType.TIMESTAMPTZ)
        }
        TERM: ClassVar[dict[TokenType, Any]] = {**DatabricksParser.TERM, TokenType.DPIPE: exp.DPipe}

        def _parse_is(self, this: Any) -> Any:
            """Tell ``x IS NOT NULL`` from ``NOT x IS NULL``."""
            tree = super()._parse_is(this)
            if isinstance(tree, exp.Not):
                tree.meta[IS_NOT] = True
            return tree

        def _warn_unsupported(self) -> None:
            """Say nothing: a command that is not understood is refused."""


def _typed_literal(text: exp.Expr, kind: exp.DataType) -> exp.Expr:
    """Tell ``DATE '2024-01-02'`` from a cast."""
    cast = exp.Cast(this=text, to=kind)
    cast.meta[TYPED_LITERAL] = True
    return cast


class SqlTextError(Exception):
    """A text that cannot be parsed, or would be parsed otherwise than by Spark. The message says where, or what."""


def tree_of(text: str) -> exp.Expr:
    """Return the tree of an expression or a statement.

    Raise `SqlTextError` if sqlglot cannot parse it, or would lose a part of it.
    """
    if "\\" in text and is_on(ESCAPES):
        raise SqlTextError(f"a backslash under {ESCAPES}")
    expr = _parsed(text)
    if isinstance(expr, str):
        raise SqlTextError(expr)
    return expr


@lru_cache(maxsize=1024)
def _parsed(text: str) -> exp.Expr | str:
    """Return the tree, or the problem."""
    try:
        tokens = SparkSql().tokenize(text)
        for place, token in enumerate(tokens):
            named = [behind.token_type for behind in tokens[place + 1 : place + 3]]
            if token.token_type is TokenType.WINDOW and named != [TokenType.VAR, TokenType.ALIAS]:
                token.token_type = TokenType.VAR  # the function, or a column, and not the clause
        trees = SparkSql().parser().parse(tokens, text)
    except ParseError as error:
        where = error.errors[0]
        return _at(f"{where['highlight']}{where['end_context']}")
    except SqlglotError:
        return _NOT_PARSED
    (tree, *more) = trees
    if tree is None or any(more):
        return "it is empty" if tree is None else "it holds several statements"
    return _lost(tokens, tree) or tree


def text_of(tree: exp.Expr) -> str:
    """Return a tree as text. Raise `SqlTextError` if the text would not mean the same."""
    text = shown_text(tree)
    if tree_of(text) != tree:
        raise SqlTextError(f"at {text!r}")
    return text


def shown_text(tree: exp.Expr) -> str:
    """Return a tree as text for messages."""
    return tree.sql(dialect=SparkSql, normalize_functions=False)


def refuse_unread(tree: exp.Expr, read: Iterable[str]) -> None:
    """Raise `SqlTextError` if anything is set in a tree but what is read."""
    if any(value not in (None, False, []) and name not in read for name, value in tree.args.items()):
        raise SqlTextError(f"at {shown_text(tree)!r}")


def _at(rest: str) -> str:
    return f"at {rest.strip()!r}" if rest.strip() else "at its end"


def _lost(tokens: list[Token], tree: exp.Expr) -> str:
    """Return what sqlglot has passed over: a missing argument, or a value."""
    kinds = [token.token_type for token in tokens]
    if any(pair in _GAPS for pair in pairwise(kinds)):
        return "an argument is missing"
    values = sum(kind in {TokenType.NUMBER, TokenType.STRING} for kind in kinds)
    return "" if values == len(list(tree.find_all(exp.Literal))) else _NOT_PARSED


_GAPS = {
    (TokenType.COMMA, TokenType.COMMA),
    (TokenType.COMMA, TokenType.R_PAREN),
    (TokenType.L_PAREN, TokenType.COMMA),
}
