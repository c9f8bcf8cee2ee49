"""What a study gives to others: a table for a paper, JSON, a notebook, a workspace in W&B."""
