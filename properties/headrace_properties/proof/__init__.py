"""The proof of the house itself: broken protocols and their hunts, mutation runs, workloads, oracles, and the Dataflow model.

Rule of this room: nothing that verifies a user's program imports it. Tests, benchmarks, ``headrace mutants`` and the figures of
the papers do.
"""
