"""The plan of a user's table: which runs are wanted and how they are compared, stated before they are made."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictBool, StrictInt, ValidationError, field_validator, model_validator

from experiments.errors import UserError, first_line, format_level
from experiments.files import canonical, read_bytes
from experiments.metric import LARGEST
from experiments.stated import (
    MOST_PAIRS,
    ColumnMargin,
    Family,
    Levels,
    Looks,
    Name,
    Seeds,
    UntilDecided,
    all_levels,
    baseline_of,
    check_are_factors,
    check_number,
    seed_list,
    variant_name,
)
from experiments.version import last_commit
from experiments.yaml_file import read_mapping
from vit.registry import nearest

HOLE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")  # {COLUMN} of a command; {{ and }} are braces
ODD = "a 'b\""  # a value that is only read as one word where it is quoted
EXAMPLE = """\
name: optimizers
factors: {method: [sgd, adam, muon]}     # columns of the table, and their levels
baseline: sgd
metric: acc                              # a column
lower_is_better: false                   # true for a loss
margin: 0.5 points                       # smaller differences count as equal; in the unit of the metric, or in points
seeds: 5                                 # 0 to 4, or a list of seeds; or, without seeds, runs: 5
looks: [3, 5]                            # tests at these numbers of seeds
family: all                              # or baseline: only pairs with it are tested, which shows more
until_decided: true                      # or {pairs: true}: until every pair is decided
# chance: 10                             # what guessing gives: failed runs count as such runs, else they bar a test
command: mkdir -p runs; python train.py --opt {method} --seed {seed} --out runs/{method}-{seed}.json  # printed
"""


class TablePlan(BaseModel, frozen=True, extra="forbid"):
    """A plan of runs of another program. A factor is a column of the table, or a setting of a run of W&B."""

    name: Name
    description: str = ""
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(min_length=1)
    extra: list[Levels] = []
    baseline: Any = None  # a label, a level or levels; default: the first variant
    metric: Annotated[str, Field(min_length=1)]
    lower_is_better: StrictBool | None = None
    chance: Annotated[float, Field(strict=True, ge=-LARGEST, le=LARGEST)] | None = None
    margin: ColumnMargin | None = None
    by: ColumnMargin | None = None
    seeds: Seeds | None = None
    runs: Annotated[StrictInt, Field(ge=2)] | None = None
    looks: Looks = []
    variance: Literal["shared", "paired"] = "shared"
    family: Family = "all"
    until_decided: UntilDecided | None = None
    command: str | None = None

    @field_validator("until_decided", mode="before")
    @classmethod
    def _read_until_decided(cls, value: Any) -> Any:
        return {True: {}, False: None}.get(value, value) if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _check(self) -> TablePlan:
        for problem in chain(self._of_variants(), self._of_looks(), self._of_command()):
            raise ValueError(problem)
        return self

    def _of_variants(self) -> Iterator[str]:
        for factor, levels in self.factors.items():
            if "+" in factor or factor in ("seed", "run", self.metric) or not factor.isprintable():
                yield f"factors: {factor!r} is not allowed: expected a column without '+' that is not seed, run, metric"
            for level in (*levels, *(own[factor] for own in self.extra if factor in own)):
                if not isinstance(level, str | int | float | None) or not format_level(level).isprintable():
                    yield f"factors: {factor}: {str(level)[:60]!r} is not allowed: expected a single value"
        check_are_factors(self.factors, self.extra)
        if lacking := [factor for own in self.extra for factor in self.factors if factor not in own]:
            yield f"extra: has no {lacking[0]}; a variant has a level of every factor"
        if (self.seeds is None) == (self.runs is None):
            yield "seeds: are required, or runs without seeds; not both"
        check_number(self.factors, self.extra, self.seeds or self.runs or 0)
        labels = Counter(map(self.label, all_levels(self.factors, self.extra)))
        if (common := labels.most_common(1)[0])[1] > 1:
            yield f"factors: two variants are {common[0]!r}"
        if len(labels) < 2:
            yield "factors: have one variant; a plan compares two or more"
        baseline_of(self.baseline, self.labels)

    def _of_looks(self) -> Iterator[str]:
        if self.looks and self.seeds is None:
            yield "looks: need the order of seeds, and are not allowed with runs"
        elif self.looks and len(self.numbers) > self.looks[-1]:
            yield f"seeds: {len(self.numbers)} are more than the last planned look tests, {self.looks[-1]}"
        if self.until_decided is None:
            return
        if not self.looks or len(self.numbers) < self.looks[-1]:
            yield "looks: until_decided needs looks, of which the last one is at the number of seeds"
        if self.until_decided.pairs and (self.family == "baseline" or len(self.labels) > MOST_PAIRS):
            yield f"until_decided: pairs need family: all, and up to {MOST_PAIRS} variants"

    def _of_command(self) -> Iterator[str]:
        if self.command is None:
            return
        held = [hole[1] for hole in HOLE.finditer(self.command) if hole[1] is not None]
        varied = [name for name in self.factors if len({format_level(own[name]) for own in self.labels.values()}) > 1]
        known = [*self.factors, self.counted]
        if unknown := [name for name in held if name not in known]:
            yield f"command: {{{unknown[0]}}} is not a factor; {nearest(unknown[0], known)}; a brace is {{{{"
        elif lacking := [name for name in (*varied, self.counted) if name not in held]:
            yield f"command: has no {{{lacking[0]}}}, so it is the same for several runs"
        if not self.command.isprintable():
            yield "command: has several lines; expected one"
        plain = HOLE.sub(lambda hole: hole[0][0] if hole[1] is None else "\ue000", self.command)
        quoted = HOLE.sub(lambda hole: hole[0][0] if hole[1] is None else shlex.quote(ODD), self.command)
        try:
            as_one = [word.replace("\ue000", ODD) for word in shlex.split(plain)]
            if shlex.split(quoted) != as_one:
                raise ValueError("a {COLUMN} stands in quotes; leave them out, values are quoted")
        except ValueError as error:
            yield f"command: {error}"

    @property
    def counted(self) -> str:
        """What the runs of a variant are told apart by."""
        return "run" if self.seeds is None else "seed"

    @cached_property
    def numbers(self) -> list[int]:
        """The seeds, or the numbers of runs without seeds."""
        return list(range(self.runs or 0)) if self.seeds is None else seed_list(self.seeds)

    @cached_property
    def labels(self) -> dict[str, Levels]:
        """Variant -> its levels, in the order of the factors."""
        every = ({f: own[f] for f in self.factors} for own in all_levels(self.factors, self.extra))
        return {self.label(levels): levels for levels in every}

    def label(self, levels: Levels) -> str:
        """The name of a variant, as in the report of a table."""
        texts = {factor: format_level(levels[factor]) for factor in self.factors if factor in levels}
        return variant_name(texts, texts.values())

    def line(self, variant: str, number: int) -> str:
        """What makes a run, as one line for a shell: the command with its values quoted, or `method=sgd seed=3`."""
        levels = {factor: format_level(level) for factor, level in self.labels[variant].items()}
        values = {**levels, self.counted: str(number)}
        if self.command is None:
            return shlex.join(f"{name}={value}" for name, value in values.items())
        return HOLE.sub(lambda hole: hole[0][0] if hole[1] is None else shlex.quote(values[hole[1]]), self.command)


@dataclass(frozen=True)
class GivenPlan:
    """A plan as the user gives it: the path of a YAML file or, in Python, a mapping."""

    plan: TablePlan
    given: str | Mapping[str, Any]
    digest: str  # SHA-256 of the file, or of the mapping as JSON

    @classmethod
    def of(cls, given: Any) -> GivenPlan:
        """Read and check a plan. Raises `UserError` naming the file, the field and what is allowed."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, str | Path | Mapping):
            raise UserError(f"plan: {given!r} is not allowed: expected the path of a file, or a mapping")
        if isinstance(given, Mapping):
            tree, place, body = dict(given), "plan", b""
        else:
            path = Path(given).expanduser()
            tree, place = read_mapping(path, "`name`, `factors` and `metric`"), str(path)
            given, body = place, read_bytes(path)
        try:
            plan = TablePlan.model_validate(tree)
        except ValidationError as error:
            raise UserError(f"{place}: {first_line(error, known=TablePlan.model_fields)}") from error
        return cls(
            plan,
            given,
            hashlib.sha256(body or canonical(plan.model_dump(exclude={"by"} if plan.by is None else None))).hexdigest(),
        )

    @property
    def place(self) -> str:
        """What messages call it."""
        return self.given if isinstance(self.given, str) else "plan"

    @property
    def looks_file(self) -> Path | None:
        """Where looks at its runs are noted; None of a mapping."""
        return Path(self.given).with_suffix(".looks.jsonl") if isinstance(self.given, str) else None

    def described(self) -> str:
        """Its file and digest, and the commit that last changed it where git holds it as it is."""
        commit = last_commit(Path(self.given)) if isinstance(self.given, str) else None
        when = f"commit {commit[0]}, {commit[1]}" if commit else "as given: its date is not known"
        return f"{self.place} (SHA-256 {self.digest}), {when}"
