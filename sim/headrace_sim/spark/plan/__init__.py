"""The plans that PySpark's Connect client sends, read: columns, relations, and streams split into a job."""
