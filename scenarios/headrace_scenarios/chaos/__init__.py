"""Running a pipeline on Spark while killing and pausing its processes."""
