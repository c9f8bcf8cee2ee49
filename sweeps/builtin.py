"""Study files: the built-in ones, which are YAML files in `sweeps/studies`, and those of users."""

import os
from pathlib import Path
from typing import Any

from experiments.errors import UserError
from experiments.files import read_mapping
from experiments.presets import PRESETS, preset
from experiments.runs.exports import find_source
from experiments.study import FIELDS, STUDY, Study
from vit import plugins
from vit.registry import did_you_mean, nearest

FILES = {path.stem: path for path in sorted((Path(__file__).parent / "studies").glob("*.yaml"))}


def load_study(name: str, **changes: Any) -> Study:
    """A built-in study or a preset by name, or a user's study by the path of its YAML file. Raises `UserError`.

    A preset is a study with one variant. `changes`: fields that replace those of the file.
    """
    if name in FILES:
        return read_study_file(FILES[name], **changes)
    if name in PRESETS:
        factors = {"model.pos_embed": [preset(name).model.pos_embed]}
        about = PRESETS[name].about
        return parse_study({"name": name, "description": about, "factors": factors, "base": name, **changes}, name)
    if os.path.isfile(name):
        return read_study_file(Path(name), **changes)
    if os.path.exists(os.path.join(name, STUDY)):
        raise UserError(f"study: {name!r} is the folder of a study; to train what is left: vit-sweep run {name}")
    here = [path.name for path in sorted(Path().glob("*.y*ml"))]
    hints = [did_you_mean(name, [*FILES, *PRESETS, *here]), f"files here: {', '.join(here[:9])};" * bool(here)]
    hint = " ".join([*filter(None, hints), "`vit-sweep list` and `vit-train presets` list all"])
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    raise UserError(f"study: {name!r} {'is missing' if is_path else 'is not known'}; {hint}")


def read_study_file(path: Path, **changes: Any) -> Study:
    """Read a study from a YAML file: a mapping with the fields of `Study`. Its plug-ins are imported first: `all` is
    also their kinds.

    Raises `UserError` or `PluginError` naming file and reason.
    """
    tree = {**read_mapping(path, "`name` and `factors`"), **changes}

    def beside(file: str) -> str:
        return str((path.parent / Path(file).expanduser()).resolve())

    if texts := _texts(tree.get("plugins")):
        tree["plugins"] = list(map(beside, texts))
        plugins.add(tree["plugins"], f"{path}: plugins")
    if isinstance(tree.get("tuned"), str):
        tree["tuned"] = beside(tree["tuned"])
    if texts := _texts(tree.get("reuse")):
        tree["reuse"] = [find_source(folder, path.parent) for folder in texts]
    return parse_study(tree, str(path))


def parse_study(tree: dict[str, Any], source: str) -> Study:
    """A study from the fields of a study file. Raises `UserError` naming source, field, value and what is allowed."""
    if unknown := [name for name in tree if name not in FIELDS]:
        raise UserError(f"{source}: {unknown[0]}: no such setting; {nearest(str(unknown[0]), FIELDS)}")
    study = Study.parse(tree, source)
    if "study" not in study.base:
        return study
    named = study.base["study"]  # a built-in study, whose base is below the study's own settings, but for its factors
    if named not in FILES:
        raise UserError(f"{source}: base.study: {named!r} is not a built-in study; {nearest(str(named), FILES)}")
    below, factors = load_study(named).base, {path for factor in study.factors for path in factor.split("+")}
    settings = {path: value for path, value in study.base.items() if path != "study"}
    return study.changed(base={path: value for path, value in below.items() if path not in factors} | settings)


def _texts(value: Any) -> list[str]:
    """The value where it is a list of texts, else none: `Study` refuses it."""
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else []
