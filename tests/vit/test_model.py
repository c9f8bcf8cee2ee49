"""The model against independent implementations with the same weights; parameter counts; dropout; initialisation."""

import math
from functools import partial

import pytest
import timm.layers
import torch
from pydantic import ValidationError
from timm.models.vision_transformer import VisionTransformer
from timm_weights import randomised, to_timm
from torch import Tensor, nn

from experiments.presets import preset
from vit import ViT, ViTConfig
from vit.dropout import Dropout, keep_mask, uniform
from vit.model import ACTIVATIONS

SIZES = [
    {"img_size": 32, "patch_size": 4, "in_chans": 3, "embed_dim": 48, "depth": 4, "num_heads": 4},
    {"img_size": 8, "patch_size": 2, "in_chans": 1, "embed_dim": 24, "depth": 2, "num_heads": 3},
    {"img_size": 20, "patch_size": 5, "in_chans": 2, "embed_dim": 32, "depth": 3, "num_heads": 8, "mlp_ratio": 2.0},
]


def images_for(cfg: ViTConfig) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(3, cfg.in_chans, cfg.img_size, cfg.img_size, generator=generator, dtype=torch.float64)


def timm_swiglu(in_features: int, hidden_features: int, bias: bool, **others: object) -> nn.Module:
    """timm's SwiGLU, with 2/3 of the hidden width that the model asks for."""
    return timm.layers.SwiGLU(in_features, round(hidden_features * 2 / 3), bias=bias)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"pool": "gap"}, {"global_pool": "avg", "fc_norm": False}),
        ({"pool": "gap", "class_token": False}, {"global_pool": "avg", "fc_norm": False, "class_token": False}),
        ({"reg_tokens": 4}, {"reg_tokens": 4}),
        ({"pool": "map", "class_token": False}, {"global_pool": "map", "class_token": False}),
        ({"final_norm": False, "qkv_bias": False}, {"final_norm": False, "qkv_bias": False}),
        ({"act": "gelu-tanh"}, {"act_layer": lambda: nn.GELU(approximate="tanh")}),
        (
            {"norm_layer": "rmsnorm", "pool": "map", "class_token": False},
            {"norm_layer": timm.layers.RmsNorm, "global_pool": "map", "class_token": False},
        ),
        ({"qk_norm": True}, {"qk_norm": True}),
        ({"qk_norm": True, "norm_layer": "rmsnorm"}, {"qk_norm": True, "norm_layer": timm.layers.RmsNorm}),
        ({"layer_scale": 0.1}, {"init_values": 0.1}),
        (
            {"mlp": "swiglu", "pool": "map", "class_token": False},
            {"mlp_layer": timm_swiglu, "global_pool": "map", "class_token": False},
        ),
    ],
    ids=lambda settings: ",".join(f"{k}={getattr(v, '__name__', v)}" for k, v in settings.items()) or "cls",
)
def test_equals_timm(size, ours, theirs):
    cfg = ViTConfig(**size, **ours, num_classes=7)
    model = randomised(ViT(cfg))
    other = to_timm(model, VisionTransformer(**{**size, "norm_layer": timm.layers.LayerNorm, **theirs}, num_classes=7))
    images = images_for(cfg)
    with torch.no_grad():
        assert torch.allclose(model(images), other(images), atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("act", ["gelu", "gelu-tanh"])
def test_encoder_equals_torch(size, norm, act):
    cfg = ViTConfig(**size, norm=norm, act=act, final_norm=True, num_classes=7)
    model = randomised(ViT(cfg))
    activation = partial(nn.functional.gelu, approximate=ACTIVATIONS[act])
    sizes = cfg.embed_dim, cfg.num_heads, int(cfg.embed_dim * cfg.mlp_ratio)
    options = {"dropout": 0.0, "norm_first": norm == "pre", "layer_norm_eps": 1e-6, "batch_first": True}
    layer = nn.TransformerEncoderLayer(*sizes, activation=activation, **options)
    encoder = nn.TransformerEncoder(layer, cfg.depth, nn.LayerNorm(cfg.embed_dim, eps=1e-6), enable_nested_tensor=False)
    names = {
        "layers": "blocks",
        "self_attn.in_proj_": "attn.qkv.",
        "self_attn.out_proj": "attn.proj",
        "linear": "mlp.fc",
    }
    weights = dict(model.named_parameters())

    def ours(name: str) -> str:
        for theirs, own in names.items():
            name = name.replace(theirs, own)
        return name

    encoder.load_state_dict({name: weights[ours(name)].detach() for name in encoder.state_dict()})
    images = images_for(cfg)
    with torch.no_grad():
        expected = encoder.double().eval()(model.pos[0].add(model.embed(images)))
        assert torch.allclose(model.encode(images), expected, atol=1e-5, rtol=0)


def test_sliced_heads_equal_a_loop_over_samples_and_heads():
    """Pulfer's attention as published: for each sequence and each head, its own slice and its own three projections."""
    cfg = ViTConfig(
        img_size=8, patch_size=2, in_chans=1, embed_dim=8, depth=1, num_heads=2, num_classes=3, attn="sliced"
    )
    model = randomised(ViT(cfg))
    attention, x = model.blocks[0].attn, torch.randn(3, cfg.num_tokens, 8, dtype=torch.float64)
    expected = []
    for sequence in x:
        heads = []
        for h in range(2):
            part = sequence[:, h * 4 : (h + 1) * 4]
            q, k, v = attention.qkv[h](part).split(4, dim=-1)
            heads.append((q @ k.T / 4**0.5).softmax(-1) @ v)
        expected.append(torch.hstack(heads))
    assert torch.allclose(attention(x, model.pos[-1]), torch.stack(expected), atol=1e-10)


@pytest.mark.parametrize("head", ["logits", "softmax", "mlp"])
def test_heads(head):
    cfg = ViTConfig(**SIZES[1], num_classes=7, head=head)
    model = randomised(ViT(cfg))
    images, linear = images_for(cfg), [m for m in model.head if isinstance(m, nn.Linear)]
    with torch.no_grad():
        feature = model.encode(images)[:, 0]
        if head == "mlp":
            feature = torch.tanh(linear[0](feature))
        logits = feature @ linear[-1].weight.T + linear[-1].bias
        expected = logits.softmax(-1) if head == "softmax" else logits
        assert torch.allclose(model(images), expected)


@pytest.mark.parametrize(
    ("name", "trainable", "fixed"),
    [
        ("tintn-cifar10", 119_098, 0),  # printed by Lodha's notebook for the same model
        ("pulfer-mnist", 1_642, 400),  # 50 x 8 fixed sinusoids
        ("vit-lite-6-4", 3_190_538, 0),  # those of vit_6_4_32 and vit_7_4_32 in SHI-Labs/Compact-Transformers
        ("vit-lite-7-4", 3_716_874, 0),
        ("vit-b16", 86_567_656, 0),  # timm's vit_base_patch16_224
        ("vit-s16", 22_050_664, 0),
        ("vit-ti16", 5_717_416, 0),
    ],
)
def test_parameter_counts(name, trainable, fixed):
    config = preset(name)
    with torch.device("meta"):
        model = ViT(config.vit_config(config.data.num_classes))
    assert sum(p.numel() for p in model.parameters()) == trainable
    assert sum(b.numel() for b in model.buffers()) == fixed


@pytest.mark.parametrize("stem", ["patchify", "conv"])
@pytest.mark.parametrize(
    "shape", [(2, 3, 16, 64), (2, 3, 40, 40), (3, 32, 32), (2, 32, 32, 3), (2, 1, 32, 32), (1, 2, 3, 32, 32)]
)
def test_images_of_another_shape_are_refused(shape, stem):
    """As many pixels as the model takes, or as many as the stem takes, are not enough."""
    model = ViT(ViTConfig(**{**SIZES[0], "stem": stem}, num_classes=7, pos_embed="none"))
    for use in (model, model.attention_maps, model.pooling_weights):
        with pytest.raises(ValueError) as error:
            use(torch.zeros(shape))
        assert f"shape is {list(shape)}; expected [B, 3, 32, 32]" in str(error.value)
        assert "vit.resize.resized(model, S)" in str(error.value)


@pytest.mark.parametrize(("patch_size", "widths"), [(2, [24]), (4, [12, 24]), (8, [6, 12, 24])])
def test_convolutional_stem_is_that_of_its_source(patch_size, widths):
    """Widths double, as in Table 2 of Xiao et al. (2021)."""
    cfg = ViTConfig(**{**SIZES[1], "img_size": 16, "patch_size": patch_size}, stem="conv", num_classes=7)
    assert cfg.stem_widths == widths
    model, x = randomised(ViT(cfg)), images_for(cfg)
    for conv, norm, _ in model.patch_embed.convs:
        out = nn.functional.conv2d(x, conv.weight, stride=2, padding=1)
        x = nn.functional.group_norm(out, 1, norm.weight, norm.bias).clamp(min=0)
    assert x.shape[-1] == 16 // patch_size
    expected = x.flatten(2).transpose(1, 2) @ model.patch_embed.proj.weight.T + model.patch_embed.proj.bias
    assert torch.allclose(model.embed(images_for(cfg))[:, 1:], expected)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"stem": "conv", "patch_size": 1}, "patch_size: 1 is not allowed with stem conv; allowed: 2, 4, 8, 16, ..."),
        (
            {"stem": "conv", "patch_size": 16, "embed_dim": 36},
            "embed_dim: 36 with stem conv and patch_size 16; .* of 8",
        ),
        ({"embed_dim": 50}, "embed_dim: 50 is not divisible by num_heads, 4"),
        ({"pool": "cls", "class_token": False}, "pool: 'cls' needs class_token"),
        ({"mlp_ratio": 0.02}, "mlp_ratio: 0.02 with embed_dim 48 gives an MLP without hidden units"),
    ],
)
def test_invalid_combinations_raise(changes, line):
    with pytest.raises(ValidationError, match=line):
        ViTConfig(**{**SIZES[0], "num_classes": 7, **changes})


