"""Spark jobs and sinks as their authors wrote them, judged: `targets` finds what a user names, and what can be tried of it."""
