"""Running jobs on Spark: attached, deployed, or fed from a recorded input, in either layout."""
