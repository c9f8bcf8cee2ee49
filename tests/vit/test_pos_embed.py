"""Every registered positional embedding against an independent oracle, and the symmetry that it must break."""

import math
from collections.abc import Callable

import pytest
import torch
from pydantic import ValidationError
from timm.layers import RelPosBias, build_sincos2d_pos_embed
from torch import Tensor

from vit import ViT, ViTConfig
from vit.pos_embed import REGISTRY, Additive, PosEmbed

SMALL = {"img_size": 12, "patch_size": 3, "in_chans": 1, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 5}
G, N, D, H, DH = 4, 16, 16, 2, 8


def config(kind: str, **changes: object) -> ViTConfig:
    return ViTConfig(**{**SMALL, "pos_embed": kind, **changes})


def module(kind: str, **changes: object) -> PosEmbed:
    torch.manual_seed(0)
    return REGISTRY[kind](config(kind, **changes)).double()


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
    for i in range(1 + N):
        for j in range(D):
            expected = math.sin(i / 10000 ** (j / D)) if j % 2 == 0 else math.cos(i / 10000 ** ((j - 1) / D))
            assert table[i, j] == pytest.approx(expected, abs=1e-6)


def is_learned_1d() -> None:
    assert torch.equal(added("learned-1d"), module("learned-1d").table)
    assert module("learned-1d").table.shape == (1 + N, D)


def is_learned_2d() -> None:
    pos, table = module("learned-2d"), added("learned-2d")
    assert not table[0].any()  # the class token has no position
    for row in range(G):
        for column in range(G):
            expected = torch.cat([pos.x_table[column], pos.y_table[row]])
            assert torch.equal(table[1 + row * G + column], expected)


def is_relative() -> None:
    q, k = queries_and_keys()
    table, content = module("relative").table, q @ k.transpose(-2, -1) / math.sqrt(DH)
    expected = content.clone()
    for i in range(N):
        for j in range(N):
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
    (registers,), prefix = module("rel-bias-2d", reg_tokens=3).bias(queries_and_keys(4 + N)[0]), [0, 0, 0, 0]
    shared = [*prefix, *range(1, 1 + N)]  # registers share the three logits of the class token
    assert torch.equal(registers, ours.bias(q)[0][:, shared][:, :, shared])
    for row in range(G):  # equal offsets have equal logits
        for column in range(G - 1):
            (bias,) = ours.bias(q)
            assert torch.equal(bias[:, 1 + row * G + column, 2 + row * G + column], bias[:, 1, 2])


