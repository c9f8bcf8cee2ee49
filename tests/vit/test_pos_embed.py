"""Every registered positional embedding against an independent oracle, and the symmetry that it must break."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from timm.layers import RelPosBias, RotaryEmbeddingMixed, apply_rot_embed_cat, build_sincos2d_pos_embed
from torch import Tensor

from vit import ViT, ViTConfig
from vit.pos_embed import REGISTRY, Additive, PosEmbed, build, continuous
from vit.registry import SITES

SMALL = {"img_size": 12, "patch_size": 3, "in_chans": 1, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 5}
G, N, D, H, DH = 4, 16, 16, 2, 8


def config(kind: str, **changes: object) -> ViTConfig:
    return ViTConfig(**{**SMALL, "pos_embed": kind, **changes})


def module(kind: str, **changes: object) -> PosEmbed:
    torch.manual_seed(0)
    return REGISTRY[kind].cls(config(kind, **changes)).double()


def added(kind: str, **changes: object) -> Tensor:
    """What an additive kind adds to zero tokens: [T, D]."""
    cfg = config(kind, **changes)
    return module(kind, **changes).add(torch.zeros(1, cfg.num_tokens, D, dtype=torch.float64))[0].detach()


def logits_of(kind: str, q: Tensor, k: Tensor, **changes: object) -> Tensor:
    """Attention logits of content and position: [B, H, T, T]."""
    pos = module(kind, **changes)
    bias = pos.bias(q)
    q, k = pos.rotate(q, k)
    content = q @ k.transpose(-2, -1) / math.sqrt(DH)
    return (content if bias is None else content + bias).detach()


def queries_and_keys(tokens: int = 1 + N) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(2, H, tokens, DH, dtype=torch.float64, generator=generator) for _ in range(2))


def is_none() -> None:
    assert torch.equal(added("none"), torch.zeros(1 + N, D, dtype=torch.float64))


def is_sinusoidal() -> None:
    table = added("sinusoidal")
    for i, j in itertools.product(range(1 + N), range(D)):
        angle = i / 10000 ** ((j - j % 2) / D)
        assert table[i, j] == pytest.approx(math.cos(angle) if j % 2 else math.sin(angle), abs=1e-6)


def is_learned_1d() -> None:
    assert torch.equal(added("learned-1d"), module("learned-1d").table)
    assert module("learned-1d").table.shape == (1 + N, D)


def is_learned_2d() -> None:
    pos, table = module("learned-2d"), added("learned-2d")
    assert not table[0].any()  # the class token has no position
    for row, column in itertools.product(range(G), repeat=2):
        assert torch.equal(table[1 + row * G + column], torch.cat([pos.x_table[column], pos.y_table[row]]))


def is_relative() -> None:
    q, k = queries_and_keys()
    table, expected = module("relative").table, q @ k.transpose(-2, -1) / math.sqrt(DH)
    for i, j in itertools.product(range(N), repeat=2):
        expected[:, :, 1 + i, 1 + j] += (q[:, :, 1 + i] * table[:, i - j + N - 1]).sum(-1) / math.sqrt(DH)
    assert torch.allclose(logits_of("relative", q, k), expected, atol=1e-12)


def is_sincos_2d() -> None:
    ours = added("sincos-2d")
    assert not ours[0].any()
    y, x = torch.meshgrid(torch.arange(G), torch.arange(G), indexing="ij")
    frequency = 1 / 10000 ** (torch.arange(D // 4) / (D // 4))
    x, y = (axis.flatten()[:, None] * frequency for axis in (x, y))
    moco = torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)  # MoCo v3, vits.py, build_2d_sincos_position_embedding
    assert torch.allclose(ours[1:], moco.double(), atol=1e-6)
    theirs = build_sincos2d_pos_embed([G, G], D)  # timm's has the same columns in another order
    assert sorted(c.sum().item() for c in theirs.T) == pytest.approx(
        sorted(c.sum().item() for c in ours[1:].T), abs=1e-5
    )


def is_rel_bias_2d() -> None:
    ours, timm = module("rel-bias-2d"), RelPosBias(window_size=(G, G), num_heads=H, prefix_tokens=1).double()
    with torch.no_grad():
        timm.relative_position_bias_table.copy_(ours.table.T)
    q, k = queries_and_keys()
    expected = q @ k.transpose(-2, -1) / math.sqrt(DH) + timm.get_bias()
    assert torch.allclose(logits_of("rel-bias-2d", q, k), expected, atol=1e-12)
    (registers,), shared = module("rel-bias-2d", reg_tokens=3).bias(queries_and_keys(4 + N)[0]), [0] * 3 + [*range(17)]
    assert torch.equal(registers, ours.bias(q)[0][:, shared][:, :, shared])  # they share the class token's logits


def is_rope_2d(base: float = 100.0, kind: str = "rope-2d", **changes: object) -> None:
    q, k = queries_and_keys()
    logits = logits_of(kind, q, k, **changes)
    content = q @ k.transpose(-2, -1) / math.sqrt(DH)
    assert torch.allclose(logits[:, :, 0, 0], content[:, :, 0, 0])  # the class token is not rotated
    frequency = base ** -(torch.arange(DH // 4, dtype=torch.float64) / (DH // 4))
    for i, j in [(0, 5), (3, 12), (15, 2)]:
        dy, dx = i // G - j // G, i % G - j % G
        angle = torch.cat([dy * frequency, dx * frequency])
        qc, kc = torch.view_as_complex(q.unflatten(-1, (-1, 2))), torch.view_as_complex(k.unflatten(-1, (-1, 2)))
        turned = (qc[:, :, 1 + i] * kc[:, :, 1 + j].conj() * torch.polar(torch.ones_like(angle), angle)).sum(-1).real
        assert torch.allclose(logits[:, :, 1 + i, 1 + j], turned / math.sqrt(DH))


def is_rope_2d_learned_1d() -> None:
    is_rope_2d(kind="rope-2d-learned-1d")
    first, second = (layer.double() for layer in build(config("rope-2d-learned-1d", pos_std=1.0)))
    zeros, (q, k) = torch.zeros(1, 1 + N, D, dtype=torch.float64), queries_and_keys()
    assert torch.equal(first.add(zeros)[0], first.table.table) and first.table.table.shape == (1 + N, D)
    assert torch.equal(second.add(zeros), zeros)  # the table is added once
    assert not list(second.parameters())
    assert all(torch.equal(a, b) for a, b in zip(first.rotate(q, k), second.rotate(q, k), strict=True))


def is_alibi_2d() -> None:
    (bias,) = module("alibi-2d").bias(queries_and_keys()[0])
    assert not bias[:, 0].any() and not bias[:, :, 0].any()
    for h, i, j in itertools.product(range(H), range(N), range(N)):
        distance = math.dist((i // G, i % G), (j // G, j % G))
        assert bias[h, 1 + i, 1 + j].item() == pytest.approx(-(2 ** (-8 * (h + 1) / H)) * distance, abs=1e-5)


def is_cpe() -> None:
    pos = module("cpe")
    x = torch.randn(2, 1 + N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    out, grid = pos.add(x), x[:, 1:].transpose(1, 2).unflatten(2, (G, G))
    position = F.conv2d(grid, pos.conv.weight, pos.conv.bias, padding=1, groups=D).flatten(2).transpose(1, 2)
    assert torch.equal(out[:, 0], x[:, 0]) and torch.allclose(out[:, 1:], x[:, 1:] + position)


def is_frozen_random() -> None:
    assert not list(module("frozen-random").parameters())
    assert torch.equal(added("frozen-random"), added("learned-1d"))  # the same seed gives the same table, untrained


def is_learned_1d_gated() -> None:
    pos, table = module("learned-1d-gated"), added("learned-1d")
    assert torch.equal(added("learned-1d-gated"), table)  # the gate starts open
    with torch.no_grad():
        pos.gate.fill_(math.atanh(0.25))
    assert torch.allclose(pos.add(torch.zeros(1, 1 + N, D, dtype=torch.float64))[0], 0.75 * table)


def is_fourier_learned() -> None:
    pos, table = module("fourier-learned"), added("fourier-learned")
    assert pos.fc1.weight.shape == (32, D) and not table[0].any()
    for row, column in itertools.product(range(G), repeat=2):
        phase = pos.frequency @ torch.tensor([row, column], dtype=torch.float64)
        hidden = F.gelu(pos.fc1(torch.cat([phase.cos(), phase.sin()]) / math.sqrt(D)))
        assert torch.allclose(table[1 + row * G + column], pos.fc2(hidden))


def cape_of(row: float, column: float) -> list[float]:
    """The embedding of one position."""
    phases = [10 ** (i / (D // 2 - 1)) * (math.cos(i) * column + math.sin(i) * row) * math.pi for i in range(D // 2)]
    return [*map(math.cos, phases), *map(math.sin, phases)]


def is_cape() -> None:
    table = added("cape")
    assert not table[0].any()
    for row, column in itertools.product(range(G), repeat=2):
        expected = cape_of(2 * row / (G - 1) - 1, 2 * column / (G - 1) - 1)
        assert table[1 + row * G + column].tolist() == pytest.approx(expected, abs=1e-5)


def is_adaptive_2d() -> None:
    pos = module("adaptive-2d")
    x = torch.randn(2, 1 + N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    out = (pos.add(x) - x).detach()
    assert not out[:, 0].any()

    def wave(i: int) -> Tensor:
        turns = [i / 10000 ** (j // 2 * 2 / D) for j in range(D)]
        return torch.tensor([math.cos(t) if j % 2 else math.sin(t) for j, t in enumerate(turns)], dtype=torch.float64)

    for image in range(2):
        mean = x[image, 1:].mean(0)
        scales = [(net[2](net[0](mean).clamp(min=0))).sigmoid() for net in (pos.row_scale, pos.column_scale)]
        for row, column in itertools.product(range(G), repeat=2):
            expected = scales[0] * wave(row) + scales[1] * wave(column)
            assert torch.allclose(out[image, 1 + row * G + column], expected, atol=1e-6)


def is_rope_mixed() -> None:
    torch.manual_seed(0)
    pos = REGISTRY["rope-mixed"].cls(config("rope-mixed"))
    timm = RotaryEmbeddingMixed(D, depth=1, num_heads=H, feat_shape=[G, G])
    with torch.no_grad():
        timm.freqs[:, 0] = pos.frequency.flip(0)  # timm: columns (x) first
    q, k = (x.float() for x in queries_and_keys())
    expected = (apply_rot_embed_cat(x[:, :, 1:], timm.get_embed([G, G])[0]) for x in (q, k))
    for ours, patches, before in zip(pos.rotate(q, k), expected, (q, k), strict=True):
        assert torch.allclose(ours[:, :, 1:], patches, atol=1e-5)
        assert torch.equal(ours[:, :, 0], before[:, :, 0])  # the class token is not rotated
    row, column = pos.frequency.detach().unflatten(2, (2, DH // 4))  # each [H, 2 directions, Dh/4]
    lengths = torch.tensor([1, 10**-0.5])  # base 10
    assert torch.allclose((row**2 + column**2).sqrt(), lengths.expand(H, 2, DH // 4))
    assert (row.prod(1) + column.prod(1)).abs().max() < 1e-6  # the two directions of a head are orthogonal
    assert (row[0] - row[1]).abs().min() > 1e-3  # those of two heads differ


def is_rope_spherical() -> None:
    """Against products with 3 x 3 matrices: yaw by the column, then roll by the row; positions from the centre."""
    q, k = queries_and_keys()

    def turned(x: Tensor, i: int) -> Tensor:
        """A query or key [B, H, DH] of patch i: its triples (0, 1, 2) and (3, 4, 5); the last two channels stay."""
        row, column = i // G - 1.5, i % G - 1.5
        out = x.clone()
        for t, frequency in enumerate((1.0, 0.1)):  # 100 ** (-t / 2)
            (s, c), (sr, cr) = ((math.sin(a * frequency), math.cos(a * frequency)) for a in (column, row))
            yaw = torch.tensor([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=torch.float64)
            roll = torch.tensor([[1, 0, 0], [0, cr, -sr], [0, sr, cr]], dtype=torch.float64)
            out[..., 3 * t : 3 * t + 3] = x[..., 3 * t : 3 * t + 3] @ (roll @ yaw).T
        return out

    logits = logits_of("rope-spherical", q, k)
    assert torch.allclose(logits[:, :, 0, 0] * math.sqrt(DH), (q * k)[:, :, 0].sum(-1))  # the class token stays
    for i, j in itertools.product(range(N), repeat=2):
        expected = (turned(q[:, :, 1 + i], i) * turned(k[:, :, 1 + j], j)).sum(-1) / math.sqrt(DH)
        assert torch.allclose(logits[:, :, 1 + i, 1 + j], expected, atol=1e-6)


def is_pape() -> None:
    """Against the sum over parabolas, pair by pair."""
    pos, (q, k) = module("pape"), queries_and_keys()
    tokens = torch.cat([q[:, h] for h in range(H)], -1)  # [B, T, D]
    a = torch.log1p(torch.exp(tokens @ pos.a.weight.T)).reshape(2, -1, H, 50)
    b = (tokens @ pos.b.weight.T).reshape(2, -1, H, 50)
    expected = q @ k.transpose(-2, -1)
    for h, i, j in itertools.product(range(H), range(N), range(N)):
        offset = torch.tensor([i // G - j // G, i % G - j % G], dtype=torch.float64)
        p = pos.weight[h] @ offset
        expected[:, h, 1 + i, 1 + j] += (-a[:, 1 + i, h] * p**2 + b[:, 1 + i, h] * p).sum(-1)
    assert torch.allclose(logits_of("pape", q, k), (expected / math.sqrt(DH)).detach(), atol=1e-10)
    assert sum(p.numel() for p in pos.parameters()) == 100 * H * (D + 1)


def is_irpe_k() -> None:
    q, k = queries_and_keys()
    table, content = module("irpe-k").table, q @ k.transpose(-2, -1) / math.sqrt(DH)
    # authors' piecewise_index with alpha 1.9 = beta / 2 = gamma / 8
    bins = {-3: -2, -2: -2, -1: -1, 0: 0, 1: 1, 2: 2, 3: 2}
    expected = content.clone()
    for i, j in itertools.product(range(N), repeat=2):
        row, column = bins[i // G - j // G], bins[i % G - j % G]
        expected[:, :, 1 + i, 1 + j] += q[:, :, 1 + i] @ table[(row + 3) * 7 + column + 3] / math.sqrt(DH)
    assert torch.allclose(logits_of("irpe-k", q, k), expected, atol=1e-12)


def is_relative_2d_kv(**changes: object) -> None:
    """Against sums over pairs of tokens, with and without maps of the attention."""
    cfg, pos = config("relative-2d-kv", **changes), module("relative-2d-kv", **changes)
    attention = ViT(cfg).double().blocks[0].attn
    x = torch.randn(2, cfg.num_tokens, D, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    q, k, v = attention._split(x)
    prefix, side, entries = cfg.num_prefix_tokens, cfg.grid_size, {-2: 0, -1: 1, 0: 2, 1: 3, 2: 4}

    def vector(table: Tensor, i: int, j: int) -> Tensor:
        if i < prefix or j < prefix:
            return torch.cat([table[0, 5], table[1, 5]])
        (row, column), (key_row, key_column) = divmod(i - prefix, side), divmod(j - prefix, side)
        offsets = (max(-2, min(2, key - own)) for key, own in ((key_row, row), (key_column, column)))
        return torch.cat([table[axis, entries[offset]] for axis, offset in enumerate(offsets)])

    weights, out = torch.empty(2, H, cfg.num_tokens, cfg.num_tokens, dtype=torch.float64), torch.zeros_like(v)
    for b, h, i in itertools.product(range(2), range(H), range(cfg.num_tokens)):
        keys = range(cfg.num_tokens)
        scores = [q[b, h, i] @ (k[b, h, j] + vector(pos.key_table, i, j)) / math.sqrt(DH) for j in keys]
        weights[b, h, i] = torch.stack(scores).softmax(0)
        out[b, h, i] = sum(weights[b, h, i, j] * (v[b, h, j] + vector(pos.value_table, i, j)) for j in keys)
    expected, maps = attention._merge(out), []
    assert torch.allclose(attention(x, pos), expected, atol=1e-12)
    assert torch.allclose(attention(x, pos, maps=maps), expected, atol=1e-12)
    assert torch.allclose(maps[0], weights, atol=1e-12)


def is_lookhere() -> None:
    """Against angles: a patch is visible within 90 degrees of the direction of the head."""
    headings = [90, -90, 180, 0, 45, 135, -45, -135]  # up, down, left, right, then the diagonals; degrees from east
    cfg = config("lookhere", embed_dim=56, num_heads=14, depth=3)
    modules = ViT(cfg).pos
    for module_, layer_slope in zip(modules, (1.5, 1.0, 0.5), strict=True):
        (bias,) = module_.bias(queries_and_keys()[0])
        assert not bias[:, 0].any()
        assert not bias[:, :, 0].any()
        for h, i, j in itertools.product(range(14), range(N), range(N)):
            dy, dx = j // G - i // G, j % G - i % G
            slope = layer_slope * (1.0 if h % 12 < 8 else 0.5 * 0.25 ** (h - 8))
            between = math.degrees(math.atan2(-dy, dx)) - (headings[h % 12] if h % 12 < 8 else 0)
            visible = h % 12 >= 8 or i == j or abs((between + 180) % 360 - 180) < 90.001
            expected = -slope * math.hypot(dy, dx) if visible else -1e4
            assert bias[h, 1 + i, 1 + j].item() == pytest.approx(expected, abs=1e-4), (h, i, j)


ORACLES: dict[str, Callable[[], None]] = {
    name.removeprefix("is_").replace("_", "-"): check
    for name, check in list(globals().items())
    if name.startswith("is_")
}


@pytest.mark.parametrize("kind", REGISTRY)
def test_agrees_with_its_oracle(kind):
    assert kind in ORACLES, f"{kind} has no oracle: write is_{kind.replace('-', '_')} above"
    ORACLES[kind]()


@pytest.mark.parametrize("changes", [{"class_token": False, "pool": "gap"}, {"reg_tokens": 3}, {"img_size": 6}])
def test_relative_2d_kv_on_other_tokens_and_grids(changes):
    is_relative_2d_kv(**changes)


def test_the_base_of_rotary_frequencies_is_a_setting():
    is_rope_2d(base=10000.0, rope_base=10000.0)
    lengths = module("rope-mixed", rope_base=81.0).frequency.detach().square().sum(0).sqrt()
    assert torch.allclose(lengths, torch.tensor([1, 1 / 9] * 2, dtype=torch.float64).expand(H, DH // 2))
    with pytest.raises(
        ValidationError, match="rope_base: 50 is not allowed for none; only for rope-2d, rope-2d-learned-1d, "
    ):
        config("none", rope_base=50)


WITH_TABLE = (
    "learned-1d, learned-2d, relative, rel-bias-2d, rope-2d-learned-1d, frozen-random, learned-1d-gated, irpe-k, "
    "relative-2d-kv"
)


@pytest.mark.parametrize("kind", REGISTRY)
def test_a_table_starts_with_the_standard_deviation_of_the_setting(kind):
    if kind not in WITH_TABLE.split(", "):
        with pytest.raises(ValidationError, match=f"pos_std: 0.2 is not allowed for {kind}; only for {WITH_TABLE}"):
            config(kind, pos_std=0.2)
        return
    for std, setting in ((0.02, {}), (0.002, {"pos_std": 0.002}), (1.0, {"pos_std": 1.0})):
        wide = module(kind, img_size=48, embed_dim=128, **setting)
        tables = {name: values for name, values in wide.state_dict().items() if name.endswith("table")}
        assert len(tables) == (2 if kind in ("learned-2d", "relative-2d-kv") else 1)
        for table in tables.values():  # of n values, a standard deviation has the relative error 1 / sqrt(2 n)
            assert table.std().item() == pytest.approx(std, rel=4 / math.sqrt(2 * table.numel()))


@pytest.mark.parametrize("kind", ["sinusoidal", "sincos-2d"])
def test_a_fixed_table_is_multiplied_by_its_scale(kind):
    once, scaled = (module(kind, **setting) for setting in ({}, {"pos_scale": 0.03}))
    torch.testing.assert_close(scaled.table, 0.03 * once.table, rtol=1e-6, atol=0)
    with pytest.raises(ValidationError, match="pos_scale: 2 is not allowed for none; only for sinusoidal, sincos-2d"):
        config("none", pos_scale=2)


def test_bins_of_irpe_are_those_of_the_authors_piecewise_index():
    """By hand from eq. 18: 1.9 + 1.9 log(x / 1.9) / log 8, rounded, is 2 for 2 and 3 and 3 from 4; the largest bin
    is 3.
    """
    offset = torch.arange(14)
    expected = [0, 1, 2, 2, *[3] * 10]
    assert module("irpe-k")._bin(offset).tolist() == expected
    assert module("irpe-k")._bin(-offset).tolist() == [-x for x in expected]


@pytest.mark.parametrize("site", ["stem", "every-layer"])
def test_cape_augments_positions_in_training_only(site, monkeypatch):
    """Shift and scale of each image and shift of each patch, against a loop; the same in each layer."""
    numbers = torch.rand(2, 3 + 2 * N, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(continuous, "uniform", lambda key, stream, shape: numbers.reshape(shape))
    modules = ViT(config("cape", pos_site=site)).double().pos
    x, key = torch.zeros(2, 1 + N, D, dtype=torch.float64), torch.tensor(5, dtype=torch.int32)
    out = modules[0].add_in_training(x, key)
    assert not out[:, 0].any()
    for image, draws in enumerate((2 * numbers.double() - 1).tolist()):
        factor = 1.4 ** draws[2]
        for i in range(N):
            row, column = (
                factor * (2 * place / (G - 1) - 1 + 0.5 * draws[axis] + draws[3 + 2 * i + axis] / (G - 1))
                for axis, place in enumerate(divmod(i, G))
            )
            assert out[image, 1 + i].tolist() == pytest.approx(cape_of(row, column), abs=1e-4)
    if site == "every-layer":
        assert torch.equal(modules[1].add_in_training(x, key), out)


@pytest.mark.parametrize("changes", [{}, {"reg_tokens": 3}, {"class_token": False, "pool": "gap"}, {"img_size": 3}])
def test_the_bias_without_indexing_has_the_values_and_the_gradient_of_the_indexed_bias(changes):
    """On a GPU rel-bias-2d uses products with one-hot matrices. Values agree exactly in all precisions."""
    pos, cfg = module("rel-bias-2d", **changes), config("rel-bias-2d", **changes)
    indexed, products = pos.table[:, pos.index], pos._bias_by_products()
    assert torch.equal(products, indexed)
    for dtype in (torch.float32, torch.bfloat16):
        narrow = module("rel-bias-2d", **changes).to(dtype)
        assert torch.equal(narrow._bias_by_products(), narrow.table[:, narrow.index])
    weights = torch.randn(cfg.num_heads, cfg.num_tokens, cfg.num_tokens, dtype=torch.float64)
    gradients = [torch.autograd.grad((bias * weights).sum(), pos.table)[0] for bias in (indexed, products)]
    torch.testing.assert_close(*gradients)


def permuted(images: Tensor, patch: int, order: Tensor) -> Tensor:
    b, c, s, _ = images.shape
    g = s // patch
    patches = images.reshape(b, c, g, patch, g, patch).permute(0, 2, 4, 1, 3, 5).reshape(b, g * g, c, patch, patch)
    return patches[:, order].reshape(b, g, g, c, patch, patch).permute(0, 3, 1, 4, 2, 5).reshape(b, c, s, s)


@pytest.mark.parametrize("pool", ["cls", "gap", "map"])
@pytest.mark.parametrize("kind", REGISTRY)
def test_only_no_position_ignores_the_order_of_patches(kind, pool):
    torch.manual_seed(3)
    model = ViT(config(kind, pool=pool, init="torch")).double().eval()
    images = torch.randn(4, 1, 12, 12, dtype=torch.float64)
    shuffled = permuted(images, 3, torch.randperm(N))
    with torch.no_grad():
        change = (model(images) - model(shuffled)).abs().max().item()
    assert change < 1e-10 if kind == "none" else change > 1e-7


@pytest.mark.parametrize("kind", REGISTRY)
@pytest.mark.parametrize("prefix", [{"class_token": False, "pool": "gap"}, {"reg_tokens": 3}])
def test_registers_get_no_position_and_the_class_token_is_optional(kind, prefix):
    cfg = config(kind, **prefix)
    model = ViT(cfg).double().eval()
    assert model(torch.randn(2, 1, 12, 12, dtype=torch.float64)).shape == (2, 5)
    if "reg_tokens" in prefix:
        x = torch.zeros(1, cfg.num_tokens, D, dtype=torch.float64)
        assert not module(kind, **prefix).add(x)[0, 1:4].any()
        q, k = queries_and_keys(cfg.num_tokens)
        if kind == "relative-2d-kv":  # whose entry for prefix tokens is multiplied by the query
            q = q[:1, :, :1].expand_as(q)
        among = (
            logits_of(kind, q, k, **prefix)[:, :, 1:4, 1:4] - (q @ k.transpose(-2, -1) / math.sqrt(DH))[:, :, 1:4, 1:4]
        )
        assert torch.allclose(among, among[:1, :, :1, :1].expand_as(among))  # the same for every register
        bias = module(kind, **prefix).bias(q)
        if bias is not None:  # pairs with a register do not depend on the position of patch or register
            for pairs in (bias[:, :, 1:4, 4:], bias[:, :, 4:, 1:4]):
                assert torch.equal(pairs, pairs[:, :, :1, :1].expand_as(pairs))
            assert kind in ("rel-bias-2d", "relative-2d-kv") or not (bias[:, :, :4].any() or bias[:, :, :, :4].any())


@pytest.mark.parametrize("kind", REGISTRY)
def test_a_site_that_a_kind_does_not_have_is_refused(kind):
    for site in set(SITES) - set(REGISTRY[kind].sites):
        with pytest.raises(ValidationError, match=f"pos_site: '{site}' is not a site of '{kind}'"):
            config(kind, pos_site=site, depth=3)


MODULE_BY_LAYER = {
    "stem": {0: 0},
    "every-layer": {0: 0, 1: 1, 2: 2},
    "every-layer-shared": {0: 0, 1: 0, 2: 0},
    "after-first-layer": {1: 1},  # as in CPVT
}


@pytest.mark.parametrize("kind", [kind for kind, entry in REGISTRY.items() if issubclass(entry.cls, Additive)])
def test_each_site_adds_before_its_layers_only(kind):
    """Against an explicit loop over the blocks."""
    images = torch.randn(2, 1, 12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for site in set(REGISTRY[kind].sites) - {"every-layer-normed"}:
        modules = MODULE_BY_LAYER[site]
        torch.manual_seed(0)
        model = ViT(config(kind, pos_site=site, depth=3, init="torch")).double().eval()
        with torch.no_grad():
            for p in model.pos.parameters():
                p.normal_()
            x = model.embed(images)
            for layer, block in enumerate(model.blocks):
                if layer in modules:
                    x = model.pos[modules[layer]].add(x)
                x = block(x, PosEmbed(model.cfg))  # an additive kind does nothing inside a block
            torch.testing.assert_close(model.encode(images), model.norm(x))


@pytest.mark.parametrize("kind", [kind for kind, entry in REGISTRY.items() if "every-layer-normed" in entry.sites])
def test_a_normed_table_enters_the_input_of_each_attention_after_a_layer_norm_of_the_layer(kind):
    """LaPE: x + attention(LayerNorm(x) + LayerNorm'(table)), written out; the residual has no position."""
    torch.manual_seed(0)
    model = ViT(config(kind, pos_site="every-layer-normed", depth=3, init="torch")).double().eval()
    with torch.no_grad():
        for p in model.pos.parameters():
            p.normal_()
        images = torch.randn(2, 1, 12, 12, dtype=torch.float64)
        x = expected = model.embed(images)
        (pos,) = model.pos
        table = pos.table.add(torch.zeros_like(x[:1]))
        for block, norm in zip(model.blocks, pos.norms, strict=True):
            standard = (table - table.mean(-1, keepdim=True)) / (
                table.var(-1, keepdim=True, correction=0) + 1e-6
            ).sqrt()
            joined = block.norm1(expected) + standard * norm.weight + norm.bias
            expected = expected + block.attn(joined, PosEmbed(model.cfg))
            expected = expected + block.mlp(block.norm2(expected))
        torch.testing.assert_close(model.encode(images), model.norm(expected))
    learned = sum(p.numel() for p in ViT(config(kind, depth=3)).pos.parameters())
    assert sum(p.numel() for p in pos.parameters()) == learned + 3 * 2 * x.shape[-1]


@pytest.mark.parametrize(
    ("kind", "changes", "line"),
    [
        ("learned-1d", {"pos_site": "every-layer-normed", "norm": "post"}, "needs norm 'pre', got 'post'"),
        ("rope-2d", {"embed_dim": 12}, "embed_dim: 12 gives head_dim 6; rope-2d needs a multiple of 4"),
        ("rope-spherical", {"num_heads": 8}, "embed_dim: 16 gives head_dim 2; rope-spherical needs at least 3"),
        (
            "cpe",
            {"pos_site": "after-first-layer", "depth": 1},
            "pos_site: 'after-first-layer' needs a depth of at least 2",
        ),
    ],
)
def test_shapes_that_do_not_fit_raise(kind, changes, line):
    with pytest.raises(ValidationError, match=line):
        config(kind, **changes)
