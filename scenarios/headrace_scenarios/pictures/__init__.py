"""A run drawn: timelines, space-time diagrams, and traces for other viewers."""
