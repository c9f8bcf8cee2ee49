"""Many runs: studies as data, and the sweep that trains them. `experiments` trains a single run."""
