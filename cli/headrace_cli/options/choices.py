"""Names and defaults that help texts show, without importing what defines them: a test compares the two."""

from pathlib import Path

CALL_S = 10.0
FAILURES = Path(".headrace/failures")
FEEDS = 12
FAULT_KINDS = ("crash", "pause", "drop", "duplicate", "delay", "reassign")
BREACHES = ("lost_write", "torn_row", "wrong_row", "old_snapshot")
PARTS = ("sequencers",)
EXPERIMENTS = (
    "figure-13", "figure-14", "figure-15", "figure-16", "strong-weak", "depth", "recovery", "hot-key", "skew", "authority",
    "spark", "nexmark",
)  # fmt: skip
REPORT_FOLDER = "docs/report"
REPORT_SEEDS = {"full": 20, "quick": 3}
