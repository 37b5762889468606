"""The commands: what each takes, and what it does. Each is imported only when it is used."""
