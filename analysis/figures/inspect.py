"""What trained models look at and know of place, read from checkpoints: arrays out. The only file here that imports
torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.sources.study import Study
from experiments.errors import UserError
from experiments.runs import record

EXAMPLES = 8  # test images that are shown, the first ones of the test set
AVERAGED = 128  # test images over which attention distances are averaged


@dataclass(frozen=True)
class ModelInspection:
    """Inside one trained model. S pixels a side, G patches a side, T tokens, H heads; None where there is no such
    thing.
    """

    variant: str
    run: str
    patch: int
    table: np.ndarray | None
    """what position adds to each token, [T, D]"""
    similarity: np.ndarray | None
    """of each patch's position with every other's, [G, G, G, G]"""
    logits: np.ndarray | None
    """what position does to attention logits, the mean over heads, [G, G, G, G]"""
    distance: np.ndarray | None
    """mean attention distance in pixels, [depth, H]"""
    images: np.ndarray
    """[n, S, S, C], from 0 to 1"""
    truth: tuple[str, ...]
    predicted: tuple[str, ...]
    pool: str
    """which tokens make the image feature: "cls", "gap" or "map" """
    attention: np.ndarray
    """of those tokens in the last layer, [n, S, S]"""
    rollout: np.ndarray
    """of those tokens through all layers, [n, S, S]"""


def look(study: Study, variants: list[str], skip_unreadable: bool = False) -> tuple[list[ModelInspection], list[str]]:
    """One look a variant, at its finished run with the lowest seed; and why some could not be had.

    Raises `RecordError` where a checkpoint is not the one that the record was sealed with, unless `skip_unreadable`.
    """
    found, troubles = [], []
    finished = study.of("finished").sort_values("seed", kind="stable")
    for variant in variants:
        for run in finished[finished["variant"] == variant]["run"].head(1):
            try:
                found.append(_look(study.folder / run, variant))
            except (UserError, _Unusable) as error:
                if isinstance(error, record.RecordError) and not skip_unreadable:
                    raise
                troubles.append(f"{run}: {error}")
    return found, troubles


class _Unusable(Exception):
    """A checkpoint that is not there, or holds other weights than the model has: no fault of the record."""


def _look(folder: Path, variant: str) -> ModelInspection:
    if not (folder / record.CHECKPOINT).exists():
        raise _Unusable("its checkpoint is not there")
    run = record.read_run(folder, checkpoint=True)
    weights = _weights(folder / record.CHECKPOINT)

    import torch

    from experiments import config as configuration
    from experiments.data import loading
    from vit import ViT, diagnostics

    config = configuration.load(run.config)
    splits = loading.load(config)
    cfg = config.vit_config(len(splits.classes))
    model = ViT(cfg).eval()
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise _Unusable("its checkpoint holds other weights than the model of its configuration has") from error
    torch.set_num_threads(
        1
    )  # sums in one order whatever the machine, so that the same checkpoint gives the same figures
    pos, x = model.pos[0], splits.test.x[:AVERAGED]
    with torch.no_grad():
        inputs = splits.normalized(splits.scaled(x))
        maps, shares = model.attention_maps(inputs), model.pooling_weights(inputs[:EXAMPLES])
        answers = model(inputs[:EXAMPLES]).argmax(-1)
    shown = [layer[:EXAMPLES] for layer in maps]
    logits = diagnostics.position_logits(pos, cfg)
    return ModelInspection(
        variant=variant,
        run=folder.name,
        patch=cfg.patch_size,
        table=_array(diagnostics.position_table(pos, cfg)),
        similarity=_array(diagnostics.position_similarity(pos, cfg)),
        logits=None if logits is None else _array(logits.mean(0)),
        distance=_array(diagnostics.mean_attention_distance(maps, cfg)) if cfg.grid_size > 1 else None,
        images=_array(splits.scaled(x[:EXAMPLES]).permute(0, 2, 3, 1)),
        truth=tuple(splits.classes[label] for label in splits.test.y[:EXAMPLES]),
        predicted=tuple(splits.classes[label] for label in answers),
        pool=cfg.pool,
        attention=_array(diagnostics.pooled_attention(shown[-1], shares, cfg)),
        rollout=_array(diagnostics.pooled_attention(diagnostics.rollout(shown)[:, None], shares, cfg)),
    )


def _weights(path: Path) -> dict:
    """The tensors of a checkpoint; the format is looked at first, without torch, which takes seconds to import."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np"):
            pass
    except SafetensorError as error:
        raise _Unusable("its checkpoint is not in safetensors' format") from error
    from safetensors.torch import load_file

    return load_file(path)


def _array(tensor) -> np.ndarray | None:
    return None if tensor is None else tensor.detach().float().numpy()
