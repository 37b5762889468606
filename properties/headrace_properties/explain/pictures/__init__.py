"""Pictures of a run: timelines, space-time diagrams, animations, and traces for other viewers."""
