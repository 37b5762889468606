"""Recorded trials that are made again: what `headrace replay` does."""
