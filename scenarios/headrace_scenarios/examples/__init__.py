"""Example pipelines with their promises: a bank, a join of two streams, orders with deadlines."""
