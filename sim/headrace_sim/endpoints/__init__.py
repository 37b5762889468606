"""What the wires connect: machines with their CPUs, the store, and the outside world."""
