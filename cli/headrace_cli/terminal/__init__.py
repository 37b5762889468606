"""The terminal: what commands print, how they end, and the files that they write."""