def is_rope_2d() -> None:
    q, k = queries_and_keys()
    logits = logits_of("rope-2d", q, k)
    content = q @ k.transpose(-2, -1) / math.sqrt(DH)
    assert torch.allclose(logits[:, :, 0, 0], content[:, :, 0, 0])  # the class token is not rotated
    frequency = 100.0 ** -(torch.arange(DH // 4, dtype=torch.float64) / (DH // 4))
    for i, j in [(0, 5), (3, 12), (15, 2)]:
        dy, dx = i // G - j // G, i % G - j % G
        angle = torch.cat([dy * frequency, dx * frequency])
        qc, kc = torch.view_as_complex(q.unflatten(-1, (-1, 2))), torch.view_as_complex(k.unflatten(-1, (-1, 2)))
        turned = (qc[:, :, 1 + i] * kc[:, :, 1 + j].conj() * torch.polar(torch.ones_like(angle), angle)).sum(-1).real
        assert torch.allclose(logits[:, :, 1 + i, 1 + j], turned / math.sqrt(DH))


def is_alibi_2d() -> None:
    (bias,) = module("alibi-2d").bias(queries_and_keys()[0])
    assert not bias[:, 0].any() and not bias[:, :, 0].any()
    for h in range(H):
        for i in range(N):
            for j in range(N):
                distance = math.dist((i // G, i % G), (j // G, j % G))
                assert bias[h, 1 + i, 1 + j].item() == pytest.approx(-(2 ** (-8 * (h + 1) / H)) * distance, abs=1e-5)


def is_cpe() -> None:
    pos = module("cpe")
    x = torch.randn(2, 1 + N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    out, kernel = pos.add(x), pos.conv.weight[:, 0]  # [D, 3, 3]
    assert torch.equal(out[:, 0], x[:, 0])
    for row in range(G):
        for column in range(G):
            total = x[:, 1 + row * G + column] + pos.conv.bias
            for dy in (-1, 0, 1):
                for dx in (-1, 0, 1):
                    if 0 <= row + dy < G and 0 <= column + dx < G:
                        total = total + x[:, 1 + (row + dy) * G + column + dx] * kernel[:, dy + 1, dx + 1]
            assert torch.allclose(out[:, 1 + row * G + column], total)


def is_frozen_random() -> None:
    assert not list(module("frozen-random").parameters())
    assert torch.equal(added("frozen-random"), added("learned-1d"))  # the same seed gives the same table, untrained


ORACLES: dict[str, Callable[[], None]] = {
    name.removeprefix("is_").replace("_", "-"): check
    for name, check in list(globals().items())
    if name.startswith("is_")
}


@pytest.mark.parametrize("kind", REGISTRY)
def test_agrees_with_its_oracle(kind: str) -> None:
    assert kind in ORACLES, f"{kind} has no oracle: write is_{kind.replace('-', '_')} above"
    ORACLES[kind]()


@pytest.mark.parametrize("changes", [{}, {"reg_tokens": 3}, {"class_token": False, "pool": "gap"}, {"img_size": 3}])
def test_the_bias_without_indexing_has_the_values_and_the_gradient_of_the_indexed_bias(changes: dict) -> None:
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
def test_only_no_position_ignores_the_order_of_patches(kind: str, pool: str) -> None:
    torch.manual_seed(3)
    model = ViT(config(kind, pool=pool, init="torch")).double().eval()
    images = torch.randn(4, 1, 12, 12, dtype=torch.float64)
    shuffled = permuted(images, 3, torch.randperm(N))
    with torch.no_grad():
        change = (model(images) - model(shuffled)).abs().max().item()
    assert change < 1e-10 if kind == "none" else change > 1e-7


@pytest.mark.parametrize("kind", REGISTRY)
@pytest.mark.parametrize("prefix", [{"class_token": False, "pool": "gap"}, {"reg_tokens": 3}])
def test_registers_get_no_position_and_the_class_token_is_optional(kind: str, prefix: dict) -> None:
    cfg = config(kind, **prefix)
    model = ViT(cfg).double().eval()
    assert model(torch.randn(2, 1, 12, 12, dtype=torch.float64)).shape == (2, 5)
    if "reg_tokens" in prefix:
        x = torch.zeros(1, cfg.num_tokens, D, dtype=torch.float64)
        assert not module(kind, **prefix).add(x)[0, 1:4].any()
        q, k = queries_and_keys(cfg.num_tokens)
        among = (
            logits_of(kind, q, k, **prefix)[:, :, 1:4, 1:4] - (q @ k.transpose(-2, -1) / math.sqrt(DH))[:, :, 1:4, 1:4]
        )
        assert torch.allclose(among, among[:1, :, :1, :1].expand_as(among))  # the same for every register
        bias = module(kind, **prefix).bias(q)
        if bias is not None:  # pairs with a register do not depend on the position of patch or register
            for pairs in (bias[:, :, 1:4, 4:], bias[:, :, 4:, 1:4]):
                assert torch.equal(pairs, pairs[:, :, :1, :1].expand_as(pairs))
            assert kind == "rel-bias-2d" or not (bias[:, :, :4].any() or bias[:, :, :, :4].any())


@pytest.mark.parametrize("offset", [(1, 0), (0, 2), (2, -1)])
def test_rotary_attention_depends_on_offsets_only(offset: tuple[int, int]) -> None:
    q, k = (x[:, :, 1:2].expand(-1, -1, 1 + N, -1) for x in queries_and_keys())  # the same content everywhere
    logits, dy, dx = logits_of("rope-2d", q, k), *offset
    pairs = [
        (1 + y * G + x, 1 + (y + dy) * G + x + dx)
        for y in range(G)
        for x in range(G)
        if 0 <= y + dy < G and 0 <= x + dx < G
    ]
    values = torch.stack([logits[:, :, i, j] for i, j in pairs])
    assert torch.allclose(values, values[:1].expand_as(values))


@pytest.mark.parametrize("kind", REGISTRY)
def test_sites(kind: str) -> None:
    images = torch.randn(2, 1, 12, 12)
    for site in ("stem", "every-layer", "every-layer-shared"):
        if site in REGISTRY[kind].sites:
            model = ViT(config(kind, pos_site=site, depth=3)).eval()
            assert model(images).isfinite().all()
        else:
            with pytest.raises(ValidationError, match=f"pos_site: '{site}' is not a site of '{kind}'"):
                config(kind, pos_site=site)


def test_number_of_learned_tables_per_site() -> None:
    def tables_of(site: str) -> tuple[int, int]:
        model = ViT(config("learned-1d", pos_site=site, depth=3))
        tables = [p for name, p in model.named_parameters() if name.startswith("pos.")]
        return len(tables), sum(p.numel() for p in tables)

    size = (1 + N) * D
    assert tables_of("stem") == (1, size)
    assert tables_of("every-layer") == (3, 3 * size)
    assert tables_of("every-layer-shared") == (1, size)


@pytest.mark.parametrize("kind", [kind for kind, entry in REGISTRY.items() if issubclass(entry.cls, Additive)])
def test_every_layer_adds_before_each_layer_and_stem_before_the_first(kind: str) -> None:
    """Against an explicit loop over the blocks."""
    images = torch.randn(2, 1, 12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for site, modules in (("stem", (0,)), ("every-layer", (0, 1, 2)), ("every-layer-shared", (0, 0, 0))):
        if site not in REGISTRY[kind].sites:
            continue
        torch.manual_seed(0)
        model = ViT(config(kind, pos_site=site, depth=3, init="torch")).double().eval()
        with torch.no_grad():
            for p in model.pos.parameters():
                p.normal_()
            x = model.embed(images)
            for layer, block in enumerate(model.blocks):
                if layer < len(modules):
                    x = model.pos[modules[layer]].add(x)
                x = block(x, PosEmbed(model.cfg))  # an additive kind does nothing inside a block
            torch.testing.assert_close(model.encode(images), model.norm(x))


def test_a_shared_table_is_added_at_each_layer() -> None:
    """`every-layer-shared` equals `every-layer` with equal tables."""
    shared, each = (ViT(config("learned-1d", pos_site=s)).eval() for s in ("every-layer-shared", "every-layer"))
    weights = dict(shared.named_parameters())
    with torch.no_grad():
        for name, p in each.named_parameters():
            p.copy_(weights["pos.0.table"] if name.startswith("pos.") else weights[name])
        images = torch.randn(2, 1, 12, 12)
        assert torch.allclose(each(images), shared(images), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "changes", "line"),
    [
        ("learned-2d", {"embed_dim": 15, "num_heads": 3}, "embed_dim: 15; learned-2d needs a multiple of 2"),
        ("sincos-2d", {"embed_dim": 14}, "embed_dim: 14; sincos-2d needs a multiple of 4"),
        ("rope-2d", {"embed_dim": 12}, "embed_dim: 12 gives head_dim 6; rope-2d needs a multiple of 4"),
        ("learned-1D", {}, "did you mean 'learned-1d'"),
    ],
)
def test_shapes_that_do_not_fit_raise(kind: str, changes: dict, line: str) -> None:
    with pytest.raises(ValidationError, match=line):
        config(kind, **changes)
