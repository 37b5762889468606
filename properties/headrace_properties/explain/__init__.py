"""What happened in a run, for people: causes, stories, labels and snapshots."""
