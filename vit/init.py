"""Weight initialisation: one function per scheme.

Position tables are initialised in their classes (`vit.pos_embed.base.new_table`).
"""

import math
from collections.abc import Callable

import torch
from torch import nn

STD = 0.02
TOKENS = ("cls_token", "reg_token", "pooling.probe")  # names of the parameters that are tokens


def timm(model: nn.Module) -> None:
    """timm's scheme: linear weights truncated normal (std 0.02), biases 0, class token and registers normal (std 1e-6).

    The patch projection and a convolutional stem keep PyTorch's default. The gate of SwiGLU starts open: weights normal
    (std 1e-6), biases 1. The probe of attention pooling is truncated normal (std D^-0.5), as in timm's
    `AttentionPoolLatent`.
    """
    patch_projection = model.get_submodule("patch_embed.proj")
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not patch_projection:
            nn.init.trunc_normal_(module.weight, std=STD)
            _zero(module.bias)
    for name, module in model.named_modules():
        if name.endswith(".fc1_g") and isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=1e-6)
            nn.init.ones_(module.bias)
    for token in _tokens(model):
        nn.init.normal_(token, std=1e-6)
    if isinstance(probe := getattr(model.pooling, "probe", None), nn.Parameter):
        nn.init.trunc_normal_(probe, std=1 / math.sqrt(probe.shape[-1]))


def bert(model: nn.Module) -> None:
    """BERT's scheme, as in tintn (2023): weights of linear layers and convolutions normal (std 0.02), biases 0, tokens
    truncated normal (std 0.02).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.normal_(module.weight, std=STD)
            _zero(module.bias)
    for token in _tokens(model):
        nn.init.trunc_normal_(token, std=STD)


def torch_default(model: nn.Module) -> None:
    """PyTorch's defaults, as in Pulfer (2022); tokens are uniform on [0, 1)."""
    for token in _tokens(model):
        nn.init.uniform_(token)


def xavier(model: nn.Module) -> None:
    """Kernels and biases as in big_vision's `models/vit.py`: kernels and the probe of attention pooling Xavier-uniform
    (Glorot & Bengio 2010), biases of an MLP normal (std 1e-6), other biases 0.

    Queries, keys and values count as one kernel each. big_vision starts the classifier at 0, and the patch projection
    with LeCun's scheme; here they are Xavier-uniform, too. Tokens are normal (std 1e-6): registers that start at 0
    would stay equal.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            parts = name.split(".")
            kernels = 3 if "qkv" in parts else 2 if "kv" in parts else 1
            for kernel in module.weight.detach().chunk(kernels):
                nn.init.xavier_uniform_(kernel)
            if module.bias is not None and "mlp" in parts:
                nn.init.normal_(module.bias, std=1e-6)
            else:
                _zero(module.bias)
    for token in _tokens(model):
        nn.init.normal_(token, std=1e-6)
    if isinstance(probe := getattr(model.pooling, "probe", None), nn.Parameter):
        nn.init.xavier_uniform_(probe.detach()[0])


def _zero(bias: torch.Tensor | None) -> None:
    if bias is not None:
        nn.init.zeros_(bias)


def _tokens(model: nn.Module) -> list[nn.Parameter]:
    return [p for name, p in model.named_parameters() if name in TOKENS]


SCHEMES: dict[str, Callable[[nn.Module], None]] = {
    "timm": timm,
    "bert-0.02": bert,
    "torch": torch_default,
    "xavier": xavier,
}
