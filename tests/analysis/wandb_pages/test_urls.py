"""The URLs of a study's pages in its folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.wandb_pages import urls
from experiments.runs.tracking.settings import TOKEN


@pytest.mark.parametrize("damaged", [4, [], {"server/project": 3}, None])
def test_damaged_urls_are_replaced_and_the_token_is_kept(tmp_path: Path, damaged: object) -> None:
    (tmp_path / TOKEN).write_text(json.dumps({"token": "abc", "pages": damaged}))
    assert urls.known(tmp_path, "server/project") == {}
    urls.keep(tmp_path, "server/project", {"report": "there"})
    assert json.loads((tmp_path / TOKEN).read_text()) == {
        "token": "abc",
        "pages": {"server/project": {"report": "there"}},
    }


def test_urls_of_other_projects_and_kinds_are_kept(tmp_path: Path) -> None:
    urls.keep(tmp_path, "a", {"workspace": "1"})
    urls.keep(tmp_path, "b", {"report": "2"})
    urls.keep(tmp_path, "a", {"report": "3"})
    assert urls.known(tmp_path, "a") == {"workspace": "1", "report": "3"}
    assert urls.known(tmp_path, "b") == {"report": "2"}
