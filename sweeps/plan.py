"""From a study file, of a user or built in, to its runs: every variant is checked, labelled and crossed with the seeds.

The built-in ones are the YAML files in `sweeps/studies`.
"""

import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from experiments.checks import check_plugin, missing_need
from experiments.compared import Levels, RunSpec, baseline_of, runs_of
from experiments.config import RunConfig, flatten, override, run_id
from experiments.errors import UserError, format_level
from experiments.files import read_mapping
from experiments.metric import EXPECTED
from experiments.presets import PRESETS, preset
from experiments.runs.exports import find_source
from experiments.study import FIELDS, STUDY, Study
from experiments.tuned import Tuned
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


class Variant(NamedTuple):
    """A variant as its configuration parses it.

    `levels`: factor -> level; `settings`: path -> value, of all factors.
    """

    label: str
    levels: Levels
    settings: Levels
    config: RunConfig


def make_plan(study: Study, preset_name: str | None = None, changes: Mapping[str, Any] | None = None) -> Study:
    """The study with its runs, once every variant is checked. `preset_name` and `changes` override its own base.

    Raises `UserError` naming the first setting, level or combination that is not allowed.
    """
    name, base = _base(study, preset_name, changes or {})
    grid = [dict(zip(study.factors, levels, strict=True)) for levels in product(*study.factors.values())]
    variants = [_variant(study, base, levels) for levels in (*grid, *study.extra)]
    _check_variants(study, variants)
    _check_extra(study, variants[: len(grid)], variants[len(grid) :])
    factors: dict[str, list[Any]] = {factor: [] for factor in study.factors}
    for factor, level in (item for variant in variants[: len(grid)] for item in variant.levels.items()):
        if level not in factors[factor]:
            factors[factor].append(level)
    names = [variant.label for variant in variants]
    if unknown := [name for name in study.labels if name not in names]:
        raise UserError(f"{study.name}: labels: {unknown[0]!r} is not a variant; {nearest(unknown[0], names)}")
    first = [RunSpec.of("", variant.config, variant.label, variant.settings) for variant in variants]
    extra = [variant.levels for variant in variants[len(grid) :]]
    stated = _split(study.baseline) if isinstance(study.baseline, dict) else study.baseline
    return study.changed(
        preset=name,
        factors=factors,
        **({"extra": extra} if extra else {}),
        baseline=baseline_of(stated, {variant.label: variant.settings for variant in variants}),
        metric=study.metric,
        margin=study.margin,
        seeds=study.seeds,
        base=base.model_dump(),
        tuned=None,
        reuse=[],
        runs=runs_of(first, study.seeds),
    )


def with_seeds(study: Study, seeds: int | list[int]) -> Study:
    """A study with its variants on these seeds: N for 0 to N-1, or a list. Raises `UserError`."""
    seeds = Study.parse({**study.tree(), "runs": [], "seeds": seeds}, study.name).seeds
    _check_untried(seeds, study.tuning)
    return study.changed(seeds=seeds, runs=runs_of(study.variants.values(), seeds))


def apply_tuned(study: Study, tuned: Tuned) -> Study:
    """The study with the settings that were tuned for each of its variants.

    Raises `UserError` where a variant is missing, unknown or does not take its settings, and where a seed of the study
    was used for tuning.
    """
    variants = study.variants
    if different := sorted({*variants} ^ set(tuned.variants)):
        where = f"is not a variant of {study.name}" if different[0] in tuned.variants else "has no settings"
        raise UserError(f"--tuned: {different[0]!r} {where}")
    _check_untried(study.seeds, tuned)
    first = []
    for label, run in variants.items():
        tuned_variant = tuned.variants[label]
        if tuned_variant.levels != run.levels:
            raise UserError(f"--tuned: variant {label!r}: has other levels than in {study.name}")
        if factors := [path for path in tuned_variant.settings if path in run.levels]:
            raise UserError(f"--tuned: {factors[0]} is a factor of {study.name}")
        try:
            first.append(run.configured(override(run.config, tuned_variant.settings)))
        except UserError as error:
            raise UserError(f"--tuned: variant {label!r}: {error}") from error
    return study.changed(runs=runs_of(first, study.seeds), tuning=tuned)


