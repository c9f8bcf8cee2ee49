"""What must be equal among compared runs: a variant's model, the images, settings outside the factors, the plan."""

from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.runs.runs import ENDED, IMAGES, PLACES, Runs, factor_levels, level_text, nested
from experiments.catalogue import DATASETS
from experiments.config import DEFAULTS, LOCATIONS, unplaced
from experiments.errors import UserError
from experiments.study import Study

CHOOSE_IMAGES = tuple(
    f"data.{name}" for name in ("name", "root", "classes", "split_seed", "val_fraction", "test_fraction", "train_limit")
)
"""The settings that determine which images a run uses."""


def check_one_model(study: Runs, skip: bool = False) -> Runs:
    """The study, if the ended runs of each variant are of one model: one parameter count, one source of a plug-in.

    Raises `UserError` where they are not. With `skip`, the runs that differ from most of their variant are excluded
    instead, as unreadable, with the reason in `troubles`.
    """
    ended, troubles = study.of(*ENDED), dict[str, str]()
    for variant, models in _models(ended).groupby(ended.set_index("run")["variant"], sort=False):
        counts = models.value_counts(sort=False)  # in the order of the runs
        usual = counts.idxmax()
        if len(counts) > 1 and not skip:
            sizes = {model: f"{n} runs" if n > 1 else models[models == model].index[0] for model, n in counts.items()}
            listed = "; ".join(f"{model} ({runs})" for model, runs in sizes.items())
            advice = f"train them again with one model, or report only those with {usual} by --skip-unreadable"
            raise UserError(f"{study.name}: the runs of {variant!r} are not of one model: {listed}; {advice}")
        for run, model in models[models != usual].items():
            troubles[str(run)] = f"has {model}, but most runs of {variant} have {usual}, so it is another model"
    status = study.runs["status"].mask(study.runs["run"].isin(troubles), "unreadable")
    return replace(study, runs=study.runs.assign(status=status), troubles={**study.troubles, **troubles})


def _models(ended: pd.DataFrame) -> pd.Series:
    """Run -> a text that is equal for runs of one model. Runs of which nothing is known are left out."""
    plugged, texts = set(ended.loc[ended["plugin_digest"].notna(), "variant"]), {}
    columns = ["run", "variant", "params", "params_fixed", "plugin_digest"]
    for run, variant, params, fixed, digest in ended[columns].itertuples(index=False):
        parts = [f"{int(params):,} parameters"] if pd.notna(params) else []
        parts += [f"{int(fixed):,} fixed values"] if pd.notna(fixed) and fixed else []
        if variant in plugged:
            parts.append(f"plug-in source {digest[:12] if isinstance(digest, str) else 'not recorded'}")
        texts[run] = " and ".join(parts)
    return pd.Series({run: text for run, text in texts.items() if text}, dtype=object)


def changed_images(study: Runs) -> list[str]:
    """Variants whose runs used other images than a run with the same settings of the data, in the order of the runs.

    The records state the numbers of images and, for the user's own files, a hash. A missing value is not compared.
    """
    ended = study.of(*ENDED)
    settings = [path for path in CHOOSE_IMAGES if path in ended and (path in study.varied or path not in PLACES)]
    alike = factor_levels(ended, "+".join(settings)).fillna("")
    changed = (ended[[*IMAGES, "image_files"]].groupby(alike).transform("nunique") > 1).any(axis=1)
    return [str(variant) for variant in ended.loc[changed, "variant"].unique()]


def not_held_fixed(study: Runs) -> dict[str, list[str]]:
    """Settings outside the factors that differ between ended runs: path -> values. Empty for a clean ablation.

    Settings that were tuned for each variant are not listed.
    """
    ended = study.of(*ENDED)
    ignored = {*study.varied, *PLACES, *study.plan.tuned_settings}
    settings = [column for column in ended.columns if column in study.base and column not in ignored]
    values = {path: list(dict.fromkeys(level_text(value) for value in ended[path].unique())) for path in settings}
    return {path: texts for path, texts in values.items() if len(texts) > 1}


def varying(study: Runs) -> set[str]:
    """The settings that differ between runs: the factors, those that were tuned, and what was not held fixed."""
    return {*study.varied, *study.plan.tuned_settings, *not_held_fixed(study)}


def plan_changes(study: Runs) -> dict[str, dict[Any, int]]:
    """A field of the study that was changed -> its value before, as text -> the number of runs that had ended then.

    The value is None where only the change is known. Empty for a table.
    """
    plan, changes = study.stated_plan, dict[str, dict[Any, int]]()
    states = plan.earlier if isinstance(plan, Study) else []
    for place, state in enumerate(states):
        for field in {field: None for later in states[place:] for field in later.stated}:
            then = next(later.stated[field] for later in states[place:] if field in later.stated)
            if then is None or then != getattr(plan, field):
                before, text = changes.setdefault(field, {}), then if then is None else level_text(then)
                before[text] = before.get(text, 0) + state.runs
    return changes


def without_locations(study: Runs) -> Runs:
    """The study with the settings that only say where files are at their defaults, but for those that it varies.

    Of an imagefolder, the name stays; see `unplaced`.
    """
    if study.base.get("data.name") not in DATASETS:
        return study
    places = [path for path in LOCATIONS if path in study.base and path not in study.varied]
    named = {**DEFAULTS, **unplaced(study.base)}
    plan = study.plan.changed(base=nested({**study.base, **{path: named[path] for path in places}}))
    runs = study.runs.copy()
    for path in set(places) & set(runs):
        runs[path] = runs[path].where(runs[path].isna(), named[path])
    return replace(study, plan=plan, runs=runs)
