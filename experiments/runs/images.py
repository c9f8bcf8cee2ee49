"""The user's images and the records of runs: a hash in a record tells which images a run was trained on."""

from pathlib import Path

from experiments.catalogue import DATASETS
from experiments.config import RunConfig
from experiments.data.folder import files_digest
from experiments.data.loading import load
from experiments.errors import UserError
from experiments.files import read_json
from experiments.runs import record, resume


def recorded_hash(run_dir: Path) -> str:
    """The hash of the images that a finished or interrupted run was trained on; "" if no record tells."""
    try:
        if record.is_finished(run_dir):
            return str(read_json(run_dir / record.SUMMARY).get("data", {}).get("files", ""))
        return str(resume.read_note(run_dir)["files"])
    except (ValueError, KeyError, TypeError, AttributeError):  # whoever uses the record says what is wrong
        return ""


def check_unchanged(config: RunConfig, files: str | None, folder: Path) -> None:
    """Raise `UserError` where the images do not match `files`, the hash in the record of the run in `folder`.

    Images of a class or a plug-in are only read for it where `data.root` is another one than in the record.
    """
    root = config.data.root
    if not files or not Path(root).is_dir():
        return
    is_folder = DATASETS[config.data.name].source == "folder"
    is_there = not is_folder and root == read_json(folder / record.CONFIG)["data"]["root"]
    if not is_there and files != (files_digest(root) if is_folder else load(config).files):
        raise UserError(
            f"data.root: the files of {root!r} are not those of the run in {str(folder)!r}; restore them, or give the "
            "new run another folder (--out)"
        )
