"""Figures of trained models: the arrays are the model's own, and checkpoints that cannot be used are named."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save
from synthetic import results_of, write_study

from analysis.figures import models as figures
from analysis.findings import analyze
from analysis.options import ReportOptions
from analysis.questions import models
from analysis.runs import inspect
from analysis.runs.folder import read_folder
from experiments import config as configuration
from experiments.data import loading
from experiments.runs import record
from vit import ViT

ACCURACY = {"none": 0.7, "learned-1d": 0.9, "learned-2d": 0.92, "rope-2d": 0.95}


def untrained(tree):
    """The checkpoint of a model before training."""
    torch.manual_seed(tree["seed"])
    return save(ViT(configuration.load(tree).vit_config(10)).state_dict())


@pytest.fixture(scope="module")
def study_dir(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("out"), accuracy=ACCURACY, seeds=2, epochs=2, weights=untrained)


@pytest.fixture(scope="module")
def inspections(study_dir):
    found, missing = inspect.inspect_models(read_folder(study_dir), list(ACCURACY))
    assert missing == []
    return {model.variant: model for model in found}


def test_predictions_are_the_models_own(study_dir, inspections):
    inspected = inspections["learned-1d"]
    folder = study_dir / inspected.run
    config = configuration.load(json.loads((folder / "config.json").read_text()))
    splits = loading.load(config)
    model = ViT(config.vit_config(10)).eval()
    model.load_state_dict(load_file(folder / record.CHECKPOINT))
    x, y = splits.test.x[: inspect.EXAMPLES], splits.test.y[: inspect.EXAMPLES]
    with torch.no_grad():
        answers = model(splits.normalized(splits.scaled(x))).argmax(-1)
    assert inspected.predicted == tuple(splits.classes[label] for label in answers)
    assert inspected.truth == tuple(splits.classes[label] for label in y)
    assert inspected.images[0, :, :, 0] == pytest.approx(x[0, 0].numpy() / 255)


def test_a_mosaic_has_each_patchs_tile_in_its_place():
    gap = np.nan
    expected = [[0, 1, gap, 4, 5], [2, 3, gap, 6, 7], [gap] * 5, [8, 9, gap, 12, 13], [10, 11, gap, 14, 15]]
    np.testing.assert_array_equal(figures.mosaic(np.arange(16.0).reshape(2, 2, 2, 2)), expected)


def test_the_section_has_the_figures_of_every_variant_and_the_attention_of_baseline_and_best(study_dir):
    study = read_folder(study_dir)
    names = {plot.name for plot in models.question(analyze(study, ReportOptions(models=True))).items}
    of_variants = {"position-similarity", "position-logits", "attention-distance"}
    assert names == of_variants | {"attention-v0-s0", "attention-v3-s0"}
    assert models.question(analyze(study)) is None  # unless it is asked for


def test_titles_of_neighbouring_panels_do_not_overlap(inspections):
    names = [f"patch_size={size}, embed_dim={width}" for size in (2, 4) for width in (32, 64)]
    figure = figures.heat_maps(dict.fromkeys(names, inspections["learned-1d"].similarity), "logits")
    figure.draw_without_rendering()
    titled = [axes for axes in figure.axes if axes.get_title(loc="left")]
    titles = [axes.get_title(loc="left").replace("\n", " ") for axes in titled]
    assert all(title.startswith(name) for title, name in zip(titles, names, strict=True))
    boxes = [axes._left_title.get_window_extent() for axes in titled]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2)) and boxes[-1].x1 <= figure.bbox.x1


def test_overlays_show_class_and_prediction(inspections):
    inspected = inspections["learned-1d"]
    maps = (inspected.attention, inspected.rollout)
    figure = figures.overlay(inspected.images, maps, inspected.truth, inspected.predicted)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == [f"{truth}\n{answer}" for truth, answer in zip(inspected.truth, inspected.predicted)]


def test_a_checkpoint_that_cannot_be_used_is_named(tmp_path):
    folder = write_study(tmp_path, accuracy=ACCURACY, seeds=1, weights=untrained)
    (folder / "v0-s0" / record.CHECKPOINT).unlink()
    other = folder / "v1-s0" / record.CHECKPOINT
    other.write_bytes((folder / "v3-s0" / record.CHECKPOINT).read_bytes())
    with pytest.raises(record.RecordError, match="v1-s0/checkpoint.safetensors: does not match .*without --models"):
        inspect.inspect_models(read_folder(folder), list(ACCURACY))
    found, missing = inspect.inspect_models(read_folder(folder), list(ACCURACY), skip_unreadable=True)
    assert [model.variant for model in found] == ["learned-2d", "rope-2d"]
    assert ("v0-s0", "the checkpoint is missing") in missing and missing[1][0] == "v1-s0"


def test_without_the_data_the_section_has_a_reason(tmp_path):
    levels = lambda variant: {"model.pos_embed": variant, "data.name": "cifar10", "model.patch_size": 8}  # noqa: E731
    results = results_of(tmp_path, accuracy=ACCURACY, seeds=1, levels=levels, weights=untrained)
    section = models.question(replace(results, options=ReportOptions(models=True)))
    assert section.items == [] and "data.root" in section.paragraphs[0]
