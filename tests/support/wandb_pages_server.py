"""The stand-in server with saved workspaces, as wandb-workspaces saves and reads them."""

import json
from dataclasses import dataclass
from typing import Any

from wandb_server import WandbServer, _id


@dataclass
class View:
    """A saved workspace (type "project-view"). `saved`: how often it was saved."""

    id: str
    project: str
    type: str
    name: str
    title: str
    description: str
    spec: dict[str, Any]
    saved: int = 1


class PagesServer(WandbServer):
    """`views`: all workspaces, by id."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.views: dict[str, View] = {}

    def op_UpsertView2(self, v: dict[str, Any]) -> dict[str, Any]:
        old = self.views.get(v.get("id") or "")
        view = View(
            old.id if old else _id(f"View:{len(self.views) + 1}"),
            v["projectName"],
            v["type"],
            v.get("name") or (old.name if old else ""),
            v["displayName"],
            v["description"],
            json.loads(v["spec"]),
            old.saved + 1 if old else 1,
        )
        self.views[view.id] = view
        return {"upsertView": {"view": self._view(view), "inserted": old is None}}

    def op_View(self, v: dict[str, Any]) -> dict[str, Any]:
        found = [view for view in self.views.values() if view.name == v["viewName"] and view.project == v["name"]]
        nodes = [{"node": {"id": x.id, "displayName": x.title, "spec": json.dumps(x.spec)}} for x in found]
        return {"project": {"allViews": {"edges": nodes}}}

    def _view(self, view: View) -> dict[str, Any]:
        return {
            "id": view.id,
            "type": view.type,
            "name": view.name,
            "displayName": view.title,
            "description": view.description,
            "project": {"id": _id(view.project), "name": view.project, "entityName": self.entity},
            "spec": json.dumps(view.spec),
            "createdAt": TIME,
            "updatedAt": TIME,
        }


TIME = "2026-01-01T00:00:00Z"
