"""Differences between variants, and what they say."""
