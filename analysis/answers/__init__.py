"""The questions of a report, a folder each: what is computed, its sentences, its tables and figures."""
