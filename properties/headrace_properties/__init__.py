"""Invariants as checkers of a History, the reference model, Hypothesis strategies and machines, and the mutants."""
