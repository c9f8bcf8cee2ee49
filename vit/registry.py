"""The registry of positional embeddings: names, sites and how they carry over to other sizes. It imports no torch.

Built-in kinds are the entries of `BUILTIN`; their classes are imported on first use. A user's kinds come from the
modules named in the environment variable VIT_PLUGINS or in a study file, whose classes carry the decorator `register`.
"""

import dataclasses
import difflib
import importlib
import re
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from vit import plugins
from vit.plugins import PluginError

Resized = Literal["interpolated", "rescaled", "computed", "interpolated and computed", "unchanged"]
"""How a trained kind carries over to another image size: its table is interpolated to the new grid, so positions are
relative to the image; it has no weights and is computed for the new grid, with positions relative to the image
(rescaled) or counted in patches (computed); its table is interpolated and the rest computed; or its weights do not
depend on the grid."""

ADDITIVE = ("stem", "every-layer", "every-layer-shared")
FIXED = ("stem", "every-layer")  # without parameters, sharing them makes no difference
ATTENTION = ("every-layer", "every-layer-shared")
NORMED = "every-layer-normed"
AFTER_FIRST = "after-first-layer"
SITES = (*ADDITIVE, NORMED, AFTER_FIRST)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")  # it becomes part of the name of a folder


@dataclass(frozen=True)
class Kind:
    """A positional embedding, described without importing its class.

    `sites`: the allowed sites, the natural one first. `multiples`: a field of `ViTConfig` and the number that must
    divide it. `defaults`: fields of `ViTConfig` that only such kinds use, and the kind's own default, which replaces
    None. `resized`: how it carries over to another image size; None for `none` and plug-ins. `least_head_dim`: the
    width of the narrowest head that it rotates.
    """

    source: str | type
    """`module:Class` in `vit.pos_embed` of a built-in kind, or the class of a plug-in"""
    sites: tuple[str, ...]
    multiples: tuple[tuple[str, int], ...] = ()
    defaults: Mapping[str, float] = dataclasses.field(default_factory=dict, hash=False)
    resized: Resized | None = None
    least_head_dim: int = 1
    plugin: plugins.Source | None = dataclasses.field(default=None, compare=False)
    """the source of a plug-in; None for a built-in kind, or where there is no source file"""

    @property
    def is_plugin(self) -> bool:
        """Whether a user's module registered the kind."""
        return not isinstance(self.source, str)

    @property
    def is_rotary(self) -> bool:
        """Whether it rotates queries and keys: its positions can be interpolated at another image size."""
        return "rope_base" in self.defaults

    @property
    def cls(self) -> type:
        """The class. Importing a built-in one imports torch."""
        if not isinstance(self.source, str):
            return self.source
        module, _, name = self.source.partition(":")
        return getattr(importlib.import_module(f"vit.pos_embed.{module}"), name)

    @property
    def about(self) -> str:
        """What it is, and its source: the first paragraph of the docstring, on one line. It imports torch."""
        return " ".join((self.cls.__doc__ or "").strip().partition("\n\n")[0].split())

    def check(self, name: str, cfg: Any) -> None:
        """Raise `ValueError` if the model's shape does not fit the kind."""
        for field, users in _own_settings().items():
            if field not in self.defaults and getattr(cfg, field) is not None:
                raise ValueError(
                    f"{field}: {getattr(cfg, field):g} is not allowed for {name}; only for {', '.join(users)}"
                )
        for field, divisor in self.multiples:
            if getattr(cfg, field) % divisor:
                width = "" if field == "embed_dim" else f" gives {field} {getattr(cfg, field)}"
                raise ValueError(f"embed_dim: {cfg.embed_dim}{width}; {name} needs a multiple of {divisor}")
        if cfg.head_dim < self.least_head_dim:
            raise ValueError(
                f"embed_dim: {cfg.embed_dim} gives head_dim {cfg.head_dim}; {name} needs at least {self.least_head_dim}"
            )
        if self.is_plugin:
            try:
                getattr(self.cls, "check", lambda _: None)(cfg)
            except ValueError:
                raise
            except (Exception, SystemExit) as error:
                raise PluginError(f"{name}: {self.cls.__name__}.check raises {plugins.reason(error)}") from error


