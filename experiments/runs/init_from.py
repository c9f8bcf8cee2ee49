"""The source of a run that sets `init_from`: a finished run, whose final weights are the initial weights of this one.

They are adapted to another image size as for `eval.img_sizes` (arXiv 2010.11929, section 3.2). The classifier is kept
for the same number of classes; else its last layer starts at zero, as in the paper.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors.torch import load as load_tensors
from torch import Tensor

from experiments.config import RunConfig, completed, load, plain_settings
from experiments.data.catalogue import DATASETS
from experiments.data.places import place_of
from experiments.errors import UserError, setting_text
from experiments.evaluation.other_images import at_size
from experiments.runs import record
from experiments.training.trainer import initial_model, load_weights, prefixed
from vit import ViT
from vit.registry import REGISTRY

SPLIT = ("classes", "split_seed", "test_fraction", "val_fraction")  # they determine the validation and test images
Seen = dict[str, Any]  # a dataset that weights were trained on: name, root, files and the settings in SPLIT


@dataclass(frozen=True)
class TrainedRun:
    """A finished run. `folder`: as `init_from` names it."""

    folder: str
    config: RunConfig
    summary: dict[str, Any]

    @cached_property
    def weights(self) -> Mapping[str, Tensor]:
        """Its final weights by name."""
        digest = self.summary["files"][record.CHECKPOINT]
        return load_tensors(record.read_bytes(Path(self.folder) / record.CHECKPOINT, digest))

    @property
    def num_classes(self) -> int:
        """The number of classes that it was trained for."""
        last = max(name for name in self.weights if name.startswith("head."))
        return self.weights[last].shape[0]

    @property
    def seen(self) -> list[Seen]:
        """The datasets that its weights were trained on: its own, and those of the run that it started from."""
        data = self.config.data
        trained_on = {
            "name": data.name,
            "root": data.root,
            "files": self.summary.get("data", {}).get("files", ""),
            **{field: _split(self.config)[field] for field in SPLIT},
        }
        return [trained_on, *self.summary.get("init", {}).get("seen", [])]

    def described(self, num_classes: int) -> dict[str, Any]:
        """What the record of a run with this source says of it."""
        return {
            "run_id": self.summary["run_id"],
            "weights": self.summary["files"][record.CHECKPOINT],
            "img_size": self.config.data.image_shape[1],
            "new_head": num_classes != self.num_classes,
            "seen": self.seen,
        }

    def check(self, config: RunConfig, files: str | None) -> None:
        """Raise `UserError` where a run cannot start from these weights. `files`: the hash of its image files, or "".

        None for files that are not read yet; then an image folder is not compared.
        """
        self._check_model(config)
        channels, allowed = config.data.image_shape[0], self.config.data.image_shape[0]
        if channels != allowed:
            where = f"allowed with the weights of {self.folder}: datasets with {allowed}"
            raise UserError(f"data.name: {config.data.name} has {channels} channel(s); {where}")
        for seen in self.seen:
            _check_split(config, files, seen, self.folder)

    def _check_model(self, config: RunConfig) -> None:
        """Raise `UserError` where the model is another one. Dropout and the scheme of initialization may differ."""
        wanted, given = plain_settings(self.config), plain_settings(config)
        paths = [path for path in given if path.startswith("model.") and not path.endswith(("_rate", ".init"))]
        if differing := [path for path in paths if given[path] != wanted[path]]:
            first, allowed = differing[0], " ".join(f"{path}={setting_text(wanted[path])}" for path in differing)
            refusal = f"is not allowed with the weights of {self.folder}; allowed: {allowed}"
            raise UserError(f"{first}: {setting_text(given[first])} {refusal}")
        self._check_plugin()

    def _check_plugin(self) -> None:
        name, recorded = self.config.model.pos_embed, self.summary["provenance"].get("plugin") or {}
        plugin = REGISTRY[name].plugin
        if plugin and recorded.get("digest") not in (None, plugin.digest):
            raise UserError(
                f"model.pos_embed: the source of the plug-in {name!r} was changed after "
                f"{self.folder} was trained; restore it from {record.PLUGIN}/ in that folder, or train that run again"
            )

    def model(self) -> ViT:
        """The model with its final weights. Raises `UserError` where the source of its plug-in was changed."""
        self._check_plugin()
        model = initial_model(self.config, self.num_classes)
        load_weights(model, self.weights)
        return model

    def initial_state(self, config: RunConfig, num_classes: int) -> dict[str, Tensor]:
        """The initial weights of a run, in the form that a trainer loads. Raises `UserError`; see `at_size`."""
        model = self.model()
        state = dict(at_size(model, config.data.image_shape[1]).state_dict())
        if num_classes != self.num_classes:
            for name in (f"head.{model.head.classifier}.{part}" for part in ("weight", "bias")):
                state[name] = state[name].new_zeros(num_classes, *state[name].shape[1:])
        return prefixed("weights", state)


def read(folder: str, field: str = "init_from", weights: str | None = None) -> TrainedRun:
    """A finished run whose weights have this SHA-256, if one is given.

    Raises `UserError`, which begins with `field`, where it is missing, not finished, or has other weights.
    """
    where, path = f"{field}: {folder!r}", Path(folder)
    if not os.path.isdir(path):
        raise UserError(f"{where} does not exist; expected the folder of a finished run")
    if not record.is_finished(path):
        raise UserError(f"{where} is not finished: it has no {record.SUMMARY}; finish that run first")
    source = record.read_run(path, checkpoint=True)
    if source.summary["status"] != "finished":
        raise UserError(f"{where} has the status {source.summary['status']}; allowed: finished")
    digest = source.summary["files"][record.CHECKPOINT]
    if weights not in (None, digest):
        raise UserError(f"{where} has weights with SHA-256 {digest[:12]}..., not init_weights, {weights}")
    return TrainedRun(folder, load(completed(source.config)), source.summary)


def check_planned(config: RunConfig) -> None:
    """Raise `UserError` where a planned run cannot start from its source, as far as the source's record tells."""
    if config.init_from is not None and os.path.isdir(config.init_from):  # without it, a run may have its own state
        read(config.init_from, weights=config.init_weights).check(config, None)


def _split(config: RunConfig) -> dict[str, Any]:
    """The settings in SPLIT, with the seed that "per-seed" stands for."""
    return {**config.data.model_dump(include=set(SPLIT)), "split_seed": config.split_seed}


def _check_split(config: RunConfig, files: str | None, seen: Seen, folder: str) -> None:
    """Raise `UserError` where validation or test images of a run may be among those that its source was trained on."""
    data = config.data
    if seen["name"] not in (data.name, *config.eval.fewshot):
        return
    if files is None and DATASETS[seen["name"]].source == "folder":
        return
    if DATASETS[seen["name"]].source == "folder" and files != seen["files"]:
        if os.path.realpath(place_of(data.root).path) != os.path.realpath(seen["root"]):
            return  # other images
        raise UserError(
            f"data.root: the files of {data.root!r} are not those that the weights of {folder} were trained on, so "
            "test images of this run may be among them; restore the files, or use another folder"
        )
    for field, value in _split(config).items():
        known = seen.get(field, "")  # older records have no classes: they were trained on all
        if value != known:
            raise UserError(
                f"data.{field}: {setting_text(value)} is not allowed with the weights of {folder}: they were trained "
                f"on {seen['name']} split with {setting_text(known)}, perhaps on validation or test images of this "
                f"run; allowed: {setting_text(known)}"
            )
