"""A study's plan as data, study.json, and its runs, for sweeps and reports. This module imports no torch."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, StrictInt, ValidationError, field_validator, model_validator

from experiments.config import SECTIONS, RunConfig, changed_settings, override, run_id
from experiments.errors import first_line
from experiments.files import RecordError, read_json, write_json
from experiments.metric import EXPECTED, Metric, is_metric
from experiments.stated import Family, Looks, Margin, MetricName, Variance
from experiments.tuned import Tuned

STUDY = "study.json"
REFERENCE = Path(__file__).resolve().parents[1] / "analysis" / "reference"  # of a checkout: exports of its authors
GRID = ("tuned", "base", "factors", "extra")  # fields that decide which runs a study has
COMPARISON = ("baseline", "metric", "margin", "looks", "variance", "family")  # stay after the first run
OTHER_FOLDERS = ("locks", "report", "tuning", "wandb")  # in a study's folder, beside those of its runs
OTHER_FILES = (".db", ".json", ".jsonl", ".lock", ".log", ".yaml")  # endings of the files there


def _check_names(settings: Mapping[str, Any]) -> None:
    """The two names by which reports look settings up are text. Other values may be of earlier versions."""
    for path in ("data.name", "model.pos_embed"):
        if not isinstance(settings.get(path, ""), str):
            raise ValueError(f"{path}: {str(settings[path])[:60]!r} is not a name")


class RunSpec(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    """One run of a plan: its name, which is also that of its folder, its variant, the variant's levels, its seed.

    `levels` and `settings` are by dotted path. `settings` are those that differ from the defaults, and those in which
    its variant may differ from others. study.json does not repeat them: they follow from its base, levels and tuned
    settings.
    """

    name: str = Field(alias="run")
    run_id: str
    variant: str
    levels: dict[str, Any] = {}
    seed: StrictInt
    settings: dict[str, Any] = Field({}, exclude=True)

    @classmethod
    def of(
        cls,
        name: str,
        config: RunConfig,
        variant: str = "",
        levels: Mapping[str, Any] | None = None,
        tuned: Mapping[str, Any] | None = None,
    ) -> RunSpec:
        """The run of a configuration. In the name, `{}` is the place of the first 8 digits of the run id.

        `tuned`: the settings that were chosen for its variant.
        """
        digits = run_id(config)
        return cls(
            name=name.replace("{}", digits[:8]),
            run_id=digits,
            variant=variant,
            levels=dict(levels or {}),
            seed=config.seed,
            settings={**changed_settings(config.model_dump(exclude={"seed"})), **(levels or {}), **(tuned or {})},
        )

    @property
    def config(self) -> RunConfig:
        """The configuration. Raises `UserError` where this version does not allow it."""
        return _config_of(json.dumps(self.settings)).model_copy(update={"seed": self.seed})


@lru_cache(maxsize=1024)  # the runs of a variant share it
def _config_of(settings: str) -> RunConfig:
    return override(RunConfig(), json.loads(settings))


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


class StudyPlan(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    """A study: what is compared and how, and its runs. The fields are those of study.json, in its order.

    `factors`: levels as the configuration parses them. `base`: the nested settings that every run starts from. `seeds`:
    those of all runs. `definition`: the study file as the sweep read it, with the names of its plug-ins. `plugins`:
    absolute paths; study.json has them relative to its folder. A plan is changed by `changed`, which checks it again.
    """

    format: Literal[1] = Field(1, alias="schema")
    name: str
    description: str = ""
    preset: str = ""
    factors: dict[str, list[Any]]
    extra: list[dict[str, Any]] = []
    baseline: str
    metric: MetricName
    margin: Margin | None
    looks: Looks = []
    variance: Variance = "shared"
    family: Family = "all"
    seeds: list[StrictInt]
    base: dict[str, Any]
    command: str | None = None
    definition: dict[str, Any] = Field({}, alias="study")
    plugins: list[str] = Field([], exclude=True)  # an export has their source
    tuned: Tuned | None = None
    reuse: list[Reuse] = []  # left out where empty; only the study's own folder is read with it, see `runs.reused`
    runs: list[RunSpec] = Field(min_length=1)

    @field_validator("base")
    @classmethod
    def _check_base(cls, base: dict[str, Any]) -> dict[str, Any]:
        for name in SECTIONS & base.keys():
            if not isinstance(base[name], dict):
                raise ValueError(f"{name}: {str(base[name])[:60]!r} is not a section of settings")
        _check_names(changed_settings(base))
        return base

    @model_validator(mode="after")
    def _check_runs(self) -> StudyPlan:
        """No two runs may be counted as one."""
        self._check_source()
        known: dict[Any, str] = {}
        for run in self.runs:
            _check_names(run.levels)
            variant = run.variant, run.seed
            for key, what in ((run.name, "is listed twice"), (variant, "has the variant and seed of")):
                if key in known:
                    raise ValueError(f"runs: {run.name} {what}{f' {known[key]}' if key == variant else ''}")
                known[key] = run.name
        if self.tuned and (untuned := [label for label in self.labels if label not in self.tuned.variants]):
            raise ValueError(f"tuned.variants: has no settings for {untuned[0]!r}")
        if self.baseline not in self.labels:
            raise ValueError(f"baseline: no run has the variant {self.baseline!r}")
        if set(self.seeds) != (seeds := {run.seed for run in self.runs}):
            raise ValueError(f"seeds: {str(self.seeds)[:60]} are not the seeds of the runs, {str(sorted(seeds))[:60]}")
        return self

    def _check_source(self) -> None:
        """A planned study states its margin, and its runs have seeds and folders of their own in its folder."""
        if self.margin is None:
            raise ValueError("margin: is required")
        if self.variance == "unpaired":
            raise ValueError("variance: 'unpaired' is not allowed: the runs of a study have seeds")
        for run in self.runs:
            is_folder = run.name.isprintable() and Path(run.name).name == run.name and run.name not in ("", "..")
            if not is_folder or run.name in OTHER_FOLDERS or run.name.endswith(OTHER_FILES):
                raise ValueError(f"runs: {run.name!r} is not the name of a folder")

    def changed(self, **fields: Any) -> Self:
        """The plan with other fields, checked again. With other `runs`, the seeds are theirs. Raises `RecordError`."""
        if "runs" in fields:
            fields.setdefault("seeds", sorted({run.seed for run in fields["runs"]}))
        stated = {name: getattr(self, name) for name in self.model_fields_set}
        try:
            return self.model_validate({**stated, **fields})
        except ValidationError as error:
            raise RecordError(f"{self.name}: {first_line(error)}") from error

    @classmethod
    def parse(cls, tree: Any, source: str) -> StudyPlan:
        """A plan from its plain form, `Inferred` if it has a source. Raises `RecordError` naming the field."""
        kind = Inferred if isinstance(tree, Mapping) and tree.get("source") is not None else StudyPlan
        try:
            plan = kind.model_validate(tree)
        except ValidationError as error:
            raise RecordError(f"{source}: {first_line(error)}") from error
        base = changed_settings(plan.base)
        runs = [
            run.model_copy(update={"settings": {**base, **run.levels, **plan.tuned_for(run.variant)}})
            for run in plan.runs
        ]
        return plan.changed(runs=runs, seeds=plan.seeds)

    @classmethod
    def read(cls, study_dir: Path) -> StudyPlan:
        """Read STUDY/study.json, the plan of run folders. Raises `RecordError`, also where the runs have none."""
        path = Path(study_dir) / STUDY
        try:
            tree = read_json(path)
        except RecordError as error:
            if not path.is_file():
                raise
            advice = "move it away; the same `vit-sweep run` writes it again, and finished runs stay"
            raise RecordError(f"{error}; {advice}") from error
        others = {key: tree.get(key) for key in ("export", "source")} if isinstance(tree, dict) else {}
        if others.get("export") is not None or others.get("source") is not None:
            kind = "an exported study" if others["export"] is not None else f"a study of {others['source']!r}"
            raise RecordError(f"{path}: holds {kind}, which has no run folders (see vit-report); choose another --out")
        plan, folder = cls.parse(tree, str(path)), path.parent.resolve()
        plan = plan.changed(plugins=[os.path.normpath(folder / file) for file in plan.plugins])
        return plan.with_sources(lambda source: os.path.normpath(folder / source.folder))

    def write(self, study_dir: Path) -> None:
        folder = Path(study_dir).resolve()
        files = [os.path.relpath(file, folder) for file in self.plugins]
        tree = self.with_sources(lambda source: os.path.relpath(source.folder, folder)).tree()
        write_json(Path(study_dir) / STUDY, {**tree, **({"plugins": files} if files else {})})

    def with_sources(self, place: Callable[[Reuse], str]) -> Self:
        """The plan with other paths of the sources whose runs it reuses."""
        sources = [source.model_copy(update={"folder": place(source)}) for source in self.reuse]
        return self.changed(reuse=sources) if sources else self

    def tree(self) -> dict[str, Any]:
        """The plain form: the fields that were given."""
        tree = {"schema": self.format, **self.model_dump(by_alias=True, exclude_unset=True)}
        return {**tree, "tuned": self.tuned.tree()} if self.tuned else tree

    @property
    def compared_by(self) -> Metric:
        """The metric, which knows what is better."""
        return Metric(self.metric)

    @property
    def tuned_settings(self) -> tuple[str, ...]:
        """The settings that were tuned for each variant; empty for a study that was not tuned."""
        return tuple(self.tuned.space) if self.tuned else ()

    def tuned_for(self, variant: str) -> dict[str, Any]:
        """The settings that were tuned for a variant, and their values."""
        return self.tuned.variants[variant].settings if self.tuned else {}

    @property
    def one_change(self) -> bool:
        """Whether all variants but one come from `extra`: names then say only what differs from that one."""
        return bool(self.extra) and all(len(levels) == 1 for levels in self.factors.values())

    @property
    def has_grid(self) -> bool:
        """Whether the variants are every combination of two levels or more of two factors or more."""
        paths, levels = [factor.split("+") for factor in self.factors], [run.levels for run in self.variants.values()]
        rows = {tuple(str([of.get(path) for path in linked]) for linked in paths) for of in levels}
        numbers = [len(set(column)) for column in zip(*rows, strict=True)]
        return len(numbers) > 1 and min(numbers) > 1 and len(rows) == math.prod(numbers)

    @property
    def short_names(self) -> dict[str, str]:
        """The names that the study file gives to variants in tables and figures: variant -> name."""
        given = self.definition.get("labels")
        return {str(variant): str(name) for variant, name in given.items()} if isinstance(given, Mapping) else {}

    @property
    def labels(self) -> list[str]:
        return list(self.variants)

    @property
    def variants(self) -> dict[str, RunSpec]:
        """Variant -> its first run, in the order of the runs."""
        first: dict[str, RunSpec] = {}
        for run in self.runs:
            first.setdefault(run.variant, run)
        return first


class Inferred(StudyPlan, frozen=True, extra="forbid"):
    """A plan that was inferred from runs: of a table, which may be a project of W&B.

    `source`: where they are. `notes`: what a reader must know of it. `lower_is_better`: of a metric that is a column of
    a table. There may be no margin, and the runs need no folders.
    """

    metric: str
    source: str
    notes: list[str] = []
    lower_is_better: bool | None = None

    def _check_source(self) -> None:
        if self.lower_is_better is None and not is_metric(self.metric):
            raise ValueError(f"metric: {self.metric!r} is not allowed: {EXPECTED}")

    @property
    def compared_by(self) -> Metric:
        return Metric(self.metric, {True: "lower", False: "higher", None: ""}[self.lower_is_better])
