"""Runs from a table of anyone's: a file or a DataFrame with one row for each run. Read only."""
