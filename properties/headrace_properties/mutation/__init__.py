"""Mutation testing of a pipeline: small mistakes in its author's code, which its promises and the invariants should notice."""
