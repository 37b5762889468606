"""The API for users: computations, pipelines, codecs, options and errors (MillWheel 2, 3, 5)."""
