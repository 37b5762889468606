"""Drive processes: feed them events, carry out their effects, and watch the protocol steps that faults are tied to."""
