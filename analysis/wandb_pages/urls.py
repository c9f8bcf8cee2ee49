"""The URLs of a study's pages, kept in the study's folder beside the token of its W&B runs. They move with the folder."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.runs import record
from experiments.runs.tracking.settings import TOKEN, token

PAGES = "pages"  # in the file: address of a project -> kind of page -> URL


def known(folder: Path, address: str) -> dict[str, str]:
    """The pages in a project: kind -> URL; empty where none was saved yet."""
    found = _pages(_read(folder)).get(address)
    return {kind: url for kind, url in found.items() if isinstance(url, str)} if isinstance(found, dict) else {}


def keep(folder: Path, address: str, urls: dict[str, str]) -> None:
    """Keep the URLs of the pages in a project, beside those in other projects."""
    token(folder)  # makes the file
    content = _read(folder)
    pages = {**_pages(content), address: {**known(folder, address), **urls}}
    record.write_json(folder / TOKEN, {**content, PAGES: pages})


def _pages(content: dict) -> dict:
    found = content.get(PAGES)
    return found if isinstance(found, dict) else {}


def _read(folder: Path) -> dict:
    path = folder / TOKEN
    return json.loads(path.read_text()) if path.exists() else {}