RATE_FIELDS = [name for name in ViTConfig.model_fields if name.endswith("drop_rate") or name == "drop_path_rate"]


@pytest.mark.parametrize("field", RATE_FIELDS)
def test_every_dropout_is_active_in_training_only_and_determined_by_the_key(field):
    cfg = ViTConfig(**SIZES[0], num_classes=7, **{field: 0.5})
    model, images = randomised(ViT(cfg)), images_for(cfg)
    plain = randomised(ViT(ViTConfig(**SIZES[0], num_classes=7)))
    one, two = torch.tensor(1, dtype=torch.int32), torch.tensor(2, dtype=torch.int32)
    with torch.no_grad():
        assert torch.equal(model(images), plain(images))
        model.train()
        assert torch.equal(model(images, one), model(images, one))
        assert not torch.equal(model(images, one), model(images, two))
        assert not torch.equal(model(images, one), plain(images))


def test_uniform_numbers_are_uniform():
    n = 200_000
    for key, stream in ((0, -1), (7, -1), (7, 3)):
        numbers = uniform(torch.tensor(key, dtype=torch.int32), stream, (n // 4, 4)).double()
        assert numbers.shape == (n // 4, 4)
        flat = numbers.flatten()
        assert flat.min() >= 0
        assert flat.max() < 1
        share = torch.histc(flat, 20, 0, 1) / n
        assert (share - 0.05).abs().max() < 5 * math.sqrt(0.05 * 0.95 / n)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_has_the_right_rate_and_scale_and_independent_elements(rate):
    n = 400_000
    masks = [
        keep_mask(torch.tensor(key, dtype=torch.int32), stream, (n,), rate).double()
        for key in (0, 1, 2**31 - 1)
        for stream in (0, 1, 7)
    ]
    sd = math.sqrt(rate * (1 - rate))
    for mask in masks:
        assert abs(mask.mean().item() - (1 - rate)) < 5 * sd / math.sqrt(n)
        for lag in (1, 2, 64, 65):  # neighbours in a row and in a column are independent
            pairs = (mask[lag:] - (1 - rate)) * (mask[:-lag] - (1 - rate))
            assert abs(pairs.mean().item()) < 5 * sd**2 / math.sqrt(n)
    for i, a in enumerate(masks):
        for b in masks[:i]:
            assert abs(((a - 1 + rate) * (b - 1 + rate)).mean().item()) < 5 * sd**2 / math.sqrt(n)
    layer = Dropout(rate, 3).train()
    out = layer(torch.ones(n), torch.tensor(4, dtype=torch.int32))
    assert out.unique().tolist() == pytest.approx([0.0, 1 / (1 - rate)])


def test_stochastic_depth_drops_whole_samples():
    out = Dropout(0.5, 0, per_sample=True).train()(torch.ones(200, 3, 4), torch.tensor(9, dtype=torch.int32))
    assert {tuple(sample.unique().tolist()) for sample in out} == {(0.0,), (2.0,)}


@pytest.mark.parametrize("scheme", ["timm", "bert-0.02", "torch"])
def test_each_part_is_initialised_by_its_scheme(scheme):
    """PyTorch's default for a layer is uniform within 1 / sqrt(fan-in); timm has it for convolutions."""
    torch.manual_seed(0)
    shape = {"img_size": 32, "patch_size": 4, "embed_dim": 192, "num_heads": 4, "num_classes": 1000, "init": scheme}
    model, conv, pooled = (
        ViT(ViTConfig(**shape, **changes))
        for changes in ({"depth": 2, "reg_tokens": 8}, {"depth": 1, "stem": "conv"}, {"depth": 1, "pool": "map"})
    )
    layers = [  # layer, fan-in, whether it is a convolution in timm
        (model.blocks[0].mlp.fc1, 192, False),
        (model.head[0], 192, False),
        (model.patch_embed.proj, 48, True),
        (conv.patch_embed.convs[1][0], 9 * 96, True),
        (conv.patch_embed.proj, 192, True),
    ]
    for layer, inputs, is_convolution in layers:
        by_torch = scheme == "torch" or (scheme == "timm" and is_convolution)
        assert layer.weight.std().item() == pytest.approx(1 / math.sqrt(3 * inputs) if by_torch else 0.02, rel=0.03)
        assert layer.bias is None or layer.bias.any().item() == by_torch
    tokens = {"timm": 1e-6, "bert-0.02": 0.02, "torch": 12**-0.5}[scheme]
    assert model.cls_token.std().item() == pytest.approx(tokens, rel=0.2)
    assert model.reg_token.std().item() == pytest.approx(tokens, rel=0.1)
    assert model.cls_token.min().item() >= 0 or scheme != "torch"
    gated = ViT(ViTConfig(**shape, depth=1, mlp="swiglu", layer_scale=0.25))
    gate = gated.blocks[0].mlp.fc1_g
    open_gate = (1e-6, 1.0)  # timm's SwiGLU.init_weights
    stated = {"timm": open_gate, "bert-0.02": (0.02, 0.0), "torch": (1 / math.sqrt(3 * 192), gate.bias.mean().item())}
    assert (gate.weight.std().item(), gate.bias.mean().item()) == pytest.approx(stated[scheme], rel=0.03)
    assert gated.blocks[0].ls1.gamma.unique().tolist() == [0.25]
    assert {"blocks.0.ls1.gamma", "blocks.0.ls2.gamma"} <= gated.no_weight_decay()
    probe = 192**-0.5 if scheme == "timm" else tokens  # timm's AttentionPoolLatent: D^-.5
    assert pooled.pooling.probe.std().item() == pytest.approx(probe, rel=0.2)
    assert model.pos[0].table.std().item() == pytest.approx(0.02, rel=0.05)
    assert not {name for name in conv.no_weight_decay() if "convs" in name and name.endswith("0.weight")}


def test_xavier_is_that_of_big_vision():
    """Glorot & Bengio: uniform with variance 2 / (inputs + outputs); queries, keys and values are a kernel each."""
    torch.manual_seed(0)
    shape = {"img_size": 32, "patch_size": 4, "embed_dim": 192, "num_heads": 4, "num_classes": 1000, "depth": 1}
    model, pooled = (
        ViT(ViTConfig(**shape, init="xavier", **changes)) for changes in ({"reg_tokens": 8}, {"pool": "map"})
    )
    block = model.blocks[0]
    kernels = [(part, 192 + 192) for part in block.attn.qkv.weight.chunk(3)]
    kernels += [(part, 192 + 192) for part in pooled.pooling.kv.weight.chunk(2)]
    kernels += [
        (block.attn.proj.weight, 192 + 192),
        (block.mlp.fc1.weight, 192 + 768),
        (block.mlp.fc2.weight, 192 + 768),
    ]
    kernels += [(model.patch_embed.proj.weight, 48 + 192), (model.head[0].weight, 192 + 1000)]
    for kernel, ends in kernels:
        assert kernel.std().item() == pytest.approx(math.sqrt(2 / ends), rel=0.03)
        assert kernel.abs().max().item() <= math.sqrt(6 / ends)
    assert block.mlp.fc1.bias.std().item() == pytest.approx(1e-6, rel=0.2)
    assert not any(layer.bias.any() for layer in (block.attn.qkv, block.attn.proj, model.head[0]))
    assert model.pos[0].table.std().item() == pytest.approx(192**-0.5, rel=0.05)
    assert pooled.pooling.probe.std().item() == pytest.approx(math.sqrt(2 / 193), rel=0.2)
    assert 0 < model.reg_token.std().item() < 2e-6


def test_variants_with_the_same_seed_have_the_same_initial_backbone():
    from vit.registry import REGISTRY

    def backbone(kind):
        torch.manual_seed(11)
        model = ViT(ViTConfig(**SIZES[0], num_classes=7, pos_embed=kind))
        return {name: p for name, p in model.named_parameters() if not name.startswith("pos.")}

    first = backbone("none")
    for kind in REGISTRY:
        other = backbone(kind)
        assert first.keys() == other.keys() and all(torch.equal(first[name], other[name]) for name in first)
