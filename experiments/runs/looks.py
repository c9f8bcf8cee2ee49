"""The looks at a study: at which numbers of seeds its results were seen. One line of STUDY/looks.jsonl for each.

A look is a report, or a sweep that adds seeds to finished runs. The file is only ever appended to. The same number of
seeds seen again is no new look, and fewer than two seeds are none: nothing can be tested with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.runs.record import RecordError

LOOKS = "looks.jsonl"


@dataclass(frozen=True)
class Look:
    """Results seen: the fewest and the most finished seeds of a variant, the metric, and the command that showed them."""

    time: str
    fewest: int
    most: int
    metric: str
    command: str

    def same(self, other: Look) -> bool:
        """Whether both are of the same numbers of seeds and the same metric."""
        return (self.fewest, self.most, self.metric) == (other.fewest, other.most, other.metric)

    def to_json(self) -> dict[str, Any]:
        """The look as a JSON object."""
        return asdict(self)


def look_now(finished: Iterable[int], metric: str, command: str) -> Look:
    """A look at this moment, from the number of finished seeds of each variant."""
    counts = list(finished)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return Look(time, min(counts, default=0), max(counts, default=0), str(metric), command)


def read_looks(study_dir: Path) -> list[Look]:
    """The recorded looks, in order; none where there is no file. Raises `RecordError` naming the line that is damaged."""
    path = Path(study_dir) / LOOKS
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from error
    looks = []
    whole = text[: text.rfind("\n") + 1]  # without the beginning of a line that a killed report left
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            looks.append(from_json(json.loads(line)))
        except ValueError as error:
            advice = "delete this line; the report then does not count the look"
            raise RecordError(f"{path}: line {number}: {error}; {advice}") from error
    return looks


def from_json(tree: Any) -> Look:
    """The inverse of `Look.to_json`. Raises `ValueError` where a field is missing or wrong."""
    kinds = {"time": str, "fewest": int, "most": int, "metric": str, "command": str}
    if not isinstance(tree, Mapping) or any(not isinstance(tree.get(name), kind) for name, kind in kinds.items()):
        raise ValueError(f"is not a look: expected an object with {', '.join(kinds)}")
    return Look(**{name: tree[name] for name in kinds})


def add_look(study_dir: Path, look: Look) -> None:
    """Append a look, unless it is recorded already or of fewer than two seeds. Raises `RecordError` if it cannot be written."""
    if look.most < 2 or any(look.same(other) for other in read_looks(study_dir)):
        return
    path = Path(study_dir) / LOOKS
    try:
        with path.open("ab") as file:
            body = path.read_bytes()
            file.truncate(body.rfind(b"\n") + 1)  # drops the beginning of a line that a killed report left
            file.write(json.dumps(look.to_json()).encode() + b"\n")
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}") from error
