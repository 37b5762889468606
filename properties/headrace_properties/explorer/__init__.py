"""The explorer: a person takes the part of the adversary, and chooses what happens at each protocol step of a run."""
