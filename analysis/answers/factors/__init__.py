"""The effects of the factors of a study, and their interactions."""
