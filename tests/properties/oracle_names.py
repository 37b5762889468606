"""The names that mutants and matrices may have for what catches a run."""

from headrace_properties.checkers import all_checkers
from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.proof.calm import CALM
from headrace_properties.proof.oracles import ERROR, EXPECTED, REFERENCE
from headrace_properties.proof.workloads import WORKLOADS


def oracle_names() -> set[str]:
    """Return the name of each oracle."""
    checkers = (
        checker.name for workload in WORKLOADS.values() for checker in all_checkers([workload.pipeline])
    )
    return {REFERENCE, EXPECTED, CALM, ERROR, *(name for name in checkers if not is_about_code(name))}
