"""What a study's plan states when a run starts. The run's summary keeps it, so that a later change of study.json is noticed."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from experiments.config import DEFAULTS, flatten
from experiments.files import canonical
from experiments.runs import record
from experiments.study import StudyPlan

# Keys of study.json that are no statement, or are compared in another way: seeds may be added, and variants stop.
IGNORED = (
    *("schema", "name", "runs", "seeds", "until_decided", "command"),
    *("study", "preset", "notes", "source", "export"),
)


def read_stated(study_dir: Path) -> dict[str, Any] | None:
    """What study.json states now: the fields of `record.COMPARISON`, and digests. None where there is no study.json."""
    path = Path(study_dir) / record.STUDY
    if not path.exists():
        return None
    return _read_stated(path.parent, path.stat().st_ino, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)  # one process trains many runs, and a plan of thousands of runs takes a second
def _read_stated(study_dir: Path, *_: int) -> dict[str, Any]:
    plan = StudyPlan.read(study_dir)
    fields = field_digests(plan)
    digest = hashlib.sha256(canonical(fields)).hexdigest()
    return {**{key: getattr(plan, key) for key in record.COMPARISON}, "digest": digest, "fields": fields}


def field_digests(plan: StudyPlan) -> dict[str, str]:
    """A digest for each field of a plan: 12 hex digits. Empty fields are left out, so that a new field changes nothing.

    For the same reason, settings of the base count only where they differ from their defaults.
    """
    stated = {
        key: value for key, value in plan.tree().items() if key not in IGNORED and value not in (None, "", [], {})
    }
    if plan.base:
        base = flatten(plan.base)
        stated["base"] = {path: value for path, value in base if path not in DEFAULTS or value != DEFAULTS[path]}
    return {key: hashlib.sha256(canonical(value)).hexdigest()[:12] for key, value in sorted(stated.items())}
