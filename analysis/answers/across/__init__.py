"""The same variants on several datasets."""
