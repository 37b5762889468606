"""The papers' figures as scenarios."""
