"""Find what a promise claims in its code, and whether a run has tested it: an assertion that is never reached says nothing.

Rules of this file:

* A claim is the condition of an assertion, what is returned, or the guard of a ``raise`` or of ``return False``.
* It is tested where something was left to decide: the second part of an ``or``, the element of an ``all``. What stands before is
  taken for the case that it is about. The same holds for ``and`` and ``any`` in what must not be so.
* Choice: what is not understood counts as tested; so does all code that cannot be read.
"""

import ast
import functools
import linecache
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from headrace_properties.promises.promise import Promise, PromiseKind

Span = tuple[str, int, int, int, int]
"""A file, and where in it something begins and ends: lines from 1, columns from 0; below 0: only the lines are known."""

Ran = Callable[[ast.AST], bool]
"""Returns whether any part of a node was evaluated."""


@dataclass(frozen=True, slots=True)
class PromiseCondition:
    """A condition that a promise is about.

    Attributes:
        file: where it is written.
        node: the condition.
        positive: whether it must be true; ``False``: it must not be.
        whole_lines: only lines are known of it, as pytest has rewritten it.
    """

    file: str
    node: ast.expr
    positive: bool = True
    whole_lines: bool = False

    def __str__(self) -> str:
        """Show the code, with its line."""
        return f"line {self.node.lineno}, {ast.unparse(self.node):.80}"

    def is_tested(self, spans: Iterable[Span]) -> bool:
        """Return whether code that ran at these places tested it."""
        mine = [span for span in spans if span[0] == self.file]
        if self.whole_lines:
            return any(span[1] <= self.node.lineno <= span[3] for span in mine)
        return _tested(self.node, self.positive, lambda node: any(_is_within(span, node) for span in mine))


@functools.lru_cache(maxsize=64)
def claims_of(promise: Promise) -> tuple[PromiseCondition, ...]:
    """Return what a promise claims; none if that is not understood."""
    check: Any = promise.check
    if promise.kind is PromiseKind.SOMETIMES or not isinstance(check, FunctionType):
        return ()
    try:
        return tuple(_Reader(broken=promise.kind is PromiseKind.NEVER).read(check))
    except _UnclearError:
        return ()


class _UnclearError(Exception):
    """The claim of a function is unknown."""


class _Reader:
    """Reads the claims of a function and of the helpers that it names. ``broken``: what it returns where it is broken."""

    def __init__(self, *, broken: bool) -> None:
        self._broken = broken
        self._seen: set[CodeType] = set()
        self._file = ""
        self._lists: dict[str, ast.expr] = {}
        self._rewritten = False

    def read(self, function: FunctionType, *, is_helper: bool = False) -> Iterator[PromiseCondition]:
        code = function.__code__
        if code in self._seen:
            return
        self._seen.add(code)
        node = _node_of(code)
        self._file, self._rewritten = code.co_filename, "@pytest_ar" in function.__globals__
        if isinstance(node, ast.Lambda):
            yield from () if is_helper else [self._claim(node.body, positive=not self._broken)]
            return
        self._lists = {
            each.targets[0].id: each.value
            for each in ast.walk(node)
            if isinstance(each, ast.Assign)
            and isinstance(each.targets[0], ast.Name)
            and isinstance(each.value, ast.ListComp | ast.SetComp)
        }
        yield from self._of_statements(node.body, is_helper=is_helper)
        for helper in _helpers(function):
            yield from self.read(helper, is_helper=True)

    def _claim(self, node: ast.expr, *, positive: bool, asserted: bool = False) -> PromiseCondition:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._claim(node.operand, positive=not positive, asserted=asserted)
        if isinstance(node, ast.Name) and not positive:
            node = self._lists.get(node.id, node)  # bad = [...]; assert not bad
        return PromiseCondition(self._file, node, positive, whole_lines=asserted and self._rewritten)

    def _of_statements(self, statements: list[ast.stmt], *, is_helper: bool) -> Iterator[PromiseCondition]:
        before: ast.stmt | None = None
        for statement in statements:
            match statement:
                case ast.Assert(test=test) if not isinstance(test, ast.Constant):
                    yield self._claim(test, positive=True, asserted=True)
                case ast.Return(value=value) if not (
                    is_helper or value is None or isinstance(value, ast.Constant)
                ):
                    yield self._claim(value, positive=not self._broken)
                case ast.If(test=test, body=body, orelse=orelse):
                    for branch, positive in ((body, False), (orelse, True)):
                        if self._begins_to_break(branch, is_helper=is_helper):
                            yield self._claim(test, positive=positive)
                        else:
                            yield from self._of_statements(branch, is_helper=is_helper)
                case _ if self._breaks(statement, is_helper=is_helper):
                    if not isinstance(before, ast.If):
                        raise _UnclearError
                    yield self._claim(before.test, positive=True)
                case (
                    ast.For(body=body)
                    | ast.While(body=body)
                    | ast.With(body=body)
                    | ast.FunctionDef(body=body)
                ):
                    inner = is_helper or isinstance(statement, ast.FunctionDef)
                    yield from self._of_statements(body, is_helper=inner)
                case ast.Try() | ast.Match():
                    raise _UnclearError
                case _:
                    pass
            before = statement

    def _begins_to_break(self, branch: list[ast.stmt], *, is_helper: bool) -> bool:
        """Return whether a promise is broken as soon as it reaches a branch."""
        for statement in branch:
            if self._breaks(statement, is_helper=is_helper):
                return True
            if not isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign):
                return False
        return False

    def _breaks(self, statement: ast.stmt, *, is_helper: bool) -> bool:
        """Return whether a promise that comes here is broken."""
        match statement:
            case ast.Raise(exc=ast.Call(func=raised)) | ast.Raise(exc=ast.expr() as raised):
                return getattr(raised, "id", getattr(raised, "attr", "")) != "Unexercised"
            case ast.Return(value=ast.Constant(value=value)):
                return value is self._broken and not is_helper
            case ast.Assert(test=ast.Constant(value=value)):
                return not value
            case _:
                return False


