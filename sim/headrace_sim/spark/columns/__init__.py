"""Columns and frames of rows, evaluated in Python exactly as Spark evaluates them."""
