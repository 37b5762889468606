"""Judge Histories from files, including those of other engines."""
