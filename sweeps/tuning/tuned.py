"""tuned.yaml, the result of a tuning: how it is read and written. It imports no Optuna."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError

from experiments.errors import UserError, first_line
from experiments.files import write_text
from experiments.tuned import Tuned
from sweeps.study import read_mapping

TUNED = "tuned.yaml"  # in the study's folder
HEAD = "# The result of a tuning. Train with it: vit-sweep run STUDY --tuned FILE\n"


def read_tuned(path: Path) -> Tuned:
    """A tuned.yaml, or the same in a study.json. Raises `UserError` naming file, field and reason."""
    tree = read_mapping(path, "`variants` and `trials`")
    if "runs" in tree and "tuned" not in tree:
        raise UserError(f"{path}: is the plan of a study that was not tuned")
    try:
        return Tuned.model_validate(tree.get("tuned", tree))
    except ValidationError as error:
        raise UserError(f"{path}: {first_line(error)}") from error


def write_tuned(path: Path, tuned: Tuned) -> None:
    """Write the file. The same content gives the same bytes."""
    text = yaml.safe_dump(tuned.tree(), sort_keys=False, allow_unicode=True, width=1000, default_flow_style=None)
    write_text(path, HEAD + text)
