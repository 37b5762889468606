"""MillWheel's evaluation (Section 8, and 6.1.3) on the simulated cluster, in simulated time only; see `headrace paper report`."""
