"""The Spark session and its process: settings, Java, scratch space and what it writes to stderr."""
