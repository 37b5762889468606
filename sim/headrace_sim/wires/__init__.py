"""How messages travel: when they leave a machine, how long they take, and what faults do to them."""
