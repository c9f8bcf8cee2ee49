"""Attention and linear layers, each in the form that is fastest on the device at hand.

Each computes what PyTorch's own function computes, within rounding, alone and under `vmap`. The model can be read
without them: `attend` is `F.scaled_dot_product_attention`, `Linear` is `nn.Linear`.
"""

from vit.kernels.attention import attend
from vit.kernels.linear import Linear

__all__ = ["Linear", "attend"]
