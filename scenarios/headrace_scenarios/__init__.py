"""Named stories: the figures of the papers that tell one, and the example pipelines."""
