"""Where the runs of other studies are looked for."""

import pytest
from commands import refusal

from experiments.errors import UserError
from experiments.runs import reused
from experiments.runs.reused import find_source
from experiments.study import REFERENCE


def test_a_path_is_relative_and_a_name_is_that_of_a_reference_study(tmp_path):
    (tmp_path / "digits" / "own").mkdir(parents=True)
    (tmp_path / "positions-64").mkdir()
    assert find_source("digits/own", tmp_path) == str(tmp_path / "digits" / "own")
    assert find_source("./positions-64", tmp_path) == str(tmp_path / "positions-64")
    assert find_source("positions-64", tmp_path) == str(REFERENCE / "positions-64")
    assert find_source("digits/position", tmp_path) == str(REFERENCE / "digits" / "position")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("position-64", "reuse: 'position-64' is no study of analysis/reference; did you mean 'positions-64'?"),
        ("../reference", "reuse: '../reference' is no folder and no study of analysis/reference; "),
        ("a\0/b", "reuse: 'a\\x00/b' is no folder and no study of analysis/reference; "),
        ("/etc/none", "reuse: '/etc/none' is no folder and no study of analysis/reference; "),
    ],
)
def test_what_is_not_there_is_named_with_a_near_one(given, said, tmp_path):
    assert refusal(find_source, given, tmp_path).startswith(said)


def test_without_a_checkout_a_line_says_where_studies_are(tmp_path, monkeypatch):
    monkeypatch.setattr(reused, "REFERENCE", tmp_path / "none")
    with pytest.raises(UserError, match="no study of analysis/reference; a clone of the project has that folder"):
        find_source("positions-64", tmp_path)
