"""Named scenarios, such as the papers' figures, and example pipelines."""
