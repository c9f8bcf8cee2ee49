"""The closed form of the FLOPs against torch's `FlopCounterMode`, which counts fused attention in newer versions
only.
"""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from experiments.runs.provenance import forward_flops
from vit import ViT, ViTConfig
from vit.registry import REGISTRY

SHAPE = {"img_size": 16, "patch_size": 4, "in_chans": 3, "embed_dim": 24, "depth": 3, "num_heads": 3, "num_classes": 7}
MODELS = [{"pos_embed": kind, "pos_site": site} for kind in REGISTRY for site in REGISTRY[kind].sites] + [
    {"stem": "conv"},
    {"attn": "sliced"},
    {"attn": "sliced", "pool": "gap", "class_token": False, "mlp_ratio": 1.5},
    {"pool": "map", "reg_tokens": 2},
    {"mlp": "swiglu", "pool": "map"},
    {"norm_layer": "rmsnorm", "qk_norm": True, "layer_scale": 0.1},
    {"head": "mlp"},
    {"head": "softmax"},
]


@pytest.mark.parametrize("changes", MODELS, ids=lambda changes: "-".join(map(str, changes.values())))
def test_equals_torchs_counter(changes):
    model = ViT(ViTConfig(**(SHAPE | changes))).eval()
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 3, 16, 16))
    assert forward_flops(model) == counter.get_total_flops() > 0
