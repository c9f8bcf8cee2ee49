"""One run, or one cohort of runs: configuration, data, training, record, tracking."""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[1] / "vit" / "shadowed.py"))["check"]("vit")
