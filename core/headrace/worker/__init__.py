"""The worker: owned key intervals, steps, commits, timers and recovery (MillWheel 4, 6, 7.1)."""
