"""A study: what is compared and how, and its runs. One type for the YAML file, study.json, a sweep and a report.

This module imports no torch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, StrictInt, ValidationInfo, field_validator, model_validator

from experiments.compared import (
    KIND,
    MAX_RUNS,
    SCHEMA,
    Compared,
    Levels,
    Name,
    RunSpec,
    Seeds,
    check_names,
    read_margin,
    runs_of,
)
from experiments.config import SECTIONS, RunConfig, changed_settings, flatten, override, unplaced
from experiments.errors import format_level
from experiments.files import RecordError, read_json, write_json
from experiments.metric import Metric
from vit.registry import REGISTRY, nearest

STUDY = "study.json"
OLDER = "5882561a"  # the last commit that reads and resumes studies of the schema before
REFERENCE = Path(__file__).resolve().parents[1] / "analysis" / "reference"  # of a checkout: exports of its authors
GRID = ("tuning", "base", "factors", "extra")  # fields that decide which runs a study has
COMPARISON = ("baseline", "metric", "margin", "looks", "variance", "family")  # stay after the first run
OTHER_FOLDERS = ("locks", "report", "tuning", "wandb")  # in a study's folder, beside those of its runs
OTHER_FILES = (".db", ".json", ".jsonl", ".lock", ".log", ".yaml")  # endings of the files there
WHY_OTHER = "another version trained it, or the source of its plug-in was changed or is not recorded there"
"""Why a run of study.json has another run id here, though its settings are the same."""


class Reuse(BaseModel, frozen=True, extra="forbid"):
    """An export whose runs a study takes as they are, and the SHA-256 of its runs.csv.

    `folder`: an absolute path; relative in study.json, like plug-ins; only `name` in an export.
    """

    folder: Annotated[str, Field(pattern=r"^[^\x00-\x1f]+$")]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    @property
    def name(self) -> str:
        """The path in analysis/reference, else the name of the folder."""
        path = Path(self.folder)
        if path.is_relative_to(REFERENCE):
            return path.relative_to(REFERENCE).as_posix()
        return path.name if path.is_absolute() else self.folder


class Earlier(BaseModel, frozen=True, extra="forbid"):
    """What a study stated before a change. `runs`: the number of those that had ended, without those of earlier states.

    `stated`: a field that was changed -> its value before; None where it is not known.
    """

    runs: StrictInt
    stated: dict[str, Any]


class Study(Compared, frozen=True, extra="forbid"):
    """An ablation: every combination of the factors' levels, and the `extra` variants, each with every seed.

    A factor is a dotted path of `RunConfig`. Paths joined by "+" change together; a level of such a factor is a list
    with one value per path. The first fields are those of the YAML file; `sweeps.plan` checks the levels, writes them
    as the configuration parses them, and adds the others. `base`: dotted settings in the file, nested ones after that.
    """

    name: Name = Field(description="also the name of its folder")
    plugins: list[str] = Field(
        [], exclude=True, description="files with classes and datasets of your own, relative to the study's"
    )
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(min_length=1)
    extra: list[Annotated[Levels, Field(min_length=1)]] = Field(
        [], description="variants beyond the product; a factor that is left out is as in base"
    )
    base: dict[str, Any] = Field(
        {}, description="name of a preset; or dotted settings, with an optional `preset` or `study`, a built-in one"
    )
    baseline: Any = Field(None, description="a label, a level or levels; default: the first variant")
    seeds: Seeds = Field([0, 1, 2, 3, 4], description="n for 0..n-1, or a list")
    metric: str = "test/acc"
    margin: float = Field(0.01, description="margin of the equivalence tests")
    variance: Literal["shared", "paired"] = Field(
        "shared",
        description="standard errors of differences: shared (the variant's own and the average of all), or paired",
    )
    tuned: str | None = Field(
        None,
        exclude=True,
        description="the settings of each variant: a tuned.yaml of `vit-sweep tune`, relative to the study's file",
    )
    reuse: list[str] = Field(
        [], exclude=True, description="exports whose runs are taken as they are: paths, or names in analysis/reference"
    )
    preset: str = ""
    sources: list[Reuse] = []  # what `reuse` names; only the study's own folder is read with it, see `runs.exports`
    earlier: list[Earlier] = []

    @field_validator("factors", "names", "base", "baseline", "extra", mode="before")
    @classmethod
    def _normalize_paths(cls, value: Any, info: ValidationInfo) -> Any:
        if info.field_name == "base" and isinstance(value, str):
            return {"preset": value}
        if isinstance(value, list):
            return [cls._normalize_paths(item, info) for item in value]
        if not isinstance(value, Mapping):
            return value
        renamed = {str(path).replace("-", "_"): item for path, item in value.items()}
        if len(renamed) < len(value):
            raise ValueError(f"{', '.join(map(str, value))}: two of these are the same setting")
        if info.field_name == "factors" and renamed.get(KIND) == "all":  # every kind that is known, also from plug-ins
            renamed[KIND] = list(REGISTRY)
        return renamed

    @field_validator("margin", mode="before")
    @classmethod
    def _read_margin(cls, margin: Any, info: ValidationInfo) -> float:
        """A number, or a text with a unit of accuracies: `1 point`, `0.5 points` or `0.5 %`."""
        return read_margin(margin, Metric(info.data.get("metric", "test/acc")).is_share)

    @field_validator("base")
    @classmethod
    def _check_base(cls, base: dict[str, Any]) -> dict[str, Any]:
        for name in SECTIONS & base.keys():
            if not isinstance(base[name], dict):
                raise ValueError(f"{name}: {str(base[name])[:60]!r} is not a section of settings")
        check_names(changed_settings(base))
        return base

    @field_validator("runs")
    @classmethod
    def _check_folders(cls, runs: list[RunSpec]) -> list[RunSpec]:
        """The runs have folders of their own in the study's."""
        for name in (run.name for run in runs):
            is_folder = name.isprintable() and Path(name).name == name and name not in ("", "..")
            if not is_folder or name in OTHER_FOLDERS or name.endswith(OTHER_FILES):
                raise ValueError(f"{name!r} is not the name of a folder")
        return runs

    @model_validator(mode="after")
    def _check_factors(self) -> Self:
        variants = math.prod(map(len, self.factors.values())) + len(self.extra)
        if (runs := variants * len(self.seeds)) > MAX_RUNS:
            raise ValueError(f"factors, seeds: {variants:,} variant(s) are {runs:,} runs; allowed: up to {MAX_RUNS:,}")
        if not self.runs and self.looks and len(self.seeds) > self.looks[-1]:
            more = f"{len(self.seeds)} are more than the last planned look tests, {self.looks[-1]}"
            raise ValueError(f"seeds: {more}")
        paths = [path for factor in self.factors for path in factor.split("+")]
        for path in paths:
            if not path or paths.count(path) > 1:
                raise ValueError(f"factors: {path!r} {'occurs twice' if path else 'is not a setting'}")
        if "seed" in paths:
            raise ValueError("factors: seed cannot be a factor; list the seeds in `seeds`")
        for field, shown_names, what in (("names", self.names, "factors"), ("labels", self.labels, "variants")):
            if len(set(shown_names.values())) < len(shown_names):
                raise ValueError(f"{field}: {', '.join(shown_names.values())}: two {what} have the same name")
        baseline = self.baseline if isinstance(self.baseline, Mapping) else {}
        for field, named in (("names", self.names), ("baseline", baseline), *(("extra", of) for of in self.extra)):
            if unknown := [factor for factor in named if factor not in self.factors]:
                raise ValueError(f"{field}: {unknown[0]} is not a factor; {nearest(unknown[0], list(self.factors))}")
        listed = [(factor, level) for factor, levels in self.factors.items() for level in levels]
        for factor, level in (*listed, *(item for levels in (baseline, *self.extra) for item in levels.items())):
            _check_level(factor, level)
        if self.runs and {*self.seeds} != (seeds := {run.seed for run in self.runs}):
            raise ValueError(f"seeds: {str(self.seeds)[:60]} are not the seeds of the runs, {str(sorted(seeds))[:60]}")
        return self

    @classmethod
    def read(cls, study_dir: Path) -> Study:
        """Read STUDY/study.json, the plan of run folders. Raises `RecordError`, also where the runs have none."""
        path = Path(study_dir) / STUDY
        try:
            tree = read_json(path)
        except RecordError as error:
            if not path.is_file():
                raise
            advice = "move it away; the same `vit-sweep run` writes it again, and finished runs stay"
            raise RecordError(f"{error}; {advice}") from error
        if tree.get("schema") == SCHEMA - 1:
            advice = f"commit {OLDER}, or the one in its records, reads and resumes it"
            raise RecordError(f"{path}: is of an earlier version; {advice}")
        if tree.get("export") is not None or tree.get("source"):
            kind = "a table" if tree.get("source") else "an exported study"
            raise RecordError(f"{path}: holds {kind}, which has no run folders (see vit-report); choose another --out")
        study, folder = cls.parse(tree, str(path)), path.parent.resolve()
        if not study.runs:
            raise RecordError(f"{path}: runs: is required")
        return study.placed(lambda file: os.path.normpath(folder / file))

    def write(self, study_dir: Path) -> None:
        """Write STUDY/study.json. Paths of plug-ins and sources are relative to the folder."""
        folder = Path(study_dir).resolve()
        study = self.placed(lambda file: os.path.relpath(file, folder))
        write_json(Path(study_dir) / STUDY, study.tree() | ({"plugins": study.plugins} if study.plugins else {}))

    def placed(self, place: Any) -> Study:
        """The study with other paths of its plug-ins and sources: `place` maps each."""
        sources = [source.model_copy(update={"folder": place(source.folder)}) for source in self.sources]
        changes = {"plugins": [place(file) for file in self.plugins], "sources": sources}
        return self.changed(**{name: paths for name, paths in changes.items() if paths})

    def configured(self) -> Study:
        """The study with the configuration of every run. Raises `UserError` where this version does not allow one."""
        configs = {label: override(RunConfig(), self.settings(run)) for label, run in self.variants.items()}
        runs = [run.configured(configs[run.variant].model_copy(update={"seed": run.seed})) for run in self.runs]
        return self.changed(runs=runs)

    def extended(self, old: Study, ended: int) -> Study:
        """The study with what the one in its folder, `old`, has more: seeds, names of runs, sources, earlier states.

        `ended`: the number of runs of `old` that have ended. What they were planned by is then an earlier state.
        """
        seeds = list(dict.fromkeys([*old.seeds, *self.seeds]))
        names = {run.run_id: run.name for run in old.runs}
        runs = runs_of(self.variants.values(), seeds)
        runs = [run.model_copy(update={"name": names.get(run.run_id, run.name)}) for run in runs]
        new = self.changed(seeds=seeds, runs=runs, **({"earlier": old.earlier} if old.earlier else {}))
        before, after = (study._stated(("seeds", "factors", "extra", *COMPARISON), new) for study in (old, new))
        changed = {field: value for field, value in before.items() if value != after[field]}
        if changed and (fresh := ended - sum(state.runs for state in old.earlier)) > 0:
            return new.changed(earlier=[*old.earlier, Earlier(runs=fresh, stated=changed)])
        return new

    def difference(self, new: Study, finished: bool) -> str:
        """What makes `new`, an extension of this study, another one, in one line; "" where nothing does.

        It may have more seeds, levels and factors. Until a run has `finished` it may also be compared otherwise.
        """
        ids, why = {run.run_id for run in new.runs}, ""
        if lost := [run for run in self.runs if run.run_id not in ids]:
            before, after = self._grid, new._grid
        elif finished:
            before, after = self._stated(COMPARISON, new), new._stated(COMPARISON, new)
            why = ", and it cannot change after the first run has finished"
        else:
            return ""
        for path in {**before, **after}:
            if before.get(path) != after.get(path):
                return f"{path} is {format_level(before.get(path))} there and {format_level(after.get(path))} here{why}"
        return f"{lost[0].name} is not among the runs here: {WHY_OTHER}" if lost else ""

    def _stated(self, fields: Iterable[str], new: Study) -> dict[str, Any]:
        """Some fields. The baseline is as `new` calls it: more factors give longer labels."""
        labels = {run.run_id: run.variant for run in new.runs}
        baseline = labels.get(self.variants[self.baseline].run_id, self.baseline)
        return {**{field: getattr(self, field) for field in fields}, "baseline": baseline}

    @property
    def _grid(self) -> dict[str, Any]:
        """What decides which runs a study has, in one level."""
        tuned = {label: variant.settings for label, variant in self.tuning.variants.items()} if self.tuning else {}
        base = unplaced(dict(flatten(self.base)))
        return dict(flatten({**{field: getattr(self, field) for field in GRID}, "base": base, "tuning": tuned}))


def _check_level(factor: str, level: Any) -> None:
    count = len(factor.split("+"))
    if count > 1 and not (isinstance(level, list) and len(level) == count):
        raise ValueError(f"factors: {factor}: {level!r} is not allowed: expected a list of {count} values")
    for value in level if count > 1 else [level]:
        if not isinstance(value, str | int | float | None):
            raise ValueError(f"factors: {factor}: {value!r} is not allowed: expected a single value")


OURS = ("format", "preset", "lower_is_better", "source", "notes", "tuning", "sources", "command", "runs", "earlier")
FIELDS = Study.file_fields = tuple(name for name in Study.model_fields if name not in OURS)  # of the YAML file
