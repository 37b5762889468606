"""Mutation testing: small random mistakes in the engine, or in a user's pipeline, and what runs under faults notice of them."""
