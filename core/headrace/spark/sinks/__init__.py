"""Sinks that take each batch exactly once: files and databases (MillWheel 6.1.1, 6.2)."""
