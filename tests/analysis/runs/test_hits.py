"""Hits of the test images: from run folders, and through an export."""

import numpy as np
import pytest
from synthetic import add_metrics, add_predictions, write_study

from analysis.runs.exported import HITS, export
from analysis.runs.read import read
from experiments.runs import record
from experiments.study import STUDY


@pytest.fixture
def study_dir(tmp_path):
    """Two variants, three seeds, 13 test images."""
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=3)
    add_predictions(folder, images=13)
    return folder


def test_images_of_two_folders_are_not_the_same_images(tmp_path):
    roots = ["one", "two"]
    folder = write_study(
        tmp_path,
        accuracy=dict(zip(roots, (0.7, 0.9))),
        seeds=3,
        factors={"data.root": roots},
        levels=lambda root: {"data.root": root},
    )
    add_metrics(folder, lambda summary, root, _: {"data": {"files": f"hash of {root}"}})
    add_predictions(folder, images=13)
    assert len({hits.images for hits in read(str(folder)).hits.values()}) == 2


def test_hits_are_those_of_the_records_also_through_an_export(study_dir, tmp_path):
    for source in (study_dir, export(read(str(study_dir)), tmp_path / "exported")):
        study = read(str(source))
        assert sorted(study.hits) == sorted(study.runs["run"])
        found = study.hits["v1-s2"]
        with np.load(study_dir / "v1-s2" / record.PREDICTIONS) as file:
            assert np.packbits(found.hits).tolist() == file["hits"].tolist()
            assert found.labels.tolist() == file["labels"].tolist()
        assert len({hits.images for hits in study.hits.values()}) == 1


@pytest.mark.parametrize("change", ["altered", "missing"])
def test_a_changed_file_of_hits_is_refused(change, study_dir, tmp_path):
    path = export(read(str(study_dir)), tmp_path / "out") / HITS
    body = bytearray(path.read_bytes())
    body[-30] ^= 1
    path.unlink()
    if change == "altered":
        path.write_bytes(body)
    with pytest.raises(record.RecordError, match=HITS):
        read(str(tmp_path / "out"))


def test_changed_predictions_of_a_run_are_refused_or_skipped_as_a_whole(study_dir):
    (study_dir / "v0-s1" / record.PREDICTIONS).write_bytes(b"something else")
    with pytest.raises(record.RecordError, match=record.PREDICTIONS):
        read(str(study_dir))
    study = read(str(study_dir), skip_unreadable=True)
    assert list(study.troubles) == ["v0-s1"]
    assert study.runs.set_index("run").loc["v0-s1", "status"] == "unreadable"
    assert "v0-s1" not in study.hits


def test_runs_whose_split_follows_the_seed_have_other_images(tmp_path):
    """Also where these have the same classes in the same order."""

    def levels(variant):
        return {"model.pos_embed": variant, "data.split_seed": "per-seed"}

    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=3, levels=levels)
    add_predictions(folder, images=13)
    assert len({hits.images for hits in read(str(folder)).hits.values()}) == 3


def test_runs_without_a_plan_have_hits(study_dir):
    (study_dir / STUDY).unlink()
    study = read(str(study_dir))
    assert sorted(study.hits) == sorted(study.runs["run"])