class Registry(UserDict[str, Kind]):
    """Name -> `Kind`. Plug-ins are imported when the registry is first read."""

    plugins_imported = False

    def import_plugins(self) -> None:
        """Import the modules in VIT_PLUGINS, once. Raises `PluginError`."""
        if not self.plugins_imported:
            self.plugins_imported = True
            for name in plugins.names():
                plugins.import_plugin(name)

    def __iter__(self) -> Iterator[str]:
        self.import_plugins()
        return super().__iter__()

    def __contains__(self, name: object) -> bool:
        self.import_plugins()
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Kind:
        self.import_plugins()
        return super().__getitem__(name)


def register(name: str) -> Callable[[type], type]:
    """Class decorator: add a kind to the registry, which configurations, commands, studies, tests and tables read.

    The class may have the attributes `sites` and `defaults`, as in `Kind`. Raises `ValueError` if one of them is not
    allowed, or if the name is not allowed or already registered.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"register({name!r}): the name is not allowed; allowed: {NAME.pattern}")

    def add(cls: type) -> type:
        if name in REGISTRY.data:
            raise ValueError(f"the name {name!r} is already registered: {REGISTRY.data[name].source}")
        REGISTRY[name] = _kind(name, cls)
        return cls

    return add


def _kind(name: str, cls: type) -> Kind:
    """The kind of a plug-in's class.

    A class without the base class is an error when it is used, not when it is listed.
    """
    fields = sorted({field for kind in REGISTRY.data.values() for field in kind.defaults})
    sites, defaults = getattr(cls, "sites", ATTENTION[:1]), getattr(cls, "defaults", {})
    are_numbers = isinstance(defaults, Mapping) and all(isinstance(value, int | float) for value in defaults.values())
    for attribute, value, is_allowed, allowed in (
        ("sites", sites, isinstance(sites, tuple | list) and sites and {*sites} <= {*SITES}, SITES),
        ("defaults", defaults, are_numbers and {*defaults} <= {*fields}, fields),
    ):
        if not is_allowed:
            raise ValueError(f"{name}: {attribute}: {value!r} is not allowed; allowed: {', '.join(allowed)}")
    return Kind(cls, tuple(sites), defaults=defaults, plugin=plugins.read_source(cls.__module__))


def resolve(cfg: Any) -> tuple[Kind, str]:
    """The kind of `cfg.pos_embed` and its site. Raises `ValueError`, which names the field that does not fit."""
    if cfg.pos_embed not in REGISTRY:
        hint = "" if plugins.names() else "; for a class of your own, set VIT_PLUGINS, or `plugins` in a study file"
        raise ValueError(f"pos_embed: {cfg.pos_embed!r} is not known; {nearest(cfg.pos_embed, REGISTRY)}{hint}")
    kind = REGISTRY[cfg.pos_embed]
    site = kind.sites[0] if cfg.pos_site == "natural" else cfg.pos_site
    if site not in kind.sites:
        raise ValueError(f"pos_site: {site!r} is not a site of {cfg.pos_embed!r}; allowed: {', '.join(kind.sites)}")
    if site == AFTER_FIRST and cfg.depth < 2:
        raise ValueError(f"pos_site: {site!r} needs a depth of at least 2, got {cfg.depth}")
    if site == NORMED and cfg.norm != "pre":
        raise ValueError(f"pos_site: {site!r} needs norm 'pre', got {cfg.norm!r}")
    kind.check(cfg.pos_embed, cfg)
    return kind, site


def _own_settings() -> dict[str, list[str]]:
    """Each field that only some kinds use -> the names of these kinds."""
    fields = {field for kind in REGISTRY.values() for field in kind.defaults}
    return {field: [name for name, kind in REGISTRY.items() if field in kind.defaults] for field in sorted(fields)}


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """`did you mean 'optim.lr'?` of the known names that an unknown one may mean; `otherwise` where there is none.

    They have the same letters, else the same last part, as of `optim.lr` and `lr`; else the closest one by `difflib`.
    """

    def plain(word: str) -> str:
        return re.sub(r"[\W_]", "", word).lower()

    others = {word.lower(): word for word in names if word != name}
    same = [word for word in others.values() if plain(word) == plain(name)]
    end = [word for word in others.values() if plain(re.split("[./: ]", word)[-1]) == plain(name)]
    close = same or end or [others[word] for word in difflib.get_close_matches(name.lower(), others, n=1)]
    return f"did you mean {' or '.join(map(repr, close[:3]))}?" if close else otherwise


def nearest(name: str, names: Iterable[str], listed: str = "allowed") -> str:
    """The end of an error line: what a name may mean, and all known names."""
    names = list(names)
    between = "; " if any(", " in word for word in names) else ", "
    return f"{did_you_mean(name, names)} {listed}: {between.join(names)}".lstrip()


TABLE = {"pos_std": 0.02}  # the default of kinds with a table, as in the code of the ViT paper
SCALE = {"pos_scale": 1.0}  # the default of kinds with a fixed table of sines
BUILTIN: dict[str, Kind] = {
    "none": Kind("base:NoPosition", ("stem",)),
    "sinusoidal": Kind("additive:Sinusoidal", (*FIXED, NORMED), defaults=SCALE, resized="computed"),
    "learned-1d": Kind("additive:Learned1d", (*ADDITIVE, NORMED), defaults=TABLE, resized="interpolated"),
    "learned-2d": Kind(
        "additive:Learned2d", (*ADDITIVE, NORMED), multiples=(("embed_dim", 2),), defaults=TABLE, resized="interpolated"
    ),
    "relative": Kind("attention_bias:Relative", ATTENTION, defaults=TABLE, resized="interpolated"),
    "sincos-2d": Kind(
        "additive:SinCos2d", (*FIXED, NORMED), multiples=(("embed_dim", 4),), defaults=SCALE, resized="computed"
    ),
    "rel-bias-2d": Kind("attention_bias:RelBias2d", ATTENTION, defaults=TABLE, resized="interpolated"),
    "rope-2d": Kind(
        "rotary:Rope2d",
        ("every-layer",),
        multiples=(("head_dim", 4),),
        defaults={"rope_base": 100.0},  # for grids of tens of patches; language models use 10000
        resized="computed",
    ),
    "rope-2d-learned-1d": Kind(
        "rotary:Rope2dAndTable",
        ("every-layer",),
        multiples=(("head_dim", 4),),
        defaults={"rope_base": 100.0, **TABLE},
        resized="interpolated and computed",  # the table, and the rotation
    ),
    "alibi-2d": Kind("attention_bias:Alibi2d", ("every-layer",), resized="computed"),
    "cpe": Kind("additive:Conditional", (*ADDITIVE, AFTER_FIRST), resized="unchanged"),
    "frozen-random": Kind("additive:FrozenRandom", ADDITIVE, defaults=TABLE, resized="interpolated"),
    "learned-1d-gated": Kind("additive:GatedLearned1d", ADDITIVE, defaults=TABLE, resized="interpolated"),
    "fourier-learned": Kind("continuous:LearnedFourier", ADDITIVE, multiples=(("embed_dim", 2),), resized="unchanged"),
    "cape": Kind("continuous:Cape", FIXED, multiples=(("embed_dim", 2),), resized="rescaled"),
    "adaptive-2d": Kind("continuous:Adaptive2d", ADDITIVE, resized="unchanged"),
    "rope-mixed": Kind(
        "rotary:RopeMixed",
        ATTENTION,
        multiples=(("head_dim", 4),),
        defaults={"rope_base": 10.0},  # as Heo et al.
        resized="unchanged",
    ),
    "rope-spherical": Kind(
        "rotary:RopeSpherical",
        ("every-layer",),
        defaults={"rope_base": 100.0},  # as the authors
        resized="computed",
        least_head_dim=3,
    ),
    "irpe-k": Kind("attention_bias:IrpeKeys", ATTENTION, defaults=TABLE, resized="unchanged"),
    "pape": Kind("attention_bias:Pape", ATTENTION, resized="unchanged"),
    "lookhere": Kind("attention_bias:LookHere", ("every-layer",), resized="computed"),
    "relative-2d-kv": Kind(
        "attention_bias:Relative2dKv", ATTENTION, multiples=(("head_dim", 2),), defaults=TABLE, resized="unchanged"
    ),
}
REGISTRY = Registry(BUILTIN)


def defaults(kind: Kind, init: str | None, embed_dim: int | None) -> dict[str, float]:
    """What the settings that only some kinds use are for one kind where they are None.

    With init xavier, a table has big_vision's standard deviation, 1 / sqrt(embed_dim).
    """
    table = {"pos_std": embed_dim**-0.5} if init == "xavier" and embed_dim else {}
    return {**TABLE, **SCALE, **kind.defaults, **table}


def site_of(kind: str, site: str | None = None) -> str:
    """The site where a kind acts: `site`, or the kind's natural site where none is set ("stem" for an unknown kind)."""
    if site is not None and site != "natural":
        return site
    return REGISTRY[kind].sites[0] if kind in REGISTRY else "stem"
