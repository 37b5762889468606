"""Injectors as Spark data sources (MillWheel 5.2): files, generators, and the clock for wall timers."""
