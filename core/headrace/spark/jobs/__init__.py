"""Jobs on Spark: attached to DataFrames, deployed in either layout, or run over a recorded input."""