def _tested(node: ast.expr, positive: bool, ran: Ran) -> bool:  # noqa: FBT001
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _tested(operand, not positive, ran)
        case ast.BoolOp(op=op, values=[_, *rest] as values):
            is_implication = isinstance(op, ast.Or) == positive and not _of_one_thing(values)
            return any(
                ran(each) and _tested(each, positive, ran) for each in (rest if is_implication else values)
            )
        case ast.Call(
            func=ast.Name(id="all" | "any" as name),
            args=[ast.GeneratorExp() | ast.ListComp() as each],
        ):
            return _each_tested(each, positive, ran) if (name == "all") == positive else ran(node)
        case ast.ListComp(generators=[*_, last]) | ast.SetComp(generators=[*_, last]) if (
            not positive and last.ifs
        ):
            return ran(last.ifs[-1]) and _tested(last.ifs[-1], positive, ran)  # it picks what must not be
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return _tested(inner, positive, ran)
        case ast.IfExp(body=body, orelse=orelse):
            sides = [side for side in (body, orelse) if not isinstance(side, ast.Constant)]
            return any(ran(side) and _tested(side, positive, ran) for side in sides) or not sides
        case _:
            return ran(node)


def _each_tested(each: ast.GeneratorExp | ast.ListComp, positive: bool, ran: Ran) -> bool:  # noqa: FBT001
    conditions = each.generators[-1].ifs
    if conditions and isinstance(each.elt, ast.Constant):  # any(True for ... if ...)
        return ran(conditions[-1]) and _tested(conditions[-1], positive, ran)
    return ran(each.elt) and _tested(each.elt, positive, ran)


def _of_one_thing(values: list[ast.expr]) -> bool:
    """Return whether all are comparisons of the same thing, as in ``x == 1 or x == 2``: no case, and what it is about."""
    lefts = {ast.dump(value.left) if isinstance(value, ast.Compare) else ast.dump(value) for value in values}
    return len(lefts) == 1


def _is_within(span: Span, node: ast.AST) -> bool:
    _, line, column, end_line, end_column = span
    if column < 0:
        return getattr(node, "lineno", 0) <= line <= getattr(node, "end_lineno", 0)
    begin = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    end = (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))
    return begin <= (line, column) and (end_line, end_column) <= end


def _node_of(code: CodeType) -> ast.FunctionDef | ast.Lambda:
    source = "".join(linecache.getlines(code.co_filename))
    nodes = [
        node
        for node in _functions_in(source)
        if getattr(node, "name", "<lambda>") == code.co_name and _first_line(node) == code.co_firstlineno
    ]
    if len(nodes) != 1:
        raise _UnclearError
    return nodes[0]


@functools.lru_cache(maxsize=16)
def _functions_in(source: str) -> tuple[ast.FunctionDef | ast.Lambda, ...]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda))


def _first_line(node: ast.FunctionDef | ast.Lambda) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _helpers(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the functions that a function of the same file names."""
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    known = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells if _is_full(cell)}}
    for name in (*code.co_names, *code.co_freevars):
        helper = known.get(name)
        if isinstance(helper, FunctionType) and helper.__code__.co_filename == code.co_filename:
            yield helper


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
