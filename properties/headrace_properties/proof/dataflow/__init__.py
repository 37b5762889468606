"""The Dataflow layer's model, transcripts and mutants (Dataflow 2)."""
