"""Run today's code on yesterday's input: compare a recorded run with the pipeline's output for the same records now."""

from headrace_properties.recheck.comparing import Difference, Recheck, recheck
from headrace_properties.recheck.recorded_history import RecordedHistory, RecordingError, read_recording

__all__ = ["Difference", "Recheck", "RecordedHistory", "RecordingError", "read_recording", "recheck"]
