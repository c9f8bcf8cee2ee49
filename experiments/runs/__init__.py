"""What a run leaves behind: training, its record, its resume state, provenance, tracking."""
