"""Diagnostics against hand-computed cases, closed forms and double loops."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from vit import ViT, ViTConfig, diagnostics
from vit.pos_embed import REGISTRY, Additive, build

SMALL = {"img_size": 12, "patch_size": 3, "in_chans": 1, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 5}
G, N = 4, 16


def config(**changes: object) -> ViTConfig:
    return ViTConfig(**{**SMALL, **changes})


def position(kind: str, **changes: object) -> tuple[torch.nn.Module, ViTConfig]:
    torch.manual_seed(0)
    cfg = config(pos_embed=kind, **changes)
    return build(cfg)[0], cfg


def attention(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(-1)


def class_token(count: int, tokens: int) -> Tensor:
    """Pooling weights of the class token: [count, tokens]."""
    return torch.eye(tokens)[:1].expand(count, -1)


def test_pooled_attention_is_the_mean_over_heads_of_the_pooled_rows_without_registers():
    cfg = config(img_size=4, patch_size=1, reg_tokens=1)  # one pixel per patch, so no interpolation
    weights, shares = attention(3, 2, 2 + N, 2 + N), attention(3, 2 + N)
    for pooling in (class_token(3, 2 + N).double(), shares):
        heat = diagnostics.pooled_attention(weights, pooling, cfg)
        for b, r, c in itertools.product(range(3), range(G), range(G)):
            column = weights[b, :, :, 2 + 4 * r + c].sum(0) / 2  # of each token, the mean over the two heads
            assert heat[b, r, c] == pytest.approx(float((pooling[b] * column).sum()))


@pytest.mark.parametrize("pool", ["cls", "gap", "map"])
def test_pooling_weights_are_the_weights_of_tokens_in_the_feature(pool):
    """Linear pooling of unit vectors gives the weights themselves; attention pooling has its own weights."""
    torch.manual_seed(0)
    model = ViT(config(pool=pool, reg_tokens=1, init="torch")).double().eval()
    images = torch.randn(3, 1, 12, 12, dtype=torch.float64)
    pooling = model.pooling_weights(images)
    torch.testing.assert_close(pooling.sum(-1), torch.ones(3, dtype=torch.float64))
    if pool == "map":
        tokens = model.encode(images)
        with torch.no_grad():
            query = model.pooling.q(model.pooling.probe)[0, 0].unflatten(0, (2, 8))
            key = model.pooling.kv(tokens)[..., :16].unflatten(-1, (2, 8))
        expected = torch.stack([(key[:, :, h] @ query[h] / 8**0.5).softmax(-1) for h in range(2)]).mean(0)
        torch.testing.assert_close(pooling, expected)
    else:
        tokens = torch.eye(2 + N, dtype=torch.float64).expand(3, -1, -1)  # token t is unit vector t
        torch.testing.assert_close(pooling, model.pooling(tokens))


def test_rollout_multiplies_later_layers_from_the_left():
    """By hand: in layer 1 token 0 attends to token 1, in layer 2 token 1 attends to token 0."""
    first = torch.tensor([[0.0, 1.0], [0.0, 1.0]])[None, None]
    second = torch.tensor([[1.0, 0.0], [1.0, 0.0]])[None, None]
    expected = torch.tensor([[0.5, 0.5], [0.25, 0.75]])  # [[1, 0], [.5, .5]] @ [[.5, .5], [0, 1]]
    torch.testing.assert_close(diagnostics.rollout([first, second])[0], expected)


def test_mean_attention_distance_equals_a_double_loop():
    cfg = config(reg_tokens=1)
    maps = [attention(2, 2, 2 + N, 2 + N), attention(2, 2, 2 + N, 2 + N).flip(-1)]
    measured = diagnostics.mean_attention_distance(maps, cfg)
    for layer, weights in enumerate(maps):
        for head in range(2):
            far = []
            for b in range(2):
                for i in range(N):
                    row = weights[b, head, 2 + i, 2:]
                    distances = [3 * math.dist(divmod(i, G), divmod(j, G)) for j in range(N)]
                    far.append(sum(w * d for w, d in zip(row.tolist(), distances, strict=True)) / row.sum().item())
            assert measured[layer, head] == pytest.approx(sum(far) / len(far))


@pytest.mark.parametrize("kind", REGISTRY)
def test_every_kind_has_a_similarity_or_logits(kind):
    """Except `none` and kinds whose added vector depends on the tokens; a rotation with a table has both."""
    pos, cfg = position(kind)
    blank, other = torch.zeros(1, 17, 16), torch.randn(1, 17, 16)
    similarity, logits = diagnostics.position_similarity(pos, cfg), diagnostics.position_logits(pos, cfg)
    if isinstance(pos, Additive) and torch.allclose(pos.add(blank), pos.add(other) - other, atol=1e-5):
        assert logits is None
        assert similarity.shape == (G, G, G, G)
        torch.testing.assert_close(similarity, similarity.permute(2, 3, 0, 1))
        torch.testing.assert_close(similarity.reshape(N, N).diagonal(), torch.ones(N))
    elif kind == "none" or isinstance(pos, Additive):
        assert similarity is None
        assert logits is None
    else:
        assert (similarity is None) == (kind != "rope-2d-learned-1d")
        assert logits.shape == (2, G, G, G, G)


def test_position_logits_are_nan_where_a_head_does_not_look():
    """The first two heads of lookhere look up and down, with a slope of 1.5 in the first layer."""
    pos, cfg = position("lookhere")
    up, down = diagnostics.position_logits(pos, cfg)
    assert up[1, 2, 0, 2] == down[1, 2, 2, 2] == -1.5
    assert up[1, 2, 2, 2].isnan()
    assert down[1, 2, 0, 2].isnan()
    assert up[1, 2, 1, 2] == 0


def test_position_logits_of_a_rotation_are_the_cosines_of_its_angles():
    """One channel pair (1/2, 1/2) rotates by 1 rad per row, one per column; without a position their product is 1."""
    pos, cfg = position("rope-2d", embed_dim=8)  # heads of width 4
    logits = diagnostics.position_logits(pos, cfg)
    for (i, a), (j, b) in (((0, 0), (3, 1)), ((2, 1), (0, 3)), ((1, 1), (1, 1))):
        expected = ((math.cos(j - i) + math.cos(b - a)) / 2 - 1) / 2
        assert logits[1, i, a, j, b] == pytest.approx(expected, abs=1e-6)
