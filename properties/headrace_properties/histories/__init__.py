"""Judging Histories from files, those of other engines included."""
