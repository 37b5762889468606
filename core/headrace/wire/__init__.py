"""Values that cross a boundary: key intervals, rows, messages and effects (MillWheel 6, 7)."""
