"""Judge Spark jobs and sinks as their authors wrote them: `targets` resolves what a user names, and how it can be tried."""
