"""Remove what a run leaves that ends with bad input before its first epoch is saved: there is nothing to resume."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from experiments.errors import UserError, writing
from experiments.runs import record

BEFORE_FIRST_EPOCH = (record.CONFIG, record.PLUGIN, record.DIFF)  # what a run writes until then


def is_worthless(name: str) -> bool:
    """Whether a file or folder of this name in a run's folder says nothing about its training."""
    return name in BEFORE_FIRST_EPOCH or name.startswith(record.PART)


@contextlib.contextmanager
def removed_if_unsaved(run_dir: Path) -> Iterator[None]:
    """Where the body raises `UserError`, remove what it made of the run and of the folders above, if no epoch is saved."""
    with writing(run_dir):
        missing, is_new = [path for path in run_dir.parents if not path.exists()], not run_dir.exists()
    try:
        yield
    except UserError:
        if is_new and (not run_dir.exists() or all(is_worthless(path.name) for path in run_dir.iterdir())):
            shutil.rmtree(run_dir, ignore_errors=True)
            for folder in missing:
                with contextlib.suppress(OSError):  # it is not empty, or was not made
                    folder.rmdir()
        raise
