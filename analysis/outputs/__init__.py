"""What a study, or several, give to others: pages of several studies, a table for a paper, JSON, a notebook."""
