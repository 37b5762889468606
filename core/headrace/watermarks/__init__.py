"""Low watermarks: oldest work, the minimum over key intervals, and the authority (MillWheel 4.5, 7.2)."""
