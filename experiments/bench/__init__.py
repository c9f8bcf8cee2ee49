"""`python -m experiments.bench`: our training beside others', in one run. Nothing else in the project imports it."""
