"""Trained models and test images as arrays. This is the only file of the analysis that imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from analysis.runs.runs import Runs
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.exports import why_no_model

if TYPE_CHECKING:
    import torch

EXAMPLES = 8  # the first test images, which are shown
AVERAGED = 128  # test images over which attention distances are averaged


@dataclass(frozen=True)
class ModelInspection:
    """What was read from one trained model; None where the model has no such thing.

    S: pixels per side, G: patches per side, D: width, H: heads, n: images.
    """

    variant: str
    run: str
    table: np.ndarray | None  # what is added to the patches, [G * G, D]
    similarity: np.ndarray | None  # cosine similarities of the patches' position embeddings, [G, G, G, G]
    logits: np.ndarray | None  # what position adds to the attention logits, mean over heads, [G, G, G, G]
    distance: np.ndarray | None  # mean attention distance in pixels, [depth, H]
    images: np.ndarray  # [n, S, S, C], from 0 to 1
    truth: tuple[str, ...]
    predicted: tuple[str, ...]
    pool: str  # which tokens make the image feature: "cls", "gap" or "map"
    attention: np.ndarray  # attention of the pooled tokens in the last layer, [n, S, S]
    rollout: np.ndarray  # attention of the pooled tokens through all layers, [n, S, S]


def inspect_models(
    study: Runs, variants: list[str], skip_unreadable: bool = False
) -> tuple[list[ModelInspection], list[tuple[str, str]]]:
    """Inspect the finished run of each variant with the lowest seed: inspections, and (run, why it has none).

    Runs that the study has trained come before those that it reuses.
    Raises `RecordError` if a checkpoint does not match its record, unless `skip_unreadable`.
    """
    inspections, missing = [], []
    finished = study.of("finished")
    finished = finished.assign(reused=finished["reused_from"].notna()).sort_values(["reused", "seed"], kind="stable")
    for variant in variants:
        for run in finished.loc[finished["variant"] == variant, "run"].head(1):
            try:
                inspections.append(_inspect(study.folder / run, variant))
            except UserError as error:
                if isinstance(error, record.RecordError) and not skip_unreadable:
                    with record.advising(", or report without --models"):
                        raise
                missing.append((run, str(error)))
    return inspections, missing


def _inspect(folder: Path, variant: str) -> ModelInspection:
    import torch

    from experiments.data import loading
    from experiments.runs import trained
    from vit import diagnostics

    if not (folder / record.CHECKPOINT).exists():
        raise UserError(why_no_model(folder) or "the checkpoint is missing")
    source = trained.read(str(folder), "run")
    splits = loading.load(source.config)
    cfg = source.config.vit_config(len(splits.classes))
    model = source.model().eval()
    torch.set_num_threads(1)  # a fixed order of summation gives the same figures on every machine
    pos = diagnostics.first_position(model.pos)
    x = splits.test.x[:AVERAGED]
    with torch.no_grad():
        inputs = splits.normalized(splits.scaled(x))
        maps, pooling = model.attention_maps(inputs), model.pooling_weights(inputs[:EXAMPLES])
        predicted = model(inputs[:EXAMPLES]).argmax(-1)
    shown = [layer[:EXAMPLES] for layer in maps]
    of_position = diagnostics.position_table, diagnostics.position_similarity, diagnostics.position_logits
    table, similarity, logits = (measure(pos, cfg) for measure in of_position)
    return ModelInspection(
        variant=variant,
        run=folder.name,
        table=None if table is None else _array(table),
        similarity=None if similarity is None else _array(similarity),
        logits=None if logits is None else _array(logits.nanmean(0)),
        distance=_array(diagnostics.mean_attention_distance(maps, cfg)) if cfg.grid_size > 1 else None,
        images=_array(splits.scaled(x[:EXAMPLES]).permute(0, 2, 3, 1)),
        truth=tuple(splits.classes[label] for label in splits.test.y[:EXAMPLES]),
        predicted=tuple(splits.classes[label] for label in predicted),
        pool=cfg.pool,
        attention=_array(diagnostics.pooled_attention(shown[-1], pooling, cfg)),
        rollout=_array(diagnostics.pooled_attention(diagnostics.rollout(shown)[:, None], pooling, cfg)),
    )


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().float().numpy()
