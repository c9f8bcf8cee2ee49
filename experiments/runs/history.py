"""The history of a study: what its plan stated when each run started, and the looks at its results.

The summary of a run keeps what was stated, so that a later change of study.json is noticed. A look is a report, or a
sweep that adds seeds to finished runs: one line of STUDY/looks.jsonl. The file is only ever appended to. The same
number of seeds seen again is no new look, and fewer than two seeds are none: nothing can be tested with them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, StrictInt, ValidationError

from experiments.config import changed_settings
from experiments.errors import first_line
from experiments.files import RecordError, canonical, open_own, read_bytes
from experiments.study import COMPARISON, GRID, STUDY, StudyPlan
from experiments.version import now

LOOKS = "looks.jsonl"
BY_VALUE = ("metric", "margin", "baseline", "seeds")  # what a summary keeps by value; of all else it keeps digests


def read_stated(study_dir: Path) -> dict[str, Any] | None:
    """What study.json states now: the fields `BY_VALUE`, and digests. None where there is no study.json."""
    path = Path(study_dir) / STUDY
    if not path.exists():
        return None
    return _read_stated(path.parent, path.stat().st_ino, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)  # one process trains many runs, and a plan of thousands of runs takes a second
def _read_stated(study_dir: Path, *_: int) -> dict[str, Any]:
    plan = StudyPlan.read(study_dir)
    fields = field_digests(plan)
    digest = hashlib.sha256(canonical(fields)).hexdigest()
    return {**{key: getattr(plan, key) for key in BY_VALUE}, "digest": digest, "fields": fields}


def field_digests(plan: StudyPlan) -> dict[str, str]:
    """A digest for each field of a plan: 12 hex digits. Empty fields are left out, so that a new field changes nothing.

    For the same reason, settings of the base count only where they differ from their defaults.
    """
    tree = plan.tree()
    kept = ("description", *GRID, *COMPARISON)
    stated = {key: tree[key] for key in kept if tree.get(key) not in (None, "", [], {})}
    if plan.base:
        stated["base"] = changed_settings(plan.base)
    return {key: hashlib.sha256(canonical(value)).hexdigest()[:12] for key, value in sorted(stated.items())}


class Look(BaseModel, frozen=True):
    """Results seen: the fewest and the most finished seeds of a variant, the metric, and the command."""

    time: str
    fewest: StrictInt
    most: StrictInt
    metric: str
    command: str

    @classmethod
    def now(cls, finished: Iterable[int], metric: str, command: str) -> Look:
        """A look at this moment, from the number of finished seeds of each variant."""
        counts = list(finished)
        fewest, most = min(counts, default=0), max(counts, default=0)
        return cls(time=now(), fewest=fewest, most=most, metric=str(metric), command=command)

    def same(self, other: Look) -> bool:
        """Whether both are of the same numbers of seeds and the same metric."""
        return (self.fewest, self.most, self.metric) == (other.fewest, other.most, other.metric)


def _file(place: Path) -> Path:
    """The file of looks in the folder of a study, or the file itself."""
    return place if place.suffix == ".jsonl" and not place.is_dir() else place / LOOKS


def read_looks(place: Path) -> list[Look]:
    """The recorded looks, in order; none without a file. Raises `RecordError` naming the line that is damaged.

    `place`: the folder of a study, or a file of looks.
    """
    path, looks = _file(Path(place)), list[Look]()
    body = read_bytes(path) if path.exists() else b""
    whole = body[: body.rfind(b"\n") + 1]  # without the beginning of a line that a killed report left
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            looks.append(Look.model_validate_json(line))
        except ValidationError as error:
            advice = "delete this line; the report then does not count the look"
            raise RecordError(f"{path}: line {number}: is not a look: {first_line(error)}; {advice}") from error
    return looks


def add_look(place: Path, look: Look) -> None:
    """Append a look, unless it is known or of fewer than two seeds. Raises `UserError` if it cannot be written."""
    if look.most < 2 or any(look.same(other) for other in read_looks(place)):
        return
    path = _file(Path(place))
    try:
        with os.fdopen(open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+") as file:
            file.seek(0)
            body = file.read()
            if not body.endswith(b"\n"):  # the beginning of a line that a killed report left
                file.truncate(body.rfind(b"\n") + 1)
            file.write(look.model_dump_json().encode() + b"\n")
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}") from error
