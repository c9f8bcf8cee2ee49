"""The built-in studies, which are YAML files in `sweeps/studies`; and how a study is loaded by name or path."""

import os
from pathlib import Path

from experiments.errors import UserError
from experiments.presets import PRESETS, preset
from experiments.study import STUDY
from sweeps.study import Study, read_study_file
from vit.registry import did_you_mean

FILES = {path.stem: path for path in sorted((Path(__file__).parent / "studies").glob("*.yaml"))}


def load_study(name: str) -> Study:
    """A built-in study or a preset by name, or a user's study by the path of its YAML file. Raises `UserError`.

    A preset is a study with one variant.
    """
    if name in FILES:
        return read_study_file(FILES[name])
    if name in PRESETS:
        kind = preset(name).model.pos_embed
        return Study(name=name, description=PRESETS[name].about, factors={"model.pos_embed": [kind]}, base=name)
    if os.path.isfile(name):
        return read_study_file(Path(name))
    if os.path.exists(os.path.join(name, STUDY)):
        raise UserError(f"study: {name!r} is the folder of a study; to train what is left: vit-sweep run {name}")
    here = [path.name for path in sorted(Path().glob("*.y*ml"))]
    hints = [did_you_mean(name, [*FILES, *PRESETS, *here]), f"files here: {', '.join(here[:9])};" * bool(here)]
    hint = " ".join([*filter(None, hints), "`vit-sweep list` and `vit-train presets` list all"])
    raise UserError(f"study: {name!r} is not known; {hint}")


def is_study(name: str) -> bool:
    """Whether a name is that of a built-in study, a preset or a study file."""
    return name in FILES or name in PRESETS or name.endswith((".yaml", ".yml")) or os.path.isfile(name)
