"""The registry of positional embeddings: names, sites and what each kind encodes. It imports no torch.

Built-in kinds are the entries of `BUILTIN`; their classes are imported on first use. A user's kinds come from the modules
named in the environment variable VIT_PLUGINS, whose classes carry the decorator `register`.
"""

from __future__ import annotations

import difflib
import importlib
import os
import traceback
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from vit.config import ViTConfig
    from vit.pos_embed import PosEmbed

Encodes = Literal["none", "absolute", "relative-1d", "relative-2d", "distance", "local"]
"""What a layer learns about the positions of two tokens: nothing, both positions, their raster offset, their row and
column offset, their distance, or the offset of adjacent patches only."""

ADDITIVE = ("stem", "every-layer", "every-layer-shared")
FIXED = ("stem", "every-layer")  # without parameters, sharing them makes no difference
ATTENTION = ("every-layer", "every-layer-shared")


@dataclass(frozen=True)
class Kind:
    """A positional embedding, described without importing its class.

    `sites`: the allowed sites, the natural one first. `encodes`: what it encodes about two patches; `encodes_prefix`:
    about a patch and a prefix token (class or register token); None if a plug-in does not declare it. `multiples`: a field of
    `ViTConfig` and the number that must divide it.
    """

    source: str | type[PosEmbed]
    """`module:Class` of a built-in kind, or the class itself of a plug-in"""
    sites: tuple[str, ...]
    encodes: Encodes | None = "none"
    encodes_prefix: Encodes | None = "none"
    multiples: tuple[tuple[str, int], ...] = ()

    @property
    def cls(self) -> type[PosEmbed]:
        """The class. Importing a built-in one imports torch."""
        if not isinstance(self.source, str):
            return self.source
        module, _, name = self.source.partition(":")
        return getattr(importlib.import_module(module), name)

    def __call__(self, cfg: ViTConfig) -> PosEmbed:
        """One module of this kind, newly initialised."""
        return self.cls(cfg)

    def check(self, name: str, cfg: ViTConfig) -> None:
        """Raise `ValueError` if the model's shape does not fit the kind."""
        for field, divisor in self.multiples:
            if getattr(cfg, field) % divisor:
                own = f"embed_dim: {cfg.embed_dim} gives {field} {getattr(cfg, field)}"
                value = f"{field}: {getattr(cfg, field)}" if field == "embed_dim" else own
                raise ValueError(f"{value}; {name} needs a multiple of {divisor}")
        if not isinstance(self.source, str):
            self.source.check(cfg)


class PluginError(ImportError):
    """A module named in VIT_PLUGINS cannot be imported. The message is one line: module, reason, file and line."""


class Registry(UserDict[str, Kind]):
    """Name -> `Kind`. Plug-ins are imported when the registry is first read."""

    def __init__(self, kinds: dict[str, Kind]) -> None:
        super().__init__(kinds)
        self.plugins_imported = False

    def import_plugins(self) -> None:
        """Import the modules in VIT_PLUGINS, once. Raises `PluginError`."""
        if self.plugins_imported:
            return
        self.plugins_imported = True
        for name in plugins():
            before = len(self.data)
            _import_plugin(name)
            own = [kind for kind in self.data.values() if not isinstance(kind.source, str)]
            if len(self.data) == before and not any(kind.source.__module__ == name for kind in own):
                raise PluginError(f"VIT_PLUGINS: {name!r} registers no positional embedding")

    def __iter__(self) -> Iterator[str]:
        self.import_plugins()
        return super().__iter__()

    def __len__(self) -> int:
        self.import_plugins()
        return super().__len__()

    def __contains__(self, name: object) -> bool:
        self.import_plugins()
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Kind:
        self.import_plugins()
        return super().__getitem__(name)


def plugins() -> list[str]:
    """The modules named in VIT_PLUGINS, a comma-separated list. Worker processes inherit it."""
    return [name for name in os.environ.get("VIT_PLUGINS", "").split(",") if name]


def register(name: str) -> Callable[[type[PosEmbed]], type[PosEmbed]]:
    """Class decorator: add a kind to the registry, which configurations, commands, studies, tests and tables read.

    The class may have the attributes `sites`, `encodes` and `encodes_prefix`, as in `Kind`. Raises `ValueError` if the
    name is already registered.
    """

    def add(cls: type[PosEmbed]) -> type[PosEmbed]:
        if name in REGISTRY.data:
            raise ValueError(
                f"a positional embedding named {name!r} is already registered: {REGISTRY.data[name].source}"
            )
        own = vars(cls)
        REGISTRY[name] = Kind(cls, tuple(cls.sites), own.get("encodes"), own.get("encodes_prefix", "none"))
        return cls

    return add


def resolve(cfg: ViTConfig) -> tuple[Kind, str]:
    """The kind of `cfg.pos_embed` and its site. Raises `ValueError`, which names the field that does not fit."""
    if cfg.pos_embed not in REGISTRY:
        raise ValueError(f"pos_embed: {cfg.pos_embed!r} is not known; {nearest(cfg.pos_embed, REGISTRY)}")
    kind = REGISTRY[cfg.pos_embed]
    site = kind.sites[0] if cfg.pos_site == "natural" else cfg.pos_site
    if site not in kind.sites:
        raise ValueError(f"pos_site: {site!r} is not a site of {cfg.pos_embed!r}; allowed: {', '.join(kind.sites)}")
    kind.check(cfg.pos_embed, cfg)
    return kind, site


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error line: the closest known name, and all allowed names."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return (f"did you mean {close[0]!r}? " if close else "") + "allowed: " + ", ".join(known)


def _import_plugin(name: str) -> Any:
    if not all(part.isidentifier() for part in name.split(".")):
        raise PluginError(
            f"VIT_PLUGINS: {name!r} is not a module name; expected names such as my_embedding, with the module's folder "
            "in PYTHONPATH"
        )
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = (
            f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else f"{place.filename}:{place.lineno}"
        )
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PluginError(f"VIT_PLUGINS: {name!r} cannot be imported: {reason} ({where})") from error


BUILTIN: dict[str, Kind] = {
    "none": Kind("vit.pos_embed.base:NoPosition", ("stem",)),
    "sinusoidal": Kind("vit.pos_embed.additive:Sinusoidal", FIXED, "absolute", "absolute"),
    "learned-1d": Kind("vit.pos_embed.additive:Learned1d", ADDITIVE, "absolute", "absolute"),
    "learned-2d": Kind("vit.pos_embed.additive:Learned2d", ADDITIVE, "absolute", "absolute", (("embed_dim", 2),)),
    "relative": Kind("vit.pos_embed.attention_bias:Relative", ATTENTION, "relative-1d"),
    "sincos-2d": Kind("vit.pos_embed.additive:SinCos2d", FIXED, "absolute", "absolute", (("embed_dim", 4),)),
    "rel-bias-2d": Kind("vit.pos_embed.attention_bias:RelBias2d", ATTENTION, "relative-2d"),
    # Prefix tokens are not rotated, so a patch's rotation relative to them is its absolute position.
    "rope-2d": Kind("vit.pos_embed.rotary:Rope2d", ("every-layer",), "relative-2d", "absolute", (("head_dim", 4),)),
    "alibi-2d": Kind("vit.pos_embed.attention_bias:Alibi2d", ("every-layer",), "distance"),
    "cpe": Kind("vit.pos_embed.convolutional:Conditional", ADDITIVE, "local"),
    "frozen-random": Kind("vit.pos_embed.additive:FrozenRandom", ADDITIVE, "absolute", "absolute"),
}
REGISTRY = Registry(BUILTIN)
