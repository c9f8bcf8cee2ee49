"""From a study to its runs: every variant is checked against a base configuration, labelled and crossed with the seeds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.config import RunConfig, flatten, override, run_id
from experiments.data.catalogue import DATASETS
from experiments.effects import missing_need
from experiments.errors import UserError
from experiments.metric import Metric
from experiments.presets import PRESETS, preset
from experiments.runs.known_weights import with_known_weights
from experiments.study import RunSpec, StudyPlan
from experiments.tuned import Tuned
from sweeps.study import Levels, Study, format_level, split_linked
from vit.registry import nearest

Variant = tuple[Levels, Levels, RunConfig]  # its levels by factor, the values of all factors by path, its configuration
MAX_SLUG = 60  # characters of a variant's label in the name of a folder


def make_plan(
    study: Study,
    preset_name: str | None = None,
    changes: Mapping[str, Any] | None = None,
    study_dir: Path | None = None,
) -> StudyPlan:
    """Check every variant of a study and list its runs. `preset_name` and `changes` override the study's own base.

    The runs are ordered by seed, so that early results are paired. The records in `study_dir`, the study's folder, name the weights of a source (`init_from`) that is gone. Raises
    `UserError` naming the first setting, level or combination that is not allowed.
    """
    name, base = base_config(study, preset_name, changes or {}, study_dir)
    parsed = [_parse_levels(study, base, levels, study_dir) for levels in study.variants()]
    product, extra = parsed[: len(parsed) - len(study.extra)], parsed[len(parsed) - len(study.extra) :]
    variants = _label_variants(study, parsed)
    _check_effects(study, list(variants.values()))
    factors: dict[str, list[Any]] = {factor: [] for factor in study.factors}
    for levels, *_ in product:
        for factor, level in levels.items():
            if level not in factors[factor]:
                factors[factor].append(level)
    baseline = _baseline(study, {label: levels for label, (levels, _) in variants.items()})
    runs = [make_run(label, *variant, seed) for seed in study.seed_list for label, variant in variants.items()]
    _check_sources(study, runs)
    return StudyPlan(
        **study.model_dump(include={"name", "description", "metric", "margin", "looks"}),
        preset=name,
        factors=factors,
        extra=[levels for levels, *_ in extra],
        baseline=baseline,
        seeds=sorted(study.seed_list),
        base=base.model_dump(),
        study=study.model_dump(exclude_defaults=True),
        runs=runs,
    )


def apply_tuned(plan: StudyPlan, tuned: Tuned) -> StudyPlan:
    """The plan with the settings that were tuned for each of its variants.

    Raises `UserError` where a variant is missing, unknown or does not take its settings, and where a seed of the plan was
    used for tuning.
    """
    known, given = plan.labels, tuned.variants
    if missing := [variant for variant in known if variant not in given]:
        raise UserError(f"--tuned: has no settings for the variant {missing[0]!r} of {plan.name}")
    if unknown := [variant for variant in given if variant not in known]:
        raise UserError(f"--tuned: {unknown[0]!r} is not a variant of {plan.name}; {nearest(unknown[0], known)}")
    if used := sorted({run.seed for run in plan.runs} & {trial.seed for trial in tuned.trials}):
        raise UserError(f"--tuned: seed {used[0]} was used for tuning; compare the variants on other seeds")
    configs = {}
    for variant in known:
        first = next(run for run in plan.runs if run.variant == variant)
        if given[variant].levels != first.levels:
            raise UserError(f"--tuned: variant {variant!r}: has other levels than in {plan.name}")
        if factors := [path for path in given[variant].settings if path in first.levels]:
            raise UserError(f"--tuned: {factors[0]} is a factor of {plan.name}")
        try:
            configs[variant] = override(first.config, given[variant].settings)
        except UserError as error:
            raise UserError(f"--tuned: variant {variant!r}: {error}") from error
    runs = [make_run(run.variant, run.levels, configs[run.variant], run.seed) for run in plan.runs]
    return plan.model_copy(update={"runs": runs, "tuned": tuned})


def base_config(
    study: Study, preset_name: str | None, changes: Mapping[str, Any], study_dir: Path | None
) -> tuple[str, RunConfig]:
    """The preset's name and the base of every variant: the preset, then the study's settings, then `changes`."""
    own = {"preset": study.base} if isinstance(study.base, str) else dict(study.base)
    own_preset = own.pop("preset", "digits")
    name = str(own_preset) if preset_name is None else preset_name
    factors = {path for factor in study.factors for path in factor.split("+")}
    if name not in PRESETS:
        field = (
            "--preset"
            if preset_name is not None
            else f"{study.name}: base" + ("" if isinstance(study.base, str) else ".preset")
        )
        raise UserError(f"{field}: {name!r} is not known; {nearest(name, PRESETS)}")
    config = preset(name)
    for path in (*own, *changes):
        if path.replace("-", "_") in factors:
            raise UserError(f"{path}: is a factor of the study {study.name}; it cannot be set for all variants")
        if path == "seed":
            raise UserError("seed: cannot be set for a study; use --seeds, or `seeds` in its file")
    return name, override(config, _known({**own, **changes}, study_dir))


def _parse_levels(study: Study, base: RunConfig, levels: Levels, study_dir: Path | None) -> Variant:
    """A variant as its configuration parses it."""
    try:
        config = override(base, _known(split_linked(levels), study_dir))
    except UserError as error:
        raise UserError(f"{study.name}: variant {study.label(levels)!r}: {error}") from error
    flat = dict(flatten(config.model_dump()))
    paths = {path: flat[path] for factor in study.factors for path in factor.split("+")}
    return {f: [flat[path] for path in f.split("+")] if "+" in f else flat[f] for f in levels}, paths, config


def _known(changes: Mapping[str, Any], study_dir: Path | None) -> Mapping[str, Any]:
    return changes if study_dir is None else with_known_weights(changes, study_dir)


def _meaning(config: RunConfig) -> str:
    """Equal for configurations that train on the same images, however an image size or the user's folder is written.

    Run ids keep them apart, so that old runs keep theirs.
    """
    data, changes = config.data, dict[str, Any]()
    if data.img_size == data.model_copy(update={"img_size": None}).image_shape[1]:  # the dataset's own
        changes["data.img_size"] = None
    if DATASETS[data.name].source == "folder":
        changes["data.root"] = str(Path(data.root).resolve())
    return run_id(override(config, changes) if changes else config)


def _label_variants(study: Study, parsed: list[Variant]) -> dict[str, tuple[Levels, RunConfig]]:
    """Label -> (value of every single path, configuration). Raises `UserError` where two variants are the same."""
    variants: dict[str, tuple[Levels, RunConfig]] = {}
    labels: dict[str, str] = {}  # run id -> label
    for levels, paths, config in parsed:
        label = study.label(levels)
        if study.metric not in config.metrics:
            raise UserError(
                f"{study.name}: metric: variant {label!r} does not measure {study.metric}; set "
                f"{Metric(study.metric).settings} in `base`"
            )
        twin = labels.setdefault(_meaning(config), label)
        if label in variants or twin != label:
            raise UserError(f"{study.name}: factors: the variants {twin!r} and {label!r} are the same")
        variants[label] = paths, config
    return variants


def _check_effects(study: Study, variants: list[tuple[Levels, RunConfig]]) -> None:
    """Raise `UserError` where a factor has no effect in any variant: its levels would be compared with themselves."""
    for path in variants[0][0]:
        need = missing_need(path, [config for _, config in variants])
        if need and len({levels[path] for levels, _ in variants}) > 1:
            raise UserError(f"{study.name}: factors: {path}: has no effect in any variant; it needs {need}")


def _check_sources(study: Study, runs: list[RunSpec]) -> None:
    """Raise `UserError` where a variant cannot start from the run in its `init_from`."""
    starting = {(run.variant, run.config.split_seed): run for run in runs if run.config.init_from is not None}
    for run in starting.values():
        from experiments.runs.init_from import check_planned  # it imports torch

        try:
            check_planned(run.config)
        except UserError as error:
            raise UserError(f"{study.name}: variant {run.variant!r}: {error}") from error


def _baseline(study: Study, variants: Mapping[str, Levels]) -> str:
    """The label of the variant that `study.baseline` gives by its label, its level or its levels."""
    given = study.baseline
    if given is None:
        return next(iter(variants))
    if isinstance(given, Mapping):
        try:
            wanted = split_linked({str(factor).replace("-", "_"): level for factor, level in given.items()})
        except (TypeError, ValueError):  # a linked factor without a list of as many values
            wanted = {}
        found = [label for label, levels in variants.items() if wanted and _matches(levels, wanted)]
        given = ", ".join(f"{factor}={format_level(level)}" for factor, level in given.items())
    else:
        given = ", ".join(map(format_level, given)) if isinstance(given, list) else format_level(given)
        found = [label for label in variants if label == given]
    if len(found) > 1:
        raise UserError(f"{study.name}: baseline: {given!r} matches several variants: {'; '.join(found)}")
    if not found:
        raise UserError(f"{study.name}: baseline: {given!r} is not a variant; {nearest(given, list(variants))}")
    return found[0]


def _matches(levels: Levels, wanted: Levels) -> bool:
    return all(path in levels and format_level(levels[path]) == format_level(level) for path, level in wanted.items())


def make_run(label: str, levels: Levels, config: RunConfig, seed: int) -> RunSpec:
    """The run of a variant with a seed. The name of its folder shows the variant, the seed and the run id."""
    config = config.model_copy(update={"seed": seed})  # already validated: the variant here, the seed by the study
    slug = re.sub(r"[^A-Za-z0-9._=,+-]+", "-", label.replace(", ", ","))[:MAX_SLUG].strip(".-,") or "variant"
    return RunSpec.of(f"{slug}-s{seed}-{{}}", config, label, levels)
