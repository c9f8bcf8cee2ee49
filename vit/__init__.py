"""The Vision Transformer of all variants. It uses torch only: no files, no tracking, no command line."""

from typing import Any

from vit.config import Architecture, ViTConfig

__all__ = ["Architecture", "ViT", "ViTConfig"]


def __getattr__(name: str) -> Any:
    if name == "ViT":  # importing torch takes seconds, and a configuration does not need it
        from vit.model import ViT

        return ViT
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
