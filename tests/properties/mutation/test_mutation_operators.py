"""Mutations: each kind where it belongs, nothing where there is no behaviour, and every other line where it was."""

import pytest

from headrace_properties.mutation.mutation_operators import Mutation, mutations_of
from headrace_properties.mutation.sampling import module_of


def in_function(body: str) -> list[Mutation]:
    return list(mutations_of(f"def act(a, b, c):\n    {body}\n"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a < b", {("comparison flipped", "a < b", "a <= b")}),
        ("return a is None", {("comparison flipped", "a is None", "a is not None")}),
        ("return a < b <= c", {
            ("comparison flipped", "a < b <= c", "a <= b <= c"), ("comparison flipped", "a < b <= c", "a < b < c"),
        }),
        ("while a: c()", {("condition negated", "a", "not a"), ("statement removed", "c()", "pass")}),
        ("return [x for x in a if b]", {("condition negated", "b", "not b")}),
        ("return b if a else c", {("condition negated", "a", "not a")}),
        ("a.b = c", {("statement removed", "a.b = c", "pass")}),
        ("a += b", {("statement removed", "a += b", "pass")}),
        ("del a[b]", {("statement removed", "del a[b]", "pass")}),
        ("return", {("statement removed", "return", "pass")}),
        ("return min(a, b)", {("min for max", "min(a, b)", "max(a, b)")}),
        ("return 3", {("constant off by one", "3", "4")}),
        ("return c(a, b)", {("arguments swapped", "c(a, b)", "c(b, a)")}),
    ],
)  # fmt: skip
def test_each_mistake_is_made_where_it_can_be(body: str, expected: set[tuple[str, str, str]]) -> None:
    assert {(mutation.kind, mutation.before, mutation.after) for mutation in in_function(body)} == expected


@pytest.mark.parametrize(
    "body",
    [
        '"""A docstring."""', "assert a < 3", "raise ValueError(3, a)", 'return f"{a < 3}"', "x: Literal[3]",
        "del a", "return True", "return c(a, a)", "return c(*a, b)", "x = a", "isinstance(a, b) and c", "yield a",
    ],
)  # fmt: skip
def test_what_is_no_behaviour_is_left_alone(body: str) -> None:
    assert [mutation.kind for mutation in in_function(body) if mutation.kind != "statement removed"] == []


def test_only_what_functions_and_lambdas_do_is_mutated() -> None:
    """What is executed when the module is imported makes the pipeline."""
    source = """
limit = 3
later = lambda a: a + 1

class Machine:
    limit = 5

    def go(self, a=7):
        return 8

    def check_invariants(self):
        self.go(1, 2)
"""
    found = [(mutation.function, mutation.line, mutation.after) for mutation in mutations_of(source)]
    assert found == [("", 3, "2"), ("Machine.go", 9, "9")]


def test_a_change_over_several_lines_leaves_all_others_where_they_were() -> None:
    source = (
        'def act(a, b):\n    if (\n        a == "ä"\n        and b\n    ):\n        b.go()\n    return b\n'
    )
    for mutation in mutations_of(source):
        lines = mutation.source.splitlines()
        assert len(lines) == 7
        assert lines[6] == "    return b"
    (removed,) = (mutation for mutation in mutations_of(source) if mutation.kind == "statement removed")
    assert removed.source.splitlines()[5] == "        pass"
    (flipped,) = (mutation for mutation in mutations_of(source) if mutation.kind == "comparison flipped")
    assert (flipped.line, flipped.statement, flipped.before) == (3, 2, "a == 'ä'")


def test_every_mutation_of_the_rules_is_a_program_of_its_own() -> None:
    rules = module_of("headrace.rules")
    found = [mutation.source for mutation in mutations_of(rules.source)]
    assert len(found) > 30
    for source in found:
        compile(source, rules.file, "exec")
    assert len({*found, rules.source}) == len(found) + 1


def test_a_call_that_only_checks_is_left_alone() -> None:
    assert not list(mutations_of("def make(name):\n    check_name('name', name)\n"))
    assert list(mutations_of("def make(name):\n    keep_name('name', name)\n"))
