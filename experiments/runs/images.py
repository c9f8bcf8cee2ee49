"""The user's images and the records of runs: a hash in a record tells which images a run was trained on."""

from collections.abc import Iterator
from pathlib import Path

from experiments.config import RunConfig, override, run_id
from experiments.data.catalogue import DATASETS
from experiments.data.folder import digests, files_digest
from experiments.data.loading import load
from experiments.data.places import PLACES, Place, place_of, read_moved
from experiments.errors import UserError
from experiments.files import RecordError, read_json
from experiments.runs import record, resume
from experiments.sections import DataConfig


def recorded_hash(run_dir: Path) -> str:
    """The hash of the images that a finished or interrupted run was trained on; "" if no record tells."""
    try:
        if record.is_finished(run_dir):
            return str(read_json(run_dir / record.SUMMARY).get("data", {}).get("files", ""))
        return str(resume.read_note(run_dir)["files"])
    except (ValueError, KeyError, TypeError, AttributeError):  # whoever uses the record says what is wrong
        return ""


def settle_place(data: DataConfig, folder: Path, path: str | None = None) -> None:
    """Decide where this process reads the images of the runs in a folder, and how.

    `path`: by default as images.json says. Images that an earlier version has read as they are stored, as a record in
    the folder tells, are not turned. Raises `UserError` where the images cannot be read.
    """
    if DATASETS[data.name].source != "folder":
        return
    place = Place(path or read_moved(folder, data.root))
    if Path(place.path).is_dir():
        known = digests(place.path)
        is_older = known.turned and any(recorded_hash(run) == known.stored for run in _runs(folder))
        place = place._replace(upright=not is_older)
    PLACES[data.root] = place


def first_path(config: RunConfig, out: Path) -> str:
    """The `data.root` of the run in OUT that differs from this one in its path only and has the same images; else its
    own.
    """
    given = config.data.root
    if DATASETS[config.data.name].source != "folder" or not Path(given).is_dir():
        return given
    for run in _runs(out):
        try:
            root = read_json(run / record.CONFIG)["data"]["root"]
            is_same = run.name.endswith(f"-s{config.seed}-{run_id(override(config, {'data.root': root}))[:8]}")
        except (RecordError, UserError, KeyError, TypeError):
            continue
        if is_same and root != given and recorded_hash(run) in digests(given)[:2]:
            return str(root)
    return given


def check_unchanged(config: RunConfig, files: str | None, folder: Path) -> None:
    """Raise `UserError` where the images do not match `files`, the hash in the record of the run in `folder`.

    Images of a class or a plug-in are only read for it where `data.root` is another one than in the record.
    """
    root, path = config.data.root, place_of(config.data.root).path
    if not files or not Path(path).is_dir():
        return
    if DATASETS[config.data.name].source == "folder":
        is_same, changed = files_digest(root) == files, f"are not those in {root!r} of"
        changed = "were changed after" if path == root else changed
    else:
        is_same = root == read_json(folder / record.CONFIG)["data"]["root"] or load(config).files == files
        changed = "are not those of"
    if not is_same:
        raise UserError(
            f"data.root: the files of {path!r} {changed} the run in {str(folder)!r}; restore them, or give the new run "
            "another folder (--out)"
        )


def _runs(folder: Path) -> Iterator[Path]:
    return (path.parent for path in sorted(Path(folder).glob(f"*/{record.CONFIG}")))