def _check_untried(seeds: Sequence[int], tuned: Tuned | None) -> None:
    if tuned and (used := sorted({*seeds} & {seed for trial in tuned.trials for seed in trial.seeds})):
        raise UserError(f"--tuned: seed {used[0]} was used for tuning; compare the variants on other seeds")


def _base(study: Study, preset_name: str | None, changes: Mapping[str, Any]) -> tuple[str, RunConfig]:
    """The preset's name and the base of every variant: the preset, then the study's settings, then `changes`."""
    settings = dict(study.base)
    name = preset_name or str(settings.pop("preset", "digits"))
    settings.pop("preset", None)
    if name not in PRESETS:
        field = "--preset" if preset_name is not None else f"{study.name}: base"
        raise UserError(f"{field}: {name!r} is not known; {nearest(name, PRESETS)}")
    factors = {path for factor in study.factors for path in factor.split("+")}
    for path in (*settings, *changes):
        if path.replace("-", "_") in factors:
            raise UserError(f"{path}: is a factor of the study {study.name}; it cannot be set for all variants")
        if path == "seed":
            raise UserError("seed: cannot be set for a study; use --seeds, or `seeds` in its file")
    return name, override(preset(name), {**settings, **changes})


def _variant(study: Study, base: RunConfig, levels: Levels) -> Variant:
    try:
        config = override(base, _split(levels))
        check_plugin(config)
    except UserError as error:
        raise UserError(f"{study.name}: variant {_label(study, levels)!r}: {error}") from error
    values = dict(flatten(config.model_dump()))
    settings = {path: values[path] for factor in study.factors for path in factor.split("+")}
    parsed = {f: [values[path] for path in f.split("+")] if "+" in f else values[f] for f in levels}
    return Variant(_label(study, parsed), parsed, settings, config)


def _split(levels: Levels) -> Levels:
    """Levels with linked factors split: single path -> value."""
    flat: Levels = {}
    for factor, level in levels.items():
        flat.update(zip(factor.split("+"), level, strict=True) if "+" in factor else [(factor, level)])
    return flat


def _label(study: Study, levels: Levels) -> str:
    """The name of a variant in tables: its level for one factor, else such as `patch_size=2, embed_dim=32`."""
    if len(study.factors) == 1 and not study.names:
        return ", ".join(map(format_level, _split(levels).values()))
    ends = [path.rpartition(".")[2] for factor in study.factors for path in factor.split("+")]
    parts = []
    for factor, level in levels.items():
        values = {path: format_level(value) for path, value in _split({factor: level}).items()}
        if factor in study.names:
            different = list(values.values()) if len(set(values.values())) > 1 else list(values.values())[:1]
            parts.append(f"{study.names[factor]}={'/'.join(different)}")
            continue
        for path, value in values.items():
            end = path.rpartition(".")[2]
            parts.append(f"{path if ends.count(end) > 1 else end}={value}")
    return ", ".join(parts)


def _check_variants(study: Study, variants: Sequence[Variant]) -> None:
    """Raise `UserError` where a variant does not measure the metric, two are equal, or a factor has no effect."""
    labels: dict[str, str] = {}  # run id, or label -> label
    for label, _, _, config in variants:
        if study.metric not in config.metrics:
            raise UserError(f"{study.name}: metric: variant {label!r} does not measure {study.metric}; {EXPECTED}")
        for key in (run_id(config), label):
            if key in labels:
                raise UserError(f"{study.name}: factors: the variants {labels[key]!r} and {label!r} are the same")
            labels[key] = label
    for path in variants[0].settings:
        need = missing_need(path, [variant.config for variant in variants])
        if need and len({variant.settings[path] for variant in variants}) > 1:
            raise UserError(f"{study.name}: factors: {path}: has no effect in any variant; it needs {need}")


def _check_extra(study: Study, grid: Sequence[Variant], extra: Sequence[Variant]) -> None:
    """Raise `UserError` where a variant of `extra` differs from all others in a factor that it does not state."""
    for variant in extra:
        levels = _split(variant.levels)
        for path, value in variant.settings.items():
            follows = value in (None, "natural")  # from other settings
            if path not in levels and not follows and all(other.settings[path] != value for other in grid):
                said = f"does not state {path}; its value would be {value!r}, which no other variant has"
                raise UserError(f"{study.name}: extra: {variant.label!r} {said}")
