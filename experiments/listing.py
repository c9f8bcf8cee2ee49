"""The tables of `vit-train presets`, `settings`, `variants` and `data`."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import get_args, get_origin

from rich.console import Console
from rich.table import Column, Table

from experiments.config import SETTINGS, RunConfig, Setting, flatten
from experiments.errors import UserError, line_width, printable, say, setting_text, writing
from experiments.presets import PRESETS, preset
from vit.registry import REGISTRY, did_you_mean

TEXTS = {"data.root": "folder", "data.split_seed": "integer >= 0, or per-seed"}  # what is allowed
LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}  # of JSON Schema
LARGE = 1e6  # a limit that is no news
SAMPLES = 8  # images of a class in a figure


def presets() -> int:
    """Print every preset: parameters, forward FLOPs per image, test accuracy (published, ours), description, source."""
    numbers = [Column(name, justify="right") for name in ("parameters", "fixed", "MFLOPs/image", "published")]
    *numbers_of, descriptions = zip(*preset_rows(), strict=True)
    _print(["preset", *numbers, "measured here"], zip(*numbers_of), "Fixed: values of embeddings that are not trained.")
    say("")
    _print(["preset", "description"], zip(numbers_of[0], descriptions), "Train one with: vit-train --preset NAME.")
    return 0


def preset_rows() -> Iterator[Sequence[str]]:
    """What is known of each preset: its name, numbers, accuracies, and what it is."""
    import torch

    from experiments.runs.provenance import model_cost
    from vit import ViT

    for name, entry in PRESETS.items():
        config = preset(name)
        with torch.device("meta"):  # without memory for the weights
            cost = model_cost(ViT(config.vit_config(config.data.num_classes)))
        counts = f"{cost['params']:,}", f"{cost['params_fixed']:,}", f"{cost['flops_per_image'] / 1e6:,.1f}"
        about = filter(None, [entry.about, entry.source and f"source: {entry.source}", entry.scored])
        published = "" if entry.claim is None else f"{entry.claim:.2%}"
        yield name, *counts, published, entry.measured, "; ".join(about)


def variants() -> int:
    """Print every registered positional embedding: its sites, the natural one first, and what it is."""
    rows = ((name, ", ".join(kind.sites), kind.about) for name, kind in REGISTRY.items())
    note = "Train one with: vit-train --model.pos-embed VARIANT --model.pos-site SITE. The default is the first site."
    _print(["variant", "sites", "description"], rows, note)
    return 0


def settings(config: RunConfig, word: str) -> int:
    """Print the settings with this word in their name or description: default, what is allowed, description."""
    matches = [s for s in SETTINGS.values() if word.lower() in f"{s.path} {s.description}".lower()]
    if not matches:
        hint = did_you_mean(word, list(SETTINGS), "`vit-train settings` lists all")
        raise UserError(f"WORD: {word!r} is in no name or description of a setting; {hint}")
    values = dict(flatten(config.model_dump()))
    rows = ((s.path, setting_text(values[s.path]), allowed(s), s.description) for s in matches)
    note = "Each is a flag, such as --optim.lr 0.01, a key of `base` in a study file, and can be a factor of a study."
    _print(["setting", "default", "allowed", "description"], rows, note)
    return 0


def allowed(setting: Setting) -> str:
    """The type and the allowed values of a setting in words."""
    if setting.choices or setting.path in TEXTS:
        return ", ".join(setting.choices) or TEXTS[setting.path]
    if get_origin(setting.annotation) is tuple:
        return f"list of {'integers' if int in get_args(setting.annotation) else 'names'}: A,B,..."
    section, _, name = setting.path.rpartition(".")
    owner = RunConfig.model_fields[section].annotation if section else RunConfig
    schema = owner.model_json_schema()["properties"][name]  # type: ignore[union-attr]
    parts = [part for part in schema.get("anyOf", [schema]) if part["type"] != "null"]
    limits = [f"{sign} {p[key]:g}" for p in parts for key, sign in LIMITS.items() if abs(p.get(key, LARGE)) < LARGE]
    kind = parts[0].get("const", parts[0]["type"])
    return " ".join(filter(None, [kind, " and ".join(limits), "or none" * setting.optional]))


def data(config: RunConfig, figure: str = "") -> int:
    """Print the images that a run of this configuration gets: their number by class and part, copies, sizes.

    `figure`: a PNG to write, with the first `SAMPLES` training images of each class in a row.
    """
    from experiments.data.images import count_copies
    from experiments.data.loading import load

    splits = load(config)
    parts = {name: getattr(splits, name) for name in ("train", "val", "test")}
    counts = zip(*(part.y.bincount(minlength=len(splits.classes)).tolist() for part in parts.values()), strict=True)
    rows = [*zip(splits.classes, counts, strict=True), ("all", map(len, parts.values()))]
    copied = "-", *(f"{count_copies(splits.train, parts[name]):,}" for name in ("val", "test"))
    table = [*((name, *(f"{count:,}" for count in of_parts)) for name, of_parts in rows), ("also in train", *copied)]
    channels, side = config.data.image_shape
    note = f"{len(splits.classes)} classes. Images for the model: {side} x {side} pixels, {channels} channel(s)."
    _print(["class", *(Column(name, justify="right") for name in parts)], table, note)
    if figure:
        from torch import cat
        from torch.nn.functional import pad
        from torchvision.utils import save_image

        by_class = (splits.train.x[splits.train.y == label][:SAMPLES] for label in range(len(splits.classes)))
        rows_of_images = [pad(of, (0, 0, 0, 0, 0, 0, 0, SAMPLES - len(of))) for of in by_class]
        with writing(Path(figure)), open(figure, "xb") as file:
            save_image(splits.scaled(cat(rows_of_images)), file, nrow=SAMPLES, format="png")
    return 0


def _print(columns: Sequence[Column | str], rows: Iterable[Sequence[str]], note: str) -> None:
    """Print a table as wide as the terminal, and a note below it."""
    table = Table(*columns, box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*map(printable, row))
    Console(highlight=False, markup=False, emoji=False, width=line_width()).print(table)
    say("", note, hang=0)
