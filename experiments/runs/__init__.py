"""What a run leaves behind: train a job, its record, its resume state, provenance, tracking."""
