"""What crosses a boundary: key intervals, rows, messages and effects, all of them values (MillWheel 6, 7)."""
