"""Engines: where the workers of a sweep live. `contract` says what a driver expects of each."""
