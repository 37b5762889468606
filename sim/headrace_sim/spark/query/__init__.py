"""A streaming query, run batch by batch under failures."""
