"""The experiments of MillWheel's Section 8, and the wall-clock benchmarks."""
