"""A model at another image size: tables against timm, fixed values against a new model, refused where it makes no
sense.
"""

import pytest
import torch
from timm.layers import resample_abs_pos_embed
from timm.layers.pos_embed_rel import resize_rel_pos_bias_table_simple

from vit import ViT, ViTConfig
from vit.registry import REGISTRY
from vit.resize import resized

SIZES = (4, 6, 12, 18)
RECOMPUTED = {
    "none", "sinusoidal", "sincos-2d", "rope-2d", "rope-mixed", "alibi-2d", "lookhere", "irpe-k", "relative-2d-kv", "cape", "fourier-learned",
    "adaptive-2d", "cpe", "pape", "rope-spherical",
}  # fmt: skip
INTERPOLATED = {
    "learned-1d", "learned-1d-gated", "frozen-random", "learned-2d", "relative", "rel-bias-2d", "rope-2d-learned-1d",
}  # fmt: skip
OPTIONS = {"patch_size": 2, "embed_dim": 32, "depth": 2, "num_heads": 4, "in_chans": 1, "num_classes": 3}


def model(kind: str, size: int = 8, **options) -> ViT:
    torch.manual_seed(0)
    found = ViT(ViTConfig(**{**OPTIONS, "pos_embed": kind, "img_size": size, **options})).eval()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return found


def test_every_kind_is_in_one_of_the_two_groups():
    assert {name for name, kind in REGISTRY.items() if not kind.is_plugin} == RECOMPUTED | INTERPOLATED


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", sorted(RECOMPUTED))
def test_kinds_without_a_table_are_those_of_a_new_model_with_the_same_parameters(kind, size):
    trained, images = model(kind), torch.randn(2, 1, size, size)
    new = ViT(ViTConfig(**{**OPTIONS, "pos_embed": kind, "img_size": size})).eval()
    own = dict(trained.named_parameters())
    with torch.no_grad():
        for name, parameter in new.named_parameters():
            parameter.copy_(own[name])
    assert torch.equal(resized(trained, size)(images), new(images))


@pytest.mark.parametrize("kind", ["rope-2d", "rope-2d-learned-1d", "rope-mixed", "rope-spherical"])
def test_with_interpolated_positions_patches_in_the_same_place_of_the_image_attend_as_in_training(kind):
    """Where each patch becomes 3 x 3, the one in its middle has its place."""
    trained = model(kind)
    middle = [1 + 12 * (3 * row + 1) + 3 * column + 1 for row in range(4) for column in range(4)]
    q, k = torch.randn(2, 1, 4, 1, 8)

    def logits(at: ViT, tokens: list[int]) -> torch.Tensor:
        rotated = at.pos[0].rotate(*(x.expand(-1, -1, at.cfg.num_tokens, -1) for x in (q, k)))
        queries, keys = (x[:, :, tokens] for x in rotated)
        return queries @ keys.transpose(-2, -1)

    expected = logits(trained, list(range(1, 17)))
    assert torch.allclose(logits(resized(trained, 24, interpolated=True), middle), expected, atol=1e-5)
    assert not torch.allclose(logits(resized(trained, 24), middle), expected, atol=1e-2)


@pytest.mark.parametrize("kind", ["none", "learned-1d", "alibi-2d"])
def test_a_kind_without_rotation_has_no_positions_to_interpolate(kind):
    with pytest.raises(ValueError, match=f"^pos_embed: '{kind}' cannot be used at 12 px with interpolated positions: "):
        resized(model(kind), 12, interpolated=True)


@pytest.mark.parametrize("registers", [0, 2])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["learned-1d", "learned-1d-gated", "frozen-random", "rope-2d-learned-1d"])
def test_tables_over_the_grid_are_those_of_timm(kind, size, registers):
    trained = model(kind, reg_tokens=registers)
    found = resized(trained, size)
    old, new = (each.pos[0].table if kind == "rope-2d-learned-1d" else each.pos[0] for each in (trained, found))
    expected = resample_abs_pos_embed(old.table[None], [size // 2] * 2, [4, 4], num_prefix_tokens=1)[0]
    assert torch.allclose(new.table, expected, atol=1e-6)
    assert found(torch.randn(2, 1, size, size)).isfinite().all()


@pytest.mark.parametrize("size", SIZES)
def test_tables_of_rows_and_columns_are_interpolated_on_their_axis(size):
    """A grid that is constant along one axis is interpolated along the other only."""
    trained = model("learned-2d")
    found = resized(trained, size)
    for name in ("x_table", "y_table"):
        grid = getattr(trained.pos[0], name)[:, None].expand(4, 4, -1).reshape(16, -1)
        expected = resample_abs_pos_embed(grid[None], [size // 2] * 2, [4, 4], num_prefix_tokens=0)[0]
        assert torch.allclose(getattr(found.pos[0], name), expected.reshape(size // 2, size // 2, -1)[:, 0], atol=1e-5)


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_tables_of_offsets_are_those_of_timm_and_prefix_biases_stay(size, prefix):
    trained = model("rel-bias-2d", class_token=prefix, pool="cls" if prefix else "gap")
    grid, extra = size // 2, 3 * prefix
    for old, new in zip(trained.pos, resized(trained, size).pos, strict=True):
        shape = ((2 * grid - 1) ** 2 + extra, 4)
        expected = resize_rel_pos_bias_table_simple(old.table.T.contiguous(), (grid, grid), shape).T
        assert torch.allclose(new.table, expected, atol=1e-6)
        assert torch.equal(new.table[:, shape[0] - extra :], old.table[:, 49:])


@pytest.mark.parametrize("size", SIZES)
def test_raster_offsets_are_interpolated_over_row_and_column_offsets(size):
    """timm resizes a table over (row, column) offsets; a raster offset has the mean over all pairs of patches with it."""
    trained = model("relative")
    grid = size // 2
    places = [(i // grid, i % grid) for i in range(grid**2)]
    for old, new in zip(trained.pos, resized(trained, size).pos, strict=True):
        square = [old.table[:, 4 * y + x + 15] for y in range(-3, 4) for x in range(-3, 4)]  # the trained grid is 4 x 4
        flat = torch.stack(square).flatten(1)  # [49, H Dh]
        wide = resize_rel_pos_bias_table_simple(flat, (grid, grid), ((2 * grid - 1) ** 2, flat.shape[1]))
        sums, counts = torch.zeros(2 * grid**2 - 1, flat.shape[1]), torch.zeros(2 * grid**2 - 1, 1)
        for i, (yi, xi) in enumerate(places):
            for j, (yj, xj) in enumerate(places):
                sums[i - j + grid**2 - 1] += wide[(yi - yj + grid - 1) * (2 * grid - 1) + xi - xj + grid - 1]
                counts[i - j + grid**2 - 1] += 1
        expected = (sums / counts).unflatten(1, (4, 8)).transpose(0, 1)
        assert torch.allclose(new.table, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", list(REGISTRY))
def test_a_model_of_half_precision_is_resized_as_in_float32(kind, dtype):
    model = ViT(ViTConfig(img_size=8, patch_size=2, embed_dim=24, depth=2, num_heads=2, num_classes=3, pos_embed=kind))
    half = resized(model.to(dtype), 12).state_dict()
    for name, expected in resized(model.float(), 12).state_dict().items():
        assert half[name].dtype == dtype
        torch.testing.assert_close(half[name].float(), expected, rtol=0.02, atol=1e-3)
