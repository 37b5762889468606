"""The input of a Spark job: rows that are drawn for it, or a sample of the owner's."""
