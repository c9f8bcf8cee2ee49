"""The specification of the pages as JSON, for a study whose pages cannot be saved on a server."""

from __future__ import annotations

import json

from analysis.wandb_pages.content import Content
from analysis.wandb_pages.report import report
from analysis.wandb_pages.workspace import workspace

FILE = "wandb.json"  # in the folder of the report


def specification(content: Content, entity: str, project: str) -> bytes:
    """The workspace and the report, as W&B stores them. The same content gives the same bytes. Asks no server."""
    view = workspace(content, entity, project)._to_model().spec
    page = report(content, entity, project)._to_model()
    made = {
        "workspace": {"name": content.study, "spec": view.model_dump(mode="json", by_alias=True, exclude_none=True)},
        "report": {
            "title": page.display_name,
            "description": page.description,
            "spec": page.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        },
    }
    return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()
