"""Read a study's plan, study.json, and check every field that a report uses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.config import DEFAULTS, completed
from experiments.runs import record

TYPES = {
    "factors": dict,
    "base": dict,
    "runs": list,
    "seeds": list,
    "extra": list,
    "name": str,
    "description": str,
    "command": str,
    "study": dict,
    "notes": list,
    "tuned": dict,
}
REQUIRED = ("factors", "base", "runs", "seeds", "name")
SECTIONS = {path.partition(".")[0] for path in DEFAULTS if "." in path}


def read_plan(study_dir: Path) -> dict[str, Any]:
    """The plan of a study. Raises `RecordError` naming the first field that is missing or wrong."""
    path = study_dir / record.STUDY
    plan = record.read_study(study_dir)
    _check_types(plan, path)
    margin = plan["margin"]
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not margin > 0:
        raise record.RecordError(f"{path}: margin: {margin!r} is not a positive number")
    looks = plan.get("looks", [])
    if (
        not isinstance(looks, list)
        or any(type(n) is not int for n in looks)
        or looks != sorted({n for n in looks if n > 1})
    ):
        raise record.RecordError(f"{path}: looks: {looks!r} is not a list of rising numbers of seeds from 2 on")
    _check_runs(plan["runs"], path)
    if not plan["runs"]:
        raise record.RecordError(f"{path}: runs: the study is empty; there is nothing to report")
    if plan["baseline"] not in [str(entry["variant"]) for entry in plan["runs"]]:
        raise record.RecordError(f"{path}: baseline: no run has the variant {plan['baseline']!r}")
    if "source" not in plan:
        plan["base"] = completed(plan["base"])
        if not plan["factors"]:
            raise record.RecordError(f"{path}: factors: is empty; a study has at least one factor")
    return plan


def _check_types(plan: Mapping[str, Any], path: Path) -> None:
    for key, kind in TYPES.items():
        if not isinstance(plan.get(key, kind()), kind) and not (plan[key] is None and key not in REQUIRED):
            raise record.RecordError(f"{path}: {key}: is a {type(plan[key]).__name__}, not a {kind.__name__}")
    for key, items in (("factors", plan["factors"].items()), ("base", plan["base"].items())):
        for name, value in items:
            if key == "factors" and not isinstance(value, list):
                raise record.RecordError(f"{path}: factors: {name}: {str(value)[:60]!r} is not a list of levels")
            if name in SECTIONS and key == "base" and not isinstance(value, dict):
                raise record.RecordError(f"{path}: base: {name}: {str(value)[:60]!r} is not a section of settings")
    if any(type(seed) is not int for seed in plan["seeds"]):
        raise record.RecordError(f"{path}: seeds: {str(plan['seeds'])[:60]} is not a list of integers")


def _check_runs(runs: list[Any], path: Path) -> None:
    """Raise `RecordError` where an entry lacks a field, or where two would be counted as one run."""
    known: dict[Any, str] = {}
    for entry in runs:
        if not isinstance(entry, dict) or not {"run", "run_id", "variant", "seed"} <= entry.keys():
            raise record.RecordError(f"{path}: runs: {str(entry)[:80]!r} lacks run, run_id, variant or seed")
        run, seed = entry["run"], entry["seed"]
        if not isinstance(run, str) or type(seed) is not int:
            raise record.RecordError(
                f"{path}: runs: {run!r}, seed {seed!r}: expected the name of a folder and an integer"
            )
        for key, what in ((run, "is listed twice"), ((str(entry["variant"]), seed), "has the variant and seed of")):
            if key in known:
                raise record.RecordError(f"{path}: runs: {run} {what}{f' {known[key]}' if key != run else ''}")
            known[key] = run
