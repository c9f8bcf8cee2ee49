"""Names the file that Python imports in place of a package of this project. It is run by its path, before the first
import that would fail.
"""

import sys
from importlib.util import find_spec
from pathlib import Path


def check(*packages: str) -> None:
    """Where another file has the name of one of these packages, end a command with status 2, or raise `ImportError`."""
    for package in packages:
        spec = find_spec(package)
        places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
        place = next(filter(None, places), "")
        if place and not Path(place).resolve().is_relative_to(Path(__file__).resolve().parents[1] / package):
            line = f"{place} is imported in place of the package {package}; rename it, or leave its folder out of "
            line += "PYTHONPATH (VIT_PLUGINS takes the path of a file)"
            if not (command := Path(sys.argv[0]).name).startswith(("vit-", "-m")):
                raise ImportError(line)
            print(f"{command}: error: {line}", file=sys.stderr)  # noqa: T201
            sys.exit(2)
