"""Many runs: studies as data, and the sweep that trains them. A single run is trained by `experiments`, never here."""
