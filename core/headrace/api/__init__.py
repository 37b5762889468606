"""What users write and read: computations, pipelines, codecs, options and errors (MillWheel 2, 3, 5)."""
