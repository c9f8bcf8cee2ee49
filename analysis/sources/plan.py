"""Read a study's plan, study.json, and check every field that a report uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.config import completed
from experiments.runs import record


def read_plan(study_dir: Path) -> dict[str, Any]:
    """The plan of a study. Raises `RecordError` naming the first field that is missing or wrong."""
    path = study_dir / record.STUDY
    plan = record.read_study(study_dir)
    for key, kind in (("factors", dict), ("base", dict), ("runs", list)):
        if not isinstance(plan[key], kind):
            raise record.RecordError(f"{path}: {key}: is a {type(plan[key]).__name__}, not a {kind.__name__}")
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
    for entry in plan["runs"]:
        if not isinstance(entry, dict) or not {"run", "run_id", "variant", "seed"} <= entry.keys():
            raise record.RecordError(f"{path}: runs: {str(entry)[:80]!r} lacks run, run_id, variant or seed")
    if not plan["runs"]:
        raise record.RecordError(f"{path}: runs: the study is empty; there is nothing to report")
    if plan["baseline"] not in [str(entry["variant"]) for entry in plan["runs"]]:
        raise record.RecordError(f"{path}: baseline: no run has the variant {plan['baseline']!r}")
    plan["base"] = completed(plan["base"]) if "source" not in plan else plan["base"]
    return plan
