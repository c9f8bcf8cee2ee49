"""Pictures of the test images on which variants differ most, and what the report says where they cannot be shown."""

import numpy as np
import pytest
from synthetic import add_hits, on_dataset, write_study

from analysis.figures.style import Plot
from analysis.findings import Page, analyze
from analysis.questions.models import images
from analysis.runs.folder import read_folder
from analysis.runs.images import MOST_IMAGES
from analysis.write import files as write
from analysis.write.document import Document
from experiments.config import RunConfig
from experiments.data import loading
from experiments.runs import record

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
        add_hits(path.parent, hits, labels)
    return read_folder(folder)


def section_of(study):
    """The section on test images, and its figure of them."""
    section = images(analyze(study, Page(models=True)))
    return section, next((item for item in section.items if isinstance(item, Plot)), None)


def test_the_pictures_are_the_test_images_of_the_dataset(tmp_path, test_set):
    section, plot = section_of(study_of(tmp_path, test_set.y.numpy()))
    (axes,) = plot.figure.axes
    for image, index in zip(axes.images, HARD, strict=True):
        np.testing.assert_allclose(image.get_array(), test_set.x[index, 0].numpy() / 255, atol=1e-6)
    texts = [text.get_text() for text in axes.texts]
    assert texts == [text for i in HARD for text in (f"{test_set.y[i]} (image {i})", "0", "100")]
    assert section.paragraphs == []


def test_an_image_of_each_class_is_shown(tmp_path, test_set):
    """Where no variant differs as well. The first test image of a class is found by hand."""
    plot = section_of(study_of(tmp_path, test_set.y.numpy(), hard=()))[1]
    assert plot.name == "examples"
    shown = [axes for axes in plot.figure.axes if axes.images]
    assert [axes.get_title("left") for axes in shown] == list("0123456789")
    for digit, axes in enumerate(shown):
        first = next(i for i, label in enumerate(test_set.y.tolist()) if label == digit)
        np.testing.assert_allclose(axes.images[0].get_array(), test_set.x[first, 0].numpy() / 255, atol=1e-6)


def test_the_page_holds_all_pictures(tmp_path, test_set):
    study = study_of(tmp_path, test_set.y.numpy(), hard=range(40))
    section, plot = section_of(study)
    assert sum(len(axes.images) for axes in plot.figure.axes) == MOST_IMAGES
    page = write.make(Document("t", "", "s", (), [], [section]))["report.html"].decode()
    assert page.count("data:image/png;base64") >= MOST_IMAGES and 'href="http' not in page and 'src="' not in page


def test_many_variants_have_bars_for_some(tmp_path, test_set):
    accuracy = dict.fromkeys(
        ["none", "learned-1d", "learned-2d", "sinusoidal", "sincos-2d", "rope-2d", "cpe", "alibi-2d", "relative"], 0.9
    )
    plot = section_of(study_of(tmp_path, test_set.y.numpy(), accuracy))[1]
    assert "Bars are shown for the baseline and" in plot.caption


def test_other_data_are_not_shown(tmp_path):
    """The labels of the records are not those of the dataset's test images."""
    section, plot = section_of(study_of(tmp_path, np.arange(360) % 10))
    assert plot is None and "holds other test images than those of the records" in section.paragraphs[0]
    assert "disagreement" in [item.name for item in section.items]


def test_without_the_data_the_table_remains_and_nothing_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    section, plot = section_of(study_of(tmp_path, np.arange(500) % 10, dataset="cifar10"))
    assert plot is None and "cannot be loaded: data.root: 'data' does not hold the files" in section.paragraphs[0]
    assert "disagreement" in [item.name for item in section.items] and not (tmp_path / "data").exists()


def test_without_models_the_dataset_is_not_loaded(tmp_path, test_set, monkeypatch):
    monkeypatch.setattr(loading, "load", lambda config: pytest.fail("the dataset was loaded"))
    assert images(analyze(study_of(tmp_path, test_set.y.numpy()))) is None
