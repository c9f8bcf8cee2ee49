"""The same variants on several datasets, or in two studies."""
