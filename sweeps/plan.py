"""From a study to its runs: every variant is checked against a base configuration, labelled and crossed with the seeds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.config import RunConfig, flatten, override, run_id
from experiments.errors import UserError
from experiments.presets import PRESETS, preset
from experiments.runs.spec import RunSpec
from sweeps.study import Levels, Study, format_level, split_linked
from vit.registry import nearest

MAX_SLUG = 60  # characters of a variant's label in the name of a folder


@dataclass(frozen=True)
class Plan:
    """A study on a base configuration, and its runs. The runs are ordered by seed, so that early results are paired."""

    study: Study
    preset: str
    base: RunConfig
    factors: dict[str, list[Any]]  # levels as the configuration parses them: "1e-3" as 0.001
    extra: list[Levels]
    baseline: str
    runs: list[RunSpec]

    def base_changes(self) -> dict[str, Any]:
        """The settings of the base that differ from the preset, by dotted path."""
        usual = dict(flatten(preset(self.preset).model_dump()))
        return {path: value for path, value in flatten(self.base.model_dump()) if value != usual[path]}


def make_plan(study: Study, preset_name: str | None = None, changes: Mapping[str, Any] | None = None) -> Plan:
    """Check every variant of a study and list its runs. `preset_name` and `changes` override the study's own base.

    Raises `UserError` naming the first setting, level or combination that is not allowed.
    """
    name, base = base_config(study, preset_name, changes or {})
    parsed = [_parse_levels(study, base, levels) for levels in study.variants()]
    product, extra = parsed[: len(parsed) - len(study.extra)], parsed[len(parsed) - len(study.extra) :]
    variants = _label_variants(study, parsed)
    factors: dict[str, list[Any]] = {factor: [] for factor in study.factors}
    for levels, _ in product:
        for factor, level in levels.items():
            if level not in factors[factor]:
                factors[factor].append(level)
    baseline = _baseline(study, {label: levels for label, (levels, _) in variants.items()})
    runs = [_run(label, *variant, seed) for seed in study.seed_list for label, variant in variants.items()]
    return Plan(study, name, base, factors, [levels for levels, _ in extra], baseline, runs)


def base_config(study: Study, preset_name: str | None, changes: Mapping[str, Any]) -> tuple[str, RunConfig]:
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
    return name, override(config, {**own, **changes})


def _parse_levels(study: Study, base: RunConfig, levels: Levels) -> tuple[Levels, RunConfig]:
    """The configuration of a variant, and its levels as that configuration parses them."""
    try:
        config = override(base, split_linked(levels))
    except UserError as error:
        raise UserError(f"{study.name}: variant {study.label(levels)!r}: {error}") from error
    flat = dict(flatten(config.model_dump()))
    return {f: [flat[path] for path in f.split("+")] if "+" in f else flat[f] for f in levels}, config


def _label_variants(study: Study, parsed: list[tuple[Levels, RunConfig]]) -> dict[str, tuple[Levels, RunConfig]]:
    """Label -> (value of every single path, configuration). Raises `UserError` where two variants are the same."""
    variants: dict[str, tuple[Levels, RunConfig]] = {}
    labels: dict[str, str] = {}  # run id -> label
    for levels, config in parsed:
        label, flat = study.label(levels), dict(flatten(config.model_dump()))
        twin = labels.setdefault(run_id(config), label)
        if label in variants or twin != label:
            raise UserError(f"{study.name}: factors: the variants {twin!r} and {label!r} are the same")
        variants[label] = {path: flat[path] for factor in study.factors for path in factor.split("+")}, config
    return variants


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


def _run(label: str, levels: Levels, config: RunConfig, seed: int) -> RunSpec:
    config = config.model_copy(update={"seed": seed})  # already validated: the variant here, the seed by the study
    slug = re.sub(r"[^A-Za-z0-9._=,+-]+", "-", label.replace(", ", ","))[:MAX_SLUG].strip(".-,") or "variant"
    return RunSpec(f"{slug}-s{seed}-{run_id(config)[:8]}", config, label, levels)
