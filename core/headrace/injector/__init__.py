"""Injectors: records from outside, and the watermark they seed (MillWheel 5.2, 8.4)."""
