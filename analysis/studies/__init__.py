"""What speaks of several studies: their index, one table over datasets, pooled effects."""
