"""The looks at the results of a study, one line each in STUDY/looks.jsonl.

A look is a report, or a sweep that adds seeds to finished runs. The file is only ever appended to. The same number of
seeds seen again is no new look, and fewer than two seeds are none: nothing can be tested with them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, StrictInt, ValidationError

from experiments.errors import first_line
from experiments.files import RecordError, open_own, read_bytes
from experiments.version import now

LOOKS = "looks.jsonl"


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


def read_looks(study_dir: Path) -> list[Look]:
    """The recorded looks, in order; none without a file. Raises `RecordError` naming the line that is damaged."""
    path, looks = Path(study_dir) / LOOKS, list[Look]()
    body = read_bytes(path) if path.exists() else b""
    whole = body[: body.rfind(b"\n") + 1]  # without the beginning of a line that a killed report left
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            looks.append(Look.model_validate_json(line))
        except ValidationError as error:
            advice = "delete this line; the report then does not count the look"
            raise RecordError(f"{path}: line {number}: is not a look: {first_line(error)}; {advice}") from error
    return looks


def add_look(study_dir: Path, look: Look) -> None:
    """Append a look, unless it is known or of fewer than two seeds. Raises `UserError` if it cannot be written."""
    if look.most < 2 or any(look.same(other) for other in read_looks(study_dir)):
        return
    path = Path(study_dir) / LOOKS
    try:
        with os.fdopen(open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+") as file:
            file.seek(0)
            body = file.read()
            if not body.endswith(b"\n"):  # the beginning of a line that a killed report left
                file.truncate(body.rfind(b"\n") + 1)
            file.write(look.model_dump_json().encode() + b"\n")
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}") from error
