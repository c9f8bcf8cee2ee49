"""Where this process reads the images of an imagefolder.

The path that a run or study was first given is a part of its run id. STUDY/images.json says where the images are now.
"""

from pathlib import Path
from typing import NamedTuple

from experiments.files import read_json, write_json

FILE = "images.json"


class Place(NamedTuple):
    """A folder of images. `upright`: whether images are turned as their EXIF orientation says."""

    path: str
    upright: bool = True


PLACES: dict[str, Place] = {}  # of this process, by `data.root`


def place_of(data_root: str) -> Place:
    """Where the images with this path in their configuration are read."""
    return PLACES.get(data_root) or Place(data_root)


def read_moved(folder: Path, data_root: str) -> str:
    """Where the images of the runs in a folder, or of the study above it, are."""
    notes = (path for path in (Path(folder) / FILE, Path(folder).parent / FILE) if path.exists())
    return str(read_json(note).get(data_root, data_root)) if (note := next(notes, None)) else data_root


def write_moved(study_dir: Path, data_root: str) -> None:
    """Note in the study's folder where this process reads the images."""
    if (path := place_of(data_root).path) != read_moved(study_dir, data_root):
        write_json(Path(study_dir) / FILE, {data_root: path})
