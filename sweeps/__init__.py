"""Many runs: studies as data, and the sweep that trains them. `experiments` trains a single run."""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[1] / "vit" / "shadowed.py"))["check"]("vit", "experiments")
