"""The code of a run that its commit does not name: the source of its plug-in, and uncommitted changes of this project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.config import RunConfig
from experiments.runs import record
from experiments.version import is_committed, uncommitted_diff
from vit import plugins
from vit.registry import REGISTRY


def source_files(config: RunConfig) -> dict[str, bytes]:
    """The files that the run's folder gets: name -> content. Empty for built-in kinds and a clean checkout."""
    found = {}
    if source := REGISTRY[config.model.pos_embed].plugin:
        found = {f"{record.PLUGIN}/{name}": body for name, body in source.files.items()}
    if diff := uncommitted_diff():
        found[record.DIFF] = diff
    return found


def plugin_provenance(config: RunConfig) -> Mapping[str, Any]:
    """What the summary says of the run's plug-in: {} for a built-in kind.

    `modules` is the value of VIT_PLUGINS, `digest` is `vit.plugins.digest` of the copy in the run's folder, `committed`
    whether git holds the same source. Without a source file, as in a notebook, the latter two are None.
    """
    kind = REGISTRY[config.model.pos_embed]
    if not kind.is_plugin:
        return {}
    source = kind.plugin
    return {
        "plugin": {
            "modules": ",".join(plugins.names()) or kind.cls.__module__,
            "digest": source and source.digest,
            "committed": source and is_committed(source.folder, tuple(source.files)),
        }
    }
