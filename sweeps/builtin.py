"""The studies that come with the project, as data; and how a study is found by name or read from a user's YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from experiments.data.catalogue import DATASETS
from experiments.errors import UserError
from experiments.presets import PRESETS, preset
from sweeps.study import Study, make
from vit.registry import REGISTRY, nearest

# Settings were tried out on the validation images of the probes of split_seed 0; the study draws images that nobody chose
# anything by. A fixed penalty learns at small rates, small tables at large ones: a long warm-up serves both. Without
# clipping, a spike of the loss undoes now and then what has been learnt.
PROBE_BASE = {
    "preset": "digits",
    "data.split_seed": 3,
    "model.num_heads": 8,
    "model.pool": "gap",
    "optim.lr": 3e-3,
    "optim.warmup_epochs": 20,
    "optim.grad_clip_norm": 1.0,
    "train.epochs": 100,
}


def _over_all_kinds(name: str, description: str, base: dict[str, Any]) -> Study:
    factors = {"model.pos_embed": list(REGISTRY)}
    return Study(name=name, description=description, factors=factors, baseline="none", base=base)


STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study(
            name="position",
            description="Does the positional embedding matter, and which one?",
            factors={"model.pos_embed": ["none", "sinusoidal", "learned-1d", "learned-2d"]},
            baseline="none",
        ),
        Study(
            name="head",
            description="What does it cost to feed cross-entropy with probabilities instead of logits?",
            factors={"model.head": ["logits", "softmax"]},
            baseline="logits",
        ),
        Study(
            name="dropout",
            description="Does dropout help, after the embedding and the branches or on the attention weights?",
            factors={
                "model.pos_drop_rate+model.proj_drop_rate+model.mlp_drop_rate": [[0.0] * 3, [0.1] * 3, [0.2] * 3],
                "model.attn_drop_rate": [0.0, 0.1],
            },
            names={
                "model.pos_drop_rate+model.proj_drop_rate+model.mlp_drop_rate": "hidden",
                "model.attn_drop_rate": "attention",
            },
        ),
        Study(name="depth", description="How many layers are enough?", factors={"model.depth": [1, 2, 4, 6]}),
        Study(
            name="table-8",
            description="The eight cells of arXiv 2010.11929, Table 8: three kinds, where they enter, and none.",
            factors={
                "model.pos_embed+model.pos_site": [
                    ["none", "stem"],
                    ["learned-1d", "stem"],
                    ["learned-1d", "every-layer"],
                    ["learned-1d", "every-layer-shared"],
                    ["learned-2d", "stem"],
                    ["learned-2d", "every-layer"],
                    ["learned-2d", "every-layer-shared"],
                    ["relative", "every-layer"],
                ]
            },
        ),
        _over_all_kinds("positions", "Every positional embedding there is, where it enters by nature.", {}),
        Study(
            name="kind-x-site",
            description="Is it the kind of position that matters, or where it enters?",
            factors={
                "model.pos_embed": ["sinusoidal", "learned-1d", "learned-2d", "sincos-2d", "frozen-random", "cpe"],
                "model.pos_site": ["stem", "every-layer"],
            },
            extra=[
                {"model.pos_embed": "none"},
                *(
                    {"model.pos_embed": kind, "model.pos_site": "every-layer-shared"}
                    for kind in ("learned-1d", "learned-2d", "frozen-random", "cpe")
                ),
            ],
            baseline={"model.pos_embed": "none"},
        ),
        _over_all_kinds(
            "controls",
            "Each image's patches in an order of its own: position means nothing, so no kind may beat none.",
            {"preset": "digits", "data.shuffle_patches": True},
        ),
        *(
            _over_all_kinds(name, f"{dataset.about[0].upper()}{dataset.about[1:]}", {**PROBE_BASE, "data.name": name})
            for name, dataset in DATASETS.items()
            if dataset.source == "generated"
        ),
    )
}


class UniqueKeys(yaml.SafeLoader):
    """PyYAML's safe loader, but a key written twice is an error: it would silently drop a factor."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key that is no name", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} occurs twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def find(study: str) -> Study:
    """A built-in study or a preset's own runs by name, or a user's study by the path of a YAML file. Raises `UserError`."""
    if study in STUDIES:
        return STUDIES[study]
    if study in PRESETS:
        kind = preset(study).model.pos_embed
        return Study(name=study, description=PRESETS[study].about, factors={"model.pos_embed": [kind]}, base=study)
    path = Path(study)
    if path.suffix in (".yaml", ".yml") or _is_file(path):
        return read(path)
    raise UserError(
        f"study: {study!r} is not known; {nearest(study, [*STUDIES, *PRESETS])}, or the path of a YAML file"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long for one, or lies where one may not look
        return False


def read(path: Path) -> Study:
    """A user's study: a YAML mapping with the fields of `Study`. Raises `UserError` naming the file and the reason."""
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not text in UTF-8") from error
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise UserError(f"{path}: is not YAML: {line}{error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: 2024-99-99, which it takes for a date
        raise UserError(f"{path}: is not YAML: {error}") from error
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        what = "a mapping with keys that are no names" if isinstance(tree, dict) else f"a {type(tree).__name__}"
        raise UserError(f"{path}: holds {what}, not a mapping with `name` and `factors`")
    return make(tree, str(path))
