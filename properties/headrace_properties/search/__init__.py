"""Searching fault schedules: plans, coverage, shrinking, and the verdict on a pipeline."""
