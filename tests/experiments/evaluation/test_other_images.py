"""Evaluation at other sizes, with shifted and with permuted images: against the checkpoint, step by step."""

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file

from experiments.config import override
from experiments.data import loading
from experiments.runs import record
from vit import ViT
from vit.resize import resized

SIZES = {"eval__img_sizes": "4,8,12"}
ALL = {**SIZES, "eval__max_shift": 2, "eval__permuted": True}


def trained(folder: Path, config: Any) -> ViT:
    model = ViT(config.vit_config()).eval()
    model.load_state_dict(load_file(folder / record.CHECKPOINT))
    return model


@pytest.mark.parametrize("kind", ["learned-1d", "rel-bias-2d", "sinusoidal"])
def test_each_size_is_that_of_the_resized_model_on_resized_images(kind, tmp_path):
    changes = {**SIZES, "model__pos_embed": kind}
    summary, config = tiny.run(tmp_path / "a", **changes), tiny.config(**changes)
    own = loading.load(config)
    for side in (4, 12):
        images = loading.load(override(config, {"data.img_size": side}))
        assert torch.equal(images.test.y, own.test.y)
        for part in ("val", "test"):
            x, y = getattr(images, part).x, getattr(images, part).y
            scores = resized(trained(tmp_path / "a", config), side)((x / 255 - own.mean[0]) / own.std[0])
            assert summary[f"{part}/acc@{side}px"] == pytest.approx(
                float((scores.argmax(1) == y).double().mean()), abs=2e-3
            )
            loss = torch.nn.functional.cross_entropy(scores, y).item()
            assert summary[f"{part}/loss@{side}px"] == pytest.approx(loss, abs=1e-4)
    for name in ("val/acc", "val/loss", "test/acc", "test/loss"):
        assert summary[f"{name}@8px"] == summary[name]


def test_interpolated_positions_are_a_second_evaluation_of_the_same_weights(tmp_path):
    plain = {**SIZES, "model__pos_embed": "rope-2d"}
    changes = {**plain, "eval__interpolated": True}
    summary, config = tiny.run(tmp_path / "a", **changes), tiny.config(**changes)
    without = tiny.run(tmp_path / "b", **plain)
    assert {name: summary[name] for name in without if "/" in name} == {n: without[n] for n in without if "/" in n}
    assert (tmp_path / "a" / record.METRICS).read_bytes() == (tmp_path / "b" / record.METRICS).read_bytes()
    own, images = loading.load(config), loading.load(override(config, {"data.img_size": 12}))
    model = resized(trained(tmp_path / "a", config), 12, interpolated=True)
    for part in ("val", "test"):
        x, y = getattr(images, part).x, getattr(images, part).y
        loss = torch.nn.functional.cross_entropy(model((x / 255 - own.mean[0]) / own.std[0]), y).item()
        assert summary[f"{part}/loss@12px/interpolated"] == pytest.approx(loss, abs=1e-4)
        assert abs(loss - summary[f"{part}/loss@12px"]) > 1e-3
        assert summary[f"{part}/acc@8px/interpolated"] == summary[f"{part}/acc"]
    assert {name for name in summary if "/" in name} == {*config.metrics, "train/grad_norm"}
    other = tiny.run(tmp_path / "c", **{**changes, "model__pos_embed": "sincos-2d"})
    for name in ("val/loss", "val/acc", "test/loss", "test/acc"):  # no positions to interpolate
        assert other[f"{name}@12px/interpolated"] == other[f"{name}@12px"] != summary[f"{name}@12px"]


def test_shifts_and_permutations_are_measured_on_the_test_images(tmp_path):
    summary, config = tiny.run(tmp_path / "a", **ALL), tiny.config(**ALL)
    splits, model = loading.load(config), trained(tmp_path / "a", config)

    def classes(x):
        return model(splits.normalized(splits.scaled(x))).argmax(1)

    x, same = splits.test.x, {}
    for pixels in (1, 2):
        moved = torch.zeros(4, *x.shape, dtype=x.dtype)
        moved[0, ..., pixels:, :] = x[..., :-pixels, :]
        moved[1, ..., :-pixels, :] = x[..., pixels:, :]
        moved[2, ..., pixels:] = x[..., :-pixels]
        moved[3, ..., :-pixels] = x[..., pixels:]
        same[pixels] = torch.stack([classes(each) == classes(x) for each in moved]).double().mean().item()
        assert summary[f"shift/{pixels}"] == pytest.approx(same[pixels], abs=1e-12)
    permuted = loading.shuffle_patches(splits.test, 2, 0)
    assert summary["permuted/acc"] == pytest.approx(
        (classes(permuted.x) == permuted.y).double().mean().item(), abs=1e-12
    )
    assert 0 < same[1] < 1 and 0 < same[2] < 1
