"""From a study to its runs: every variant is checked against a base, labelled and crossed with the seeds."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from experiments.checks import check_plugin, missing_need
from experiments.config import RunConfig, flatten, override, run_id
from experiments.errors import UserError
from experiments.metric import Metric
from experiments.presets import PRESETS, preset
from experiments.stated import Levels, baseline_of, check_last_look
from experiments.study import RunSpec, StudyPlan
from experiments.tuned import Tuned
from sweeps.study import Study, parse_study, split_linked
from vit.registry import nearest

MAX_SLUG = 60  # characters of a variant's label in the name of a folder


class Variant(NamedTuple):
    """A variant as its configuration parses it.

    `levels`: factor -> level; `settings`: path -> value, of all factors.
    """

    label: str
    levels: Levels
    settings: Levels
    config: RunConfig


def make_plan(study: Study, preset_name: str | None = None, changes: Mapping[str, Any] | None = None) -> StudyPlan:
    """Check every variant of a study and list its runs. `preset_name` and `changes` override the study's own base.

    The runs are ordered by seed, so that early results are paired. Raises `UserError` naming the first setting, level
    or combination that is not allowed.
    """
    name, base = _base(study, preset_name, changes or {})
    variants = [_variant(study, base, levels) for levels in study.variants()]
    _check_variants(study, variants)
    product, extra = variants[: len(variants) - len(study.extra)], variants[len(variants) - len(study.extra) :]
    _check_extra(study, product, extra)
    factors: dict[str, list[Any]] = {factor: [] for factor in study.factors}
    for factor, level in (item for variant in product for item in variant.levels.items()):
        if level not in factors[factor]:
            factors[factor].append(level)
    runs = [
        make_run(label, settings, config, seed) for seed in study.seed_list for label, _, settings, config in variants
    ]
    names = [variant.label for variant in variants]
    check_last_look(study.name, study.seed_list, study.looks)
    if unknown := [name for name in study.labels if name not in names]:
        raise UserError(f"{study.name}: labels: {unknown[0]!r} is not a variant; {nearest(unknown[0], names)}")
    return StudyPlan(
        **study.model_dump(include={"name", "description", "plugins", "metric", "margin", "looks", "variance"}),
        **study.model_dump(include={"family"}, exclude_defaults=True),
        preset=name,
        factors=factors,
        extra=[variant.levels for variant in extra],
        baseline=_baseline(study, variants),
        seeds=sorted(study.seed_list),
        base=base.model_dump(),
        definition={
            **study.model_dump(exclude_defaults=True, exclude={"tuned", "reuse"}),
            **({"plugins": [os.path.basename(file) for file in study.plugins]} if study.plugins else {}),
        },
        runs=runs,
    )


def make_run(label: str, levels: Levels, config: RunConfig, seed: int, tuned: Levels | None = None) -> RunSpec:
    """The run of a variant with a seed. The name of its folder shows the variant, the seed and the run id."""
    config = config.model_copy(update={"seed": seed})  # already validated: the variant here, the seed by the study
    slug = re.sub(r"[^A-Za-z0-9._=,+-]+", "-", label.replace(", ", ","))[:MAX_SLUG].strip(".-,") or "variant"
    return RunSpec.of(f"{slug}-s{seed}-{{}}", config, label, levels, tuned)


def with_seeds(plan: StudyPlan, seeds: int | list[int]) -> StudyPlan:
    """The plan with its variants on these seeds: N for 0 to N-1, or a list. Raises `UserError` as `make_plan` does."""
    stated = {"name": plan.name, "factors": plan.factors, "extra": plan.extra, "looks": plan.looks, "seeds": seeds}
    study = parse_study(stated, plan.name)
    check_last_look(study.name, study.seed_list, study.looks)
    runs = [
        make_run(run.variant, run.levels, run.config, seed, run.settings)
        for seed in study.seed_list
        for run in plan.variants.values()
    ]
    if plan.tuned:
        _check_untried(study.seed_list, plan.tuned)
    return plan.changed(runs=runs)


def apply_tuned(plan: StudyPlan, tuned: Tuned) -> StudyPlan:
    """The plan with the settings that were tuned for each of its variants.

    Raises `UserError` where a variant is missing, unknown or does not take its settings, and where a seed of the plan
    was used for tuning.
    """
    if different := sorted(set(plan.labels) ^ set(tuned.variants)):
        where = f"is not a variant of {plan.name}" if different[0] in tuned.variants else "has no settings"
        raise UserError(f"--tuned: {different[0]!r} {where}")
    _check_untried((run.seed for run in plan.runs), tuned)
    runs, configs = [], dict[str, RunConfig]()
    for run in plan.runs:
        if run.variant not in configs:
            chosen = tuned.variants[run.variant]
            if chosen.levels != run.levels:
                raise UserError(f"--tuned: variant {run.variant!r}: has other levels than in {plan.name}")
            if factors := [path for path in chosen.settings if path in run.levels]:
                raise UserError(f"--tuned: {factors[0]} is a factor of {plan.name}")
            try:
                configs[run.variant] = override(run.config, chosen.settings)
            except UserError as error:
                raise UserError(f"--tuned: variant {run.variant!r}: {error}") from error
        runs.append(
            make_run(run.variant, run.levels, configs[run.variant], run.seed, tuned.variants[run.variant].settings)
        )
    return plan.changed(runs=runs, tuned=tuned)


def _check_untried(seeds: Iterable[int], tuned: Tuned) -> None:
    if used := sorted({*seeds} & {seed for trial in tuned.trials for seed in trial.seeds}):
        raise UserError(f"--tuned: seed {used[0]} was used for tuning; compare the variants on other seeds")


def _base(study: Study, preset_name: str | None, changes: Mapping[str, Any]) -> tuple[str, RunConfig]:
    """The preset's name and the base of every variant: the preset, then the study's settings, then `changes`."""
    settings = {"preset": study.base} if isinstance(study.base, str) else dict(study.base)
    name = str(settings.pop("preset", "digits"))
    if preset_name is not None:
        name = preset_name
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
        config = override(base, split_linked(levels))
        check_plugin(config)
    except UserError as error:
        raise UserError(f"{study.name}: variant {study.label(levels)!r}: {error}") from error
    values = dict(flatten(config.model_dump()))
    settings = {path: values[path] for factor in study.factors for path in factor.split("+")}
    parsed = {f: [values[path] for path in f.split("+")] if "+" in f else values[f] for f in levels}
    return Variant(study.label(parsed), parsed, settings, config)


def _check_variants(study: Study, variants: Sequence[Variant]) -> None:
    """Raise `UserError` where a variant does not measure the metric, two are equal, or a factor has no effect."""
    labels: dict[str, str] = {}  # run id, or label -> label
    for variant in variants:
        if study.metric not in variant.config.metrics:
            settings = Metric(study.metric).needed_settings
            raise UserError(
                f"{study.name}: metric: variant {variant.label!r} does not measure {study.metric}; set {settings} in "
                "`base`"
            )
        for key in (run_id(variant.config), variant.label):
            if key in labels:
                raise UserError(
                    f"{study.name}: factors: the variants {labels[key]!r} and {variant.label!r} are the same"
                )
            labels[key] = variant.label
    for path in variants[0].settings:
        need = missing_need(path, [variant.config for variant in variants])
        if need and len({variant.settings[path] for variant in variants}) > 1:
            raise UserError(f"{study.name}: factors: {path}: has no effect in any variant; it needs {need}")


def _check_extra(study: Study, product: Sequence[Variant], extra: Sequence[Variant]) -> None:
    """Raise `UserError` where a variant of `extra` differs from all others in a factor that it does not state."""
    for variant in extra:
        stated = split_linked(variant.levels)
        for path, value in variant.settings.items():
            follows = value in (None, "natural")  # from other settings
            if path not in stated and not follows and all(one.settings[path] != value for one in product):
                said = f"does not state {path}; its value would be {value!r}, which no other variant has"
                raise UserError(f"{study.name}: extra: {variant.label!r} {said}")


def _baseline(study: Study, variants: Sequence[Variant]) -> str:
    """The label of the variant that `study.baseline` gives by its label, its level or its levels."""
    given = split_linked(dict(study.baseline)) if isinstance(study.baseline, Mapping) else study.baseline
    try:
        return baseline_of(given, {variant.label: variant.settings for variant in variants})
    except ValueError as error:
        raise UserError(f"{study.name}: {error}") from error
