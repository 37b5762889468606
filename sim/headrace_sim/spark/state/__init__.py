"""The state of a user's stateful functions, as Spark's workers see it."""
