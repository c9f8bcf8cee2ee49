"""Where this process reads the images of an imagefolder.

The path that a run or study was first given is a part of its run id. OUT/images.json says where the images of a study
are now, if that is another path.
"""

from dataclasses import dataclass
from pathlib import Path

from experiments.errors import UserError
from experiments.files import read_json, write_json

FILE = "images.json"  # in the folder of a study: the first path -> where its images are


@dataclass(frozen=True)
class Place:
    """A folder of images. `upright`: whether images are turned as their EXIF orientation says."""

    path: str
    upright: bool = True


_places: dict[str, Place] = {}


def place_of(data_root: str) -> Place:
    """Where the images with this path in their configuration are read."""
    return _places.get(data_root) or Place(data_root)


def use_place(data_root: str, place: Place) -> None:
    """Read the images with this path in their configuration there, from now on in this process."""
    _places[data_root] = place


def read_moved(folder: Path, data_root: str) -> str:
    """Where the images of the runs in a folder, or of the study above it, are. Raises `UserError`."""
    for path in (Path(folder) / FILE, Path(folder).parent / FILE):
        if path.exists():
            moved = read_json(path).get(data_root, data_root)
            if not isinstance(moved, str):
                raise UserError(f"{path}: {data_root}: {moved!r} is not a path")
            return moved
    return data_root


def write_moved(study_dir: Path, data_root: str) -> None:
    """Note in the study's folder where this process reads the images."""
    if (path := place_of(data_root).path) != read_moved(study_dir, data_root):
        write_json(Path(study_dir) / FILE, {data_root: path})
