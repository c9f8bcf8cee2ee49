"""What is compared, of a table or a study: the part of a study that a report needs, and its runs. No torch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)

from experiments.config import RunConfig, changed_settings, run_id
from experiments.errors import UserError, first_line, format_level
from experiments.files import RecordError
from experiments.metric import EXPECTED, LARGEST, MAX_MARGIN, SMALLEST, Metric, is_metric
from experiments.tuned import Tuned
from vit.registry import nearest

SCHEMA = 2  # of study.json
KIND = "model.pos_embed"
MAX_SLUG = 60  # characters of a variant's label in the name of a folder
Levels = dict[str, Any]  # factor -> level, or setting -> value
MAX_SEED = 2**31 - 1
MAX_RUNS = 100_000  # of a study: each is planned before the first starts
MAX_LOOK = 10_000
MOST_PAIRS = 150  # variants of which every pair is compared; more pairs are too many to compute and to read


def _check_name(name: Any) -> Any:
    if isinstance(name, bool):
        raise ValueError(f"{name} is not allowed: YAML reads yes, no, on and off as true and false; use quotes")
    if isinstance(name, str) and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name):
        expected = "at most 80 of a-z, A-Z, 0-9, '.', '_' and '-', the first of a-z, A-Z, 0-9"
        raise ValueError(f"{name!r} is not allowed: expected {expected}")
    return name


def _check_looks(looks: list[int]) -> list[int]:
    if looks != sorted({n for n in looks if 2 <= n <= MAX_LOOK}):
        raise ValueError(f"{looks!r} is not allowed: expected rising numbers of seeds from 2 to {MAX_LOOK:,}")
    return looks


def _list_seeds(seeds: Any) -> Any:
    listed, lowest, highest = (seeds, 0, MAX_SEED) if isinstance(seeds, list) else ([seeds], 1, MAX_RUNS)
    allowed = all(type(seed) is int and lowest <= seed <= highest for seed in listed)
    if not listed or not allowed or len(set(listed)) < len(listed):
        expected = f"a number of seeds from 1 to {MAX_RUNS:,}, or a list of different seeds from 0 to {MAX_SEED}"
        raise ValueError(f"{repr(seeds)[:80]} is not allowed: expected {expected}")
    return seeds if isinstance(seeds, list) else list(range(seeds))


Name = Annotated[str, BeforeValidator(_check_name)]
Variance = Literal["shared", "paired", "unpaired"]
"""Standard errors of differences: "shared", from a variant's own variance and the average of all variants; "paired",
from the differences of each pair alone; "unpaired", as "shared", but the number of a run says nothing of its
conditions, so nothing is paired by it."""
Family = Literal["all", "baseline"]  # the pairs that are tested: all, or those with the baseline
Looks = Annotated[list[StrictInt], AfterValidator(_check_looks)]  # planned tests: at these numbers of seeds
Seeds = Annotated[list[int], BeforeValidator(_list_seeds)]  # a list; a number n is 0 to n-1
Margin = Annotated[float, Field(strict=True, ge=SMALLEST, le=LARGEST)]


def amount(value: Any) -> tuple[float, bool]:
    """A number above 0, else NaN, and whether it has a unit of shares: `0.5`, `1 point`, `0.5 points`, `0.5 %`."""
    number, in_points = re.subn(r"\s*(points?|%)$", "", str(value).strip())
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    return value if 0 < value < math.inf else math.nan, bool(in_points)


def read_margin(margin: Any, is_share: bool) -> float:
    """A margin in the unit of a metric; of an accuracy also in points. Raises `ValueError`."""
    value, in_points = amount(margin)
    value /= 100 if in_points else 1
    if not value < (MAX_MARGIN if is_share else math.inf) or (in_points and not is_share):
        unit = f" and less than {MAX_MARGIN:g}; accuracies are fractions, so 1 point is 0.01 or '1 point'"
        raise ValueError(f"{margin!r} is not allowed: expected a number above 0{unit if is_share else ''}")
    return value


def _column_margin(margin: Any) -> float | str:
    """A number above 0; a text with a unit, such as `0.5 points`, as it is, since its unit is that of the metric."""
    value, in_points = amount(margin)
    if math.isnan(value):
        raise ValueError(f"{margin!r} is not allowed: expected a number above 0, or such as '0.5 points'")
    return str(margin) if in_points else value


ColumnMargin = Annotated[float | str, BeforeValidator(_column_margin)]  # of a metric that is a column of a table


class RunSpec(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    """One run of a study: its name, which is also that of its folder, its variant, the variant's levels, its seed.

    `levels` are by dotted path. A run of a sweep has its configuration, too.
    """

    name: str = Field(alias="run")
    run_id: str
    variant: str
    levels: Levels = {}
    seed: StrictInt
    _config: RunConfig | None = PrivateAttr(None)

    @classmethod
    def of(cls, name: str, config: RunConfig, variant: str = "", levels: Mapping[str, Any] | None = None) -> RunSpec:
        """The run of a configuration. In the name, `{}` is the place of the first 8 digits of the run id."""
        digits = run_id(config)
        name = name.replace("{}", digits[:8])
        spec = cls(name=name, run_id=digits, variant=variant, levels=dict(levels or {}), seed=config.seed)
        return spec.configured(config)

    def configured(self, config: RunConfig) -> RunSpec:
        """The run with this configuration."""
        run = self.model_copy()
        run._config = config
        return run

    @property
    def config(self) -> RunConfig:
        """The configuration of a run of a sweep."""
        assert self._config is not None, f"{self.name} is of a study that was read for a report"
        return self._config


def runs_of(variants: Iterable[RunSpec], seeds: Iterable[int]) -> list[RunSpec]:
    """The runs of these variants, each given by one run, with these seeds: ordered by seed, so that early results are
    paired. The name of a run's folder shows the variant, the seed and the run id.
    """
    runs, variants = [], list(variants)
    for seed in seeds:
        for run in variants:
            slug = re.sub(r"[^A-Za-z0-9._=,+-]+", "-", run.variant.replace(", ", ","))[:MAX_SLUG].strip(".-,")
            config = run.config.model_copy(update={"seed": seed})  # validated: the variant by its run, the seed before
            runs.append(RunSpec.of(f"{slug or 'variant'}-s{seed}-{{}}", config, run.variant, run.levels))
    return runs


class Compared(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    """What a report compares: the runs of a table, or of a study.

    `base`: the nested settings that every run starts from. `lower_is_better`: of a metric that is a column of a table.
    `source`: where the table is; "" for a study. `notes`: what a reader must know of it.
    """

    file_fields: ClassVar[tuple[str, ...]] = ()  # of a file that a user writes; an error names the nearest
    format: Literal[2] = Field(2, alias="schema")
    name: str
    description: str = ""
    factors: dict[str, list[Any]]
    extra: list[Levels] = []
    base: dict[str, Any] = {}
    baseline: str
    metric: str
    lower_is_better: bool | None = None
    margin: Margin | None
    looks: Looks = Field([], description="numbers of seeds at which the study is tested; the last is the maximum")
    variance: Variance = "shared"
    family: Family = Field(
        "all", description="the pairs that are tested: all, or baseline: those with the baseline only, which shows more"
    )
    names: dict[str, str] = Field({}, description="factor -> its name in labels")
    labels: dict[str, str] = Field({}, description="variant -> its name in tables and figures; may change at any time")
    tuning: Tuned | None = None
    command: str | None = None
    source: str = ""
    notes: list[str] = []
    runs: list[RunSpec] = []

    @field_validator("runs")
    @classmethod
    def _check_runs(cls, runs: list[RunSpec]) -> list[RunSpec]:
        """No two runs may be counted as one."""
        names: dict[Any, str] = {}
        for run in runs:
            check_names(run.levels)
            for key, what in ((run.name, "is listed twice"), ((run.variant, run.seed), "has the variant and seed of")):
                if key in names:
                    raise ValueError(f"{run.name} {what}{f' {names[key]}' if key != run.name else ''}")
                names[key] = run.name
        return runs

    @model_validator(mode="after")
    def _check_compared(self) -> Self:
        if self.runs and self.baseline not in self.variants:
            raise ValueError(f"baseline: no run has the variant {self.baseline!r}")
        if self.tuning and (untuned := [label for label in self.variants if label not in self.tuning.variants]):
            raise ValueError(f"tuning.variants: has no settings for {untuned[0]!r}")
        if self.lower_is_better is None and not is_metric(self.metric):
            raise ValueError(f"metric: {self.metric!r} is not allowed: {EXPECTED}")
        return self

    @classmethod
    def parse(cls, tree: Any, source: str) -> Self:
        """What is compared, from its plain form. Raises `RecordError` naming source and field."""
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise RecordError(f"{source}: {first_line(error, names=cls.file_fields)}") from error

    def changed(self, **fields: Any) -> Self:
        """The same with other fields, which the caller has checked."""
        return self.model_copy(update=fields)

    def tree(self) -> dict[str, Any]:
        """The plain form: the fields that were given."""
        tree = {"schema": SCHEMA, **self.model_dump(by_alias=True, exclude_unset=True)}
        return {**tree, "tuning": self.tuning.tree()} if self.tuning else tree

    @property
    def compared_by(self) -> Metric:
        """The metric, which knows what is better."""
        return Metric(self.metric, {True: "lower", False: "higher", None: ""}[self.lower_is_better])

    @property
    def tuned_settings(self) -> tuple[str, ...]:
        """The settings that were tuned for each variant; empty for a study that was not tuned."""
        return tuple(self.tuning.space) if self.tuning else ()

    def settings(self, run: RunSpec) -> dict[str, Any]:
        """The settings of a run without its seed, by dotted path: those that differ from the defaults, its levels, and
        those that were tuned for its variant.
        """
        tuned = self.tuning.variants[run.variant].settings if self.tuning else {}
        return {**changed_settings(self.base), **run.levels, **tuned}

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
    def variants(self) -> dict[str, RunSpec]:
        """Variant -> its first run, in the order of the runs."""
        first: dict[str, RunSpec] = {}
        for run in self.runs:
            first.setdefault(run.variant, run)
        return first


def check_names(settings: Mapping[str, Any]) -> None:
    """The two names by which reports look settings up are text. Other values may be of earlier versions."""
    for path in ("data.name", KIND):
        if not isinstance(settings.get(path, ""), str):
            raise ValueError(f"{path}: {str(settings[path])[:60]!r} is not a name")


def variant_name(factors: Iterable[str], levels: Iterable[str]) -> str:
    """A variant named by its levels: `depth=2, head=logits`; by the level alone where there is one factor."""
    names = [" + ".join(path.rpartition(".")[2] for path in factor.split("+")) for factor in factors]
    texts = list(levels)
    return ", ".join(map("=".join, zip(names, texts, strict=True))) if len(texts) > 1 else "".join(texts) or "all runs"


def baseline_of(baseline: Any, variants: Mapping[str, Levels]) -> str:
    """The variant that a baseline gives by its label, its level or its levels; the first where nothing is given.

    `variants`: label -> its levels. Raises `UserError` where none or several have these levels.
    """
    if baseline is None:
        return next(iter(variants))
    texts = {factor: format_level(level) for factor, level in baseline.items()} if isinstance(baseline, Mapping) else {}
    levels = [f"{factor}={level}" for factor, level in texts.items()]
    name = ", ".join(levels or map(format_level, baseline if isinstance(baseline, list) else [baseline]))
    having = [label for label, of in variants.items() if texts.items() <= {n: format_level(of[n]) for n in of}.items()]
    labels = having if texts else [label for label in variants if label == name]
    if len(labels) != 1:
        problem = "matches several variants" if labels else "is not a variant"
        raise UserError(f"baseline: {name!r} {problem}; {nearest(name, labels or variants)}")
    return labels[0]
