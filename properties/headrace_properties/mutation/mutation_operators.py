"""The places of a module's source at which a small mistake can be made, and the source with one made.

Rules of this file:

* A mutation is a change of text, so that all other lines keep their numbers; where it is follows from the syntax tree.
* What is no behaviour is left alone: annotations, docstrings, assertions (as `assert_never`), messages of exceptions,
  f-strings, and functions that only check (`_SELF_CHECKS`), or calls of them (`check_...`).
* So is what is executed when the module is imported: what makes a pipeline. Functions, methods and lambdas are mutated.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

_FLIPPED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(), ast.LtE: ast.Lt(), ast.Gt: ast.GtE(), ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq(), ast.In: ast.NotIn(), ast.NotIn: ast.In(),
    ast.Is: ast.IsNot(), ast.IsNot: ast.Is(),
}  # fmt: skip
_EXTREMES = {"min": "max", "max": "min"}
_SELF_CHECKS = frozenset({"check_invariants", "__post_init__", "__repr__", "__str__"})
"""Functions that check arguments or state, or make messages: no run depends on them."""
_UNORDERED = frozenset({*_EXTREMES, "isinstance", "issubclass", "cast", "field"})
"""Calls whose arguments are not worth swapping: the result is the same, or plainly no program."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A small change of a module's source.

    Attributes:
        kind: which mistake it is, in a few words.
        function: the innermost function or class that it is in, with its outer ones; ``""``: the module itself.
        line: first line of what changes, from 1.
        statement: first line of the statement that it is in.
        before: what changes, on one line.
        after: what it becomes.
        source: of the whole module, changed.
    """

    kind: str
    function: str
    line: int
    statement: int
    before: str
    after: str
    source: str


def mutations_of(source: str) -> Iterator[Mutation]:
    """Give every mutation of a module, in the order of its text.

    Raises:
        SyntaxError: the source is no Python.
    """
    yield from _Finder(source).find()


@dataclass(frozen=True, slots=True)
class _Place:
    function: str = ""
    at_import: bool = True
    statement: int = 0


class _Finder:
    def __init__(self, source: str) -> None:
        self._source = source
        lines = source.encode().splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    def find(self) -> Iterator[Mutation]:
        yield from self._in_body(ast.parse(self._source).body, _Place())

    def _in_body(self, body: list[ast.stmt], place: _Place) -> Iterator[Mutation]:
        for statement in body:
            yield from self._in(statement, place)

    def _in(self, node: ast.AST, place: _Place) -> Iterator[Mutation]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name not in _SELF_CHECKS:
                yield from self._in_definition(node, place)
            return
        if _is_no_behaviour(node):
            return
        if isinstance(node, ast.stmt):
            place = replace(place, statement=node.lineno)
        if isinstance(node, ast.Lambda):
            place = replace(place, at_import=False)
        if not place.at_import:
            yield from self._at(node, place)
        for child in _children(node):
            yield from self._in(child, place)

    def _in_definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, place: _Place
    ) -> Iterator[Mutation]:
        name = f"{place.function}.{node.name}" if place.function else node.name
        if isinstance(node, ast.ClassDef):
            yield from self._in_body(node.body, _Place(name, place.at_import))
            return
        for default in (
            *node.args.defaults,
            *(kw_default for kw_default in node.args.kw_defaults if kw_default is not None),
        ):
            yield from self._in(default, _Place(name, place.at_import, node.lineno))
        yield from self._in_body(node.body, _Place(name, at_import=False))

    def _at(self, node: ast.AST, place: _Place) -> Iterator[Mutation]:
        match node:
            case ast.Compare():
                for number, operator in enumerate(node.ops):
                    operators = [*node.ops]
                    operators[number] = _FLIPPED[type(operator)]
                    other = ast.Compare(node.left, operators, node.comparators)
                    yield self._changed("comparison flipped", node, other, place)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield self._changed("condition negated", test, ast.UnaryOp(ast.Not(), test), place)
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield self._changed("condition negated", test, ast.UnaryOp(ast.Not(), test), place)
            case ast.Call():
                yield from self._at_call(node, place)
            case ast.Constant(value=value) if type(value) is int:
                yield self._changed("constant off by one", node, ast.Constant(value + 1), place)
        if isinstance(node, ast.stmt) and _may_go(node):
            yield self._changed("statement removed", node, ast.Pass(), place)

    def _at_call(self, node: ast.Call, place: _Place) -> Iterator[Mutation]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _EXTREMES:
            other = ast.Call(ast.Name(_EXTREMES[name]), node.args, node.keywords)
            yield self._changed("min for max", node, other, place)
        if name in _UNORDERED or any(isinstance(argument, ast.Starred) for argument in node.args[:2]):
            return
        first, second = (*node.args[:2], None, None)[:2]
        if first is not None and second is not None and ast.dump(first) != ast.dump(second):
            swapped = ast.Call(node.func, [second, first, *node.args[2:]], node.keywords)
            yield self._changed("arguments swapped", node, swapped, place)

    def _changed(self, kind: str, old: ast.expr | ast.stmt, new: ast.AST, place: _Place) -> Mutation:
        raw = self._source.encode()
        assert old.end_lineno is not None
        assert old.end_col_offset is not None
        begin = self._starts[old.lineno - 1] + old.col_offset
        end = self._starts[old.end_lineno - 1] + old.end_col_offset
        was, text = raw[begin:end].decode(), ast.unparse(new)
        padding = "\n" * was.count("\n")  # what follows keeps its line
        put = f"({text}{padding})" if isinstance(old, ast.expr) else text + padding
        source = (raw[:begin] + put.encode() + raw[end:]).decode()
        before = ast.unparse(old).splitlines()[0]
        return Mutation(kind, place.function, old.lineno, place.statement, before, text, source)


def _is_no_behaviour(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = node.value.func.id if isinstance(node.value.func, ast.Name) else ""
        return name == "assert_never" or name.lstrip("_").startswith("check_")
    types_only = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    return types_only or isinstance(
        node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Raise
    )


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Give what of a node is executed, and not its annotation."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "type_comment", "pattern"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _may_go(node: ast.stmt) -> bool:
    """Return whether somebody could have written the program without it.

    A name that is never bound is no such program; ``del`` of an argument tells a linter that it is not used.
    """
    match node:
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            return False  # what yields nothing may be no generator any more
        case ast.Expr() | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Return(value=None):
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.Delete(targets=targets):
            return not all(isinstance(target, ast.Name) for target in targets)
        case _:
            return False
