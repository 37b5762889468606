"""What the host needs of Spark itself: session, settings, Java, files, event time, and how its errors are read."""
