"""The backing store's gatekeeper, and how the other processes use it (MillWheel 6.2, 7.1)."""
