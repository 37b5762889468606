"""Injectors as Spark data sources (MillWheel 5.2): files and generators."""
