"""Where the runs of other studies are looked for."""

import pytest
from commands import refusal

from experiments.errors import UserError
from experiments.runs import exports
from experiments.runs.exports import find_source
from experiments.study import REFERENCE


def test_a_path_is_relative_and_a_name_is_that_of_a_reference_study(tmp_path):
    for name in ("digits/position", "positions-64"):
        (tmp_path / name).mkdir(parents=True)
        assert find_source(f"./{name}", tmp_path) == str(tmp_path / name)
        assert find_source(str(tmp_path / name), tmp_path) == str(tmp_path / name)
        assert find_source(name, tmp_path) == str(REFERENCE / name), "a folder beside the study counts"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("position-64", "reuse: 'position-64' is no study of analysis/reference; did you mean 'positions-64'?"),
        ("digits/../..", "reuse: 'digits/../..' is no study of analysis/reference; "),
        ("a\0/b", "reuse: 'a\\x00/b' is no study of analysis/reference; "),
        ("../reference", "reuse: '../reference' is no folder"),
        ("/etc/none", "reuse: '/etc/none' is no folder"),
    ],
)
def test_what_is_not_there_is_named_with_a_near_one(given, said, tmp_path):
    assert refusal(find_source, given, tmp_path).startswith(said)


def test_without_a_checkout_a_line_says_where_studies_are(tmp_path, monkeypatch):
    monkeypatch.setattr(exports, "REFERENCE", tmp_path / "none")
    with pytest.raises(UserError, match="no study of analysis/reference; a clone of the project has that folder"):
        find_source("positions-64", tmp_path)
