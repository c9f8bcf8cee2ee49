"""The built-in studies, which are YAML files in `sweeps/studies`; and how a study is loaded by name or path."""

import os
from collections.abc import Mapping
from pathlib import Path

from experiments.errors import UserError
from experiments.presets import PRESETS, preset
from experiments.study import STUDY
from sweeps.study import Study, read_study_file
from vit.registry import did_you_mean, nearest

FILES = {path.stem: path for path in sorted((Path(__file__).parent / "studies").glob("*.yaml"))}


def load_study(name: str) -> Study:
    """A built-in study or a preset by name, or a user's study by the path of its YAML file. Raises `UserError`.

    A preset is a study with one variant.
    """
    if name in FILES:
        return _with_base(read_study_file(FILES[name]))
    if name in PRESETS:
        kind = preset(name).model.pos_embed
        return Study(name=name, description=PRESETS[name].about, factors={"model.pos_embed": [kind]}, base=name)
    if os.path.isfile(name):
        return _with_base(read_study_file(Path(name)))
    if os.path.exists(os.path.join(name, STUDY)):
        raise UserError(f"study: {name!r} is the folder of a study; to train what is left: vit-sweep run {name}")
    here = [path.name for path in sorted(Path().glob("*.y*ml"))]
    hints = [did_you_mean(name, [*FILES, *PRESETS, *here]), f"files here: {', '.join(here[:9])};" * bool(here)]
    hint = " ".join([*filter(None, hints), "`vit-sweep list` and `vit-train presets` list all"])
    raise UserError(f"study: {name!r} {'is missing' if _is_path(name) else 'is not known'}; {hint}")


def _with_base(study: Study) -> Study:
    """The study with the base of the built-in study that `base: {study: NAME}` names, below its own settings and
    without its own factors.
    """
    if not isinstance(study.base, Mapping) or "study" not in study.base:
        return study
    named = study.base["study"]
    if named not in FILES:
        raise UserError(f"{study.name}: base.study: {named!r} is not a built-in study; {nearest(str(named), FILES)}")
    below, factors = load_study(named).base, {path for factor in study.factors for path in factor.split("+")}
    taken = {"preset": below} if isinstance(below, str) else {p: v for p, v in below.items() if p not in factors}
    own = {path: value for path, value in study.base.items() if path != "study"}
    return study.model_copy(update={"base": taken | own})


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))


def is_study(name: str) -> bool:
    """Whether a name is that of a built-in study, a preset or a study file."""
    return name in FILES or name in PRESETS or _is_path(name) or os.path.isfile(name)
