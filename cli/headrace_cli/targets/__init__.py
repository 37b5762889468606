"""What a command line names, found and imported."""
