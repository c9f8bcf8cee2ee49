"""Pictures of the test images on which variants differ most, and what the report says where they cannot be shown."""

import numpy as np
import pytest
from synthetic import on_dataset, write_study

from analysis.report import write
from analysis.report.study_report import study_document
from analysis.results.images import MOST_IMAGES
from analysis.results.study_results import analyze
from analysis.sources.exported import export, read_export
from analysis.sources.folder import read_folder
from experiments.config import RunConfig
from experiments.data import loading
from experiments.runs import record
from experiments.runs.predictions import to_bytes

ACCURACY = {"none": 0.5, "learned-1d": 0.9}
HARD = (7, 100, 359)  # images that only learned-1d classifies correctly


@pytest.fixture(scope="module")
def test_set():
    return loading.load(RunConfig()).test


def study_of(tmp_path, labels, accuracy=ACCURACY, hard=HARD, dataset="digits"):
    """Two seeds for each variant; only the baseline misses the `hard` images."""
    folder = write_study(tmp_path, accuracy=accuracy, seeds=2, **on_dataset(dataset))
    for path in folder.glob(f"*/{record.SUMMARY}"):
        hits = np.ones(len(labels), dtype=bool)
        if path.parent.name.startswith("v0"):
            hits[list(hard)] = False
        body = {k: v for k, v in record.read_summary(path.parent).items() if k not in ("files", "digest")}
        record.write_bytes(path.parent / record.PREDICTIONS, to_bytes(hits, np.full(len(hits), 0.5), labels))
        record.write_summary(path.parent, {**body, "test/acc": float(hits.mean())})
    return read_folder(folder)


def section_of(study, with_images=True):
    document = study_document(analyze(study), with_images=with_images)
    section = next(section for section in document.sections if section.id == "images")
    return document, section, next((plot for plot in document.plots if plot.name == "disagreement"), None)


def test_the_pictures_are_the_test_images_of_the_dataset(tmp_path, test_set):
    _, section, plot = section_of(study_of(tmp_path, test_set.y.numpy()))
    (axes,) = plot.figure.axes
    for image, index in zip(axes.images, HARD, strict=True):
        np.testing.assert_allclose(image.get_array(), test_set.x[index, 0].numpy() / 255, atol=1e-6)
    texts = [text.get_text() for text in axes.texts]
    assert texts == [text for i in HARD for text in (f"{test_set.y[i]} (image {i})", "0", "100")]
    assert section.paragraphs == []
    assert f"Image 7, class {test_set.y[7]}: learned-1d 100 %, none 0 %" in plot.alt


@pytest.mark.slow
def test_the_report_stays_one_file_with_all_pictures(tmp_path, test_set):
    hard = range(40)
    study = study_of(tmp_path, test_set.y.numpy(), hard=hard)
    document, _, plot = section_of(study)
    assert len(plot.figure.axes[0].images) == MOST_IMAGES
    files = write.make(document)
    page = files["report.html"].decode()
    assert "data:image/png;base64" in page and 'href="http' not in page and 'src="' not in page
    assert files == write.make(section_of(study)[0])


def test_an_exported_study_shows_the_same_pictures(tmp_path, test_set):
    study = study_of(tmp_path, test_set.y.numpy())
    one = section_of(study)[2]
    other = section_of(read_export(export(study, tmp_path / "exported")))[2]
    assert (one.alt, one.caption) == (other.alt, other.caption)


def test_many_variants_have_bars_for_some(tmp_path, test_set):
    accuracy = dict.fromkeys(["none", "learned-1d", "learned-2d", "sinusoidal", "sincos-2d", "rope-2d", "cpe", "alibi-2d", "relative"], 0.9)  # fmt: skip
    plot = section_of(study_of(tmp_path, test_set.y.numpy(), accuracy))[2]
    assert "Bars are shown for the baseline and" in plot.caption


def test_other_data_are_not_shown(tmp_path):
    """The labels of the records are not those of the dataset's test images."""
    _, section, plot = section_of(study_of(tmp_path, np.arange(360) % 10))
    assert plot is None and "holds other test images than those of the records" in section.paragraphs[0]
    assert "disagreement" in [table.name for table in section.items]


def test_without_the_data_the_table_remains_and_nothing_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, section, plot = section_of(study_of(tmp_path, np.arange(500) % 10, dataset="cifar10"))
    assert plot is None and "cannot be loaded: data.root: 'data' does not hold the files" in section.paragraphs[0]
    assert "disagreement" in [table.name for table in section.items] and not (tmp_path / "data").exists()


def test_without_models_the_dataset_is_not_loaded(tmp_path, test_set, monkeypatch):
    monkeypatch.setattr(loading, "load", lambda config: pytest.fail("the dataset was loaded"))
    _, section, plot = section_of(study_of(tmp_path, test_set.y.numpy()), with_images=False)
    assert plot is None and section.paragraphs == []
