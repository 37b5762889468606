"""The invariants by name, for people: what each says."""

from functools import cache

from millrace_properties.rules import rules


@cache
def titles() -> dict[str, str]:
    """Invariant to what it says, in a line."""
    return {name: rule.title for name, rule in rules().items()}
