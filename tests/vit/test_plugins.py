"""A plug-in that cannot work is refused in one line before it trains; its source is that of its one file."""

import re

import pytest
import torch
from commands import PLUGIN, run
from torch import nn

from vit import ViTConfig
from vit.plugins import PluginError
from vit.pos_embed import REGISTRY, Additive, PosEmbed, Rotary, register
from vit.probe import check_plugin

T, D, H = 17, 8, 2  # tokens, width and heads of the probed model


class Table(Additive):
    def __init__(self, cfg):
        super().__init__(cfg)
        self.table = nn.Parameter(torch.zeros(cfg.num_tokens, cfg.embed_dim))

    def add(self, x):
        return x + self.table


class Nothing(Additive):
    pass


class NoBase:
    sites = ("stem",)

    def __init__(self, cfg):
        pass


class Exits(Table):
    def __init__(self, cfg):
        raise SystemExit(0)


class Turned(Rotary):
    def angles(self):
        return torch.zeros(T, D // H // 2)


class NoStretch(PosEmbed):
    defaults = {"rope_base": 50.0}

    def rotate(self, q, k):
        return -q, k


def adds(body):
    """A class whose `add` is this function of the module and the tokens."""
    return type("Mine", (Table,), {"add": body})


BROKEN = {
    "overrides none of add, rotate, bias": Nothing,
    "is not a subclass of vit.pos_embed.PosEmbed": NoBase,
    "raises SystemExit: 0 (": Exits,
    "raises ValueError: `angles` returns [17, 2]; expected [N, Dh/2] = [16, 2]": Turned,
    "passes no finite gradient to pos.0.table": adds(lambda self, x: x + 1),
    "raises RuntimeError: ": adds(lambda self, x: x[:, 1:] + self.table),
    "makes the scores of a model infinite or NaN": adds(lambda self, x: x / 0),
}


@pytest.fixture
def named(monkeypatch):
    """Register a class as "mine" for one test."""

    def add(cls):
        monkeypatch.setattr(REGISTRY, "data", dict(REGISTRY.data))
        register("mine")(cls)
        return ViTConfig(pos_embed="mine", img_size=8, patch_size=2, embed_dim=D, num_heads=H, depth=1, num_classes=2)

    return add


@pytest.mark.parametrize("said", BROKEN)
def test_broken_class_gives_one_line(said, named):
    cfg = named(BROKEN[said])
    with pytest.raises(PluginError, match=rf"^mine: the class \w+ {re.escape(said)}"):
        check_plugin(cfg)


@pytest.mark.parametrize(
    ("cls", "interpolated", "said"),
    [
        (
            Table,
            False,
            "cannot be used at 12 px: its class does not override `resized(self, cfg)`, and table depends on the image",
        ),
        (NoStretch, True, "cannot be used at 12 px with interpolated positions: its class does not override `stretch`"),
    ],
)
def test_a_class_that_does_not_carry_over_to_another_size_gives_one_line(cls, interpolated, said, named):
    cfg = named(cls)
    check_plugin(cfg)
    with pytest.raises(PluginError, match=rf"^mine: the class {cls.__name__} {re.escape(said)}"):
        check_plugin(cfg, [8, 12], interpolated)


@pytest.mark.parametrize("kind", list(REGISTRY))
def test_built_in_kinds_would_pass(kind, named, monkeypatch):
    """The checks are not stricter than the kinds that are known to work."""
    cls = REGISTRY[kind].cls
    cfg = named(cls)
    if kind == "none":
        with pytest.raises(PluginError, match="overrides none"):
            check_plugin(cfg)
    else:
        before = torch.get_rng_state()
        check_plugin(cfg)
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["a/b", "", "-x", "x" * 61, 5, Table])
def test_name_that_is_not_allowed_is_refused(name):
    with pytest.raises((ValueError, TypeError), match="register"):
        register(name)(Table)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("sites", "stem"), ("sites", ("nowhere",)), ("defaults", {"my_scale": 1.0}), ("defaults", {"rope_base": "100"})],
)
def test_attribute_that_is_not_allowed_is_refused(attribute, value):
    with pytest.raises(ValueError, match="^" + re.escape(f"mine: {attribute}: {value!r} is not allowed")):
        register("mine")(type("Mine", (Table,), {attribute: value}))


CODE = """
import sys
from vit import plugins
try:
    plugins.import_plugin(sys.argv[1])
    print(*plugins.read_source("mine").files)
except plugins.PluginError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("import queue, numpy.linalg", "mine.py"),  # of the standard library and installed, also beside a file queue.py
        ("import helper", "imports another file of its folder, helper; put all into one file"),
        ("from helper import SHIFT", "imports another file of its folder, helper; put all into one file"),
    ],
)
def test_a_plugin_is_one_file(first, said, tmp_path):
    """A change of another one would not change the run id."""
    (tmp_path / "mine.py").write_text(f"{first}\n{PLUGIN}")
    (tmp_path / "helper.py").write_text("SHIFT = 1")
    (tmp_path / "queue.py").write_text("raise SystemExit")
    _, out, err = run(CODE, tmp_path / "mine.py", PYTHONSAFEPATH="1")
    assert out.rstrip().removeprefix(f"{tmp_path}/mine.py: ") == said, err
