"""How processes are driven: events in, effects carried out, and the protocol steps that faults are tied to."""
