"""The source of a plug-in is that of the modules that run, also where two folders hold files of one name."""

import pytest
from commands import run

from vit import plugins

PLUGIN = """
import torch, queue
from vit.pos_embed import Additive, register
HEAD

@register("NAME")
class Mine(Additive):
    def __init__(self, cfg):
        super().__init__(cfg)
        self.scale = torch.nn.Parameter(torch.ones(cfg.num_tokens, cfg.embed_dim))

    def add(self, x):
        import helper
        return x + helper.SHIFT * self.scale
"""
CODE = """
import sys
from vit import plugins
try:
    for path in sys.argv[1:]:
        plugins.import_plugin(path)
        print(*plugins.read_source(path.rpartition("/")[2].removesuffix(".py")).files)
except plugins.PluginError as error:
    print(error)
"""


@pytest.mark.parametrize("head", ["from helper import SHIFT", ""], ids=str)
def test_two_plugins_with_a_helper_of_one_name_are_one_line_however_it_is_imported(head, tmp_path):
    paths = [tmp_path / folder / f"{folder}.py" for folder in ("one", "two")]
    for shift, path in enumerate(paths):
        path.parent.mkdir()
        path.write_text(PLUGIN.replace("HEAD", head).replace("NAME", path.stem))
        (path.parent / "helper.py").write_text(f"SHIFT = {shift}")
        (path.parent / "queue.py").write_text("raise SystemExit")  # the standard library's is meant
    _, out, err = run(CODE, *paths, PYTHONSAFEPATH="1")
    first, second = (path.parent / "helper.py" for path in paths)
    line = f"{paths[1]}: its module helper is {second}, but here this name is {first}; rename it"
    assert out.splitlines() == ["helper.py one.py", line], err


def test_a_path_with_a_comma_is_refused():
    """A comma separates the paths of VIT_PLUGINS."""
    with pytest.raises(plugins.PluginError, match="^s.yaml: '/a,b.py' is not allowed: expected a path without a comma"):
        plugins.add(["/a,b.py"], "s.yaml")
