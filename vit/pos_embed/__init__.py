"""Positional embeddings: one class per kind, one module per family. `vit.registry` lists them.

A user's own kind is a class with the decorator `register` in a file or module named in VIT_PLUGINS:

    @register("my-kind")
    class MyKind(Additive):
        def __init__(self, cfg): ...
        def add(self, x): ...                 # [B, T, D] -> [B, T, D]

`Rotary` is the base class of kinds that rotate queries and keys.
"""

from vit.pos_embed.base import Additive, PosEmbed, build, grid
from vit.pos_embed.rotary import Rotary
from vit.registry import REGISTRY, register

__all__ = ["REGISTRY", "Additive", "PosEmbed", "Rotary", "build", "grid", "register"]
