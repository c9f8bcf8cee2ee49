"""Refuse to pool runs of one variant that are not of one model: other parameter counts, or another plug-in's source."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from analysis.sources.runs_table import ENDED, RunsTable
from experiments.errors import UserError
from vit.registry import BUILTIN


def check_pooling(study: RunsTable, skip: bool = False) -> RunsTable:
    """The study, if the ended runs of each variant are of one model.

    Raises `UserError` where they are not. With `skip`, the runs that differ from most of their variant are excluded
    instead, as unreadable, with the reason in `troubles`.
    """
    troubles: dict[str, str] = {}
    for variant, runs in study.of(*ENDED).groupby("variant", sort=False):
        models = _models(runs)
        counts = models.value_counts(sort=False)  # in the order of the runs
        if len(counts) < 2:
            continue
        usual = counts.idxmax()
        if not skip:
            raise UserError(
                f"{study.name}: the runs of {variant!r} are not of one model: {_listed(models)}; train them again with one "
                f"model, or report only those with {usual} by --skip-unreadable"
            )
        for run, model in models[models != usual].items():
            troubles[run] = f"has {model}, but most runs of {variant} have {usual}, so it is another model"
    if not troubles:
        return study
    runs = study.runs.copy()
    runs.loc[runs["run"].isin(troubles), "status"] = "unreadable"
    return replace(study, runs=runs, troubles={**study.troubles, **troubles})


def unrecorded_plugins(study: RunsTable) -> pd.DataFrame:
    """The ended runs that use a plug-in whose source is in no record, as in records of older versions."""
    ended = study.of(*ENDED)
    if "model.pos_embed" not in ended:
        return ended.iloc[:0]
    plugin = ended["model.pos_embed"].map(lambda kind: isinstance(kind, str) and kind not in BUILTIN)
    return ended[plugin.astype(bool) & ended["plugin_digest"].isna()]


def _models(runs: pd.DataFrame) -> pd.Series:
    """Run -> a text that is equal for runs of one model. Runs of which nothing is known are left out."""
    known = runs["plugin_digest"].notna().any()
    texts = {}
    for run, params, fixed, digest in zip(runs["run"], runs["params"], runs["params_fixed"], runs["plugin_digest"]):
        parts = [f"{int(params):,} parameters"] if pd.notna(params) else []
        parts += [f"{int(fixed):,} fixed values"] if pd.notna(fixed) and fixed else []
        if known:
            parts.append(f"plug-in source {digest[:12] if isinstance(digest, str) else 'not recorded'}")
        texts[run] = " and ".join(parts)
    return pd.Series({run: text for run, text in texts.items() if text}, dtype=object)


def _listed(models: pd.Series) -> str:
    """`28,138 parameters (5 runs); 26,362 parameters (row-only-s5-1a2b3c4d)`."""
    groups = [(model, list(runs.index)) for model, runs in models.groupby(models, sort=False)]
    return "; ".join(f"{model} ({runs[0] if len(runs) == 1 else f'{len(runs)} runs'})" for model, runs in groups)
