"""The source of a plug-in is that of its one file."""

import pytest
from commands import PLUGIN, run

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


def test_a_module_of_a_package_may_not_import_the_package(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(f"from . import other\n{PLUGIN}")
    (tmp_path / "mine" / "other.py").write_text("")
    _, out, err = run(CODE, "mine", PYTHONPATH=str(tmp_path), cwd=tmp_path)
    assert "imports another file of its folder, by .; put all into one file" in out, err
