"""The engine inside Spark's operators: key intervals as groups, rows as chunks of state (MillWheel 6.1, 7.1)."""
