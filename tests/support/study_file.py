"""study.json as plain JSON, apart from the code under test."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.study import Study


def read_study(study_dir: Path) -> dict[str, Any]:
    return json.loads((study_dir / "study.json").read_text())


def write_study(study_dir: Path, tree: Mapping[str, Any]) -> None:
    (study_dir / "study.json").write_text(json.dumps({"schema": 2, **tree}, indent=1, ensure_ascii=False) + "\n")


def plan(levels: Mapping[str, Mapping[str, Any]], seeds: int = 5, **more: Any) -> Study:
    """A plan of these variants. `levels`: variant -> its levels."""
    runs = [
        {"run": f"{variant}-s{seed}", "run_id": "", "variant": variant, "levels": own, "seed": seed}
        for seed in range(seeds)
        for variant, own in levels.items()
    ]
    fields = {"name": "plan", "factors": {"model.depth": [1]}, "metric": "test/acc", "margin": 0.01, "base": {}}
    runs = more.get("runs", runs)
    of_runs = {"runs": runs, "seeds": sorted({run["seed"] for run in runs})}
    return Study.parse({**fields, "baseline": next(iter(levels)), **of_runs, **more}, "")


def tuned(levels: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The content of a tuned.yaml with one trial of each variant. `settings`: variant -> those that were chosen."""
    chosen = {variant: {"settings": own, "trial": 0, "val/acc": 0.5, "epochs": 1} for variant, own in settings.items()}
    trial = {"seed": 1_000_000, "status": "finished"}
    return {
        **{
            "schema": 1,
            "study": "own",
            "objective": "val/acc",
            "sampler": "tpe",
            "pruner": "none",
            "budget": 1,
            "seeds_per_trial": 1,
        },
        **{"space": {"optim.lr": {"low": 0.001, "high": 0.1, "log": True}}, "base": {}, "code": {}},
        "variants": {variant: {"levels": levels[variant], **own, "importances": {}} for variant, own in chosen.items()},
        "trials": [{"variant": variant, **trial, **own} for variant, own in chosen.items()],
    }
