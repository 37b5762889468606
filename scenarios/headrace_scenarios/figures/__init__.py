"""The papers' figures that tell a story."""
