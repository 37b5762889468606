"""The work of each command, apart from its options: a module here is imported when its command runs, and never for help."""
