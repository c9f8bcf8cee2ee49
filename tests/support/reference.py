"""Write the tables of experiments/REFERENCE.md and its picture from the code: `python tests/support/reference.py`.

A comment, <!-- NAME -->, begins what a function of `PARTS` writes, and <!-- end --> ends it. The rest of the page is
written by hand. `tests/test_reference.py` says that writing changes nothing. This is no command of a package, because
no package imports all others.
"""

import csv
import io
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import analysis.main
import experiments.main
import sweeps.main
from analysis.findings import analyze
from analysis.options import FLAGS, flag_of
from analysis.outputs.as_json import as_dict
from analysis.report import study_document
from analysis.runs.read import read
from analysis.write.files import make
from analysis.write.table import names_of
from experiments import listing
from experiments.cli import run_command
from experiments.config import SETTINGS, RunConfig, flatten
from experiments.errors import setting_text
from experiments.metric import TABLE, Metric
from experiments.runs import record
from sweeps.plan import FILES, load_study, make_plan
from vit import ViTConfig
from vit.diagnostics import first_position, position_logits, position_similarity
from vit.pos_embed import build
from vit.registry import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
PAGE, PICTURE = ROOT / "experiments" / "REFERENCE.md", ROOT / "experiments" / "kinds.svg"
PART = re.compile(r"(?<=<!-- )(?!end )([a-z]+)( -->\n).*?(?=<!-- end -->)", re.S)
PACKAGES = ("vit", "experiments", "sweeps", "analysis")
SIDE, PER_ROW = 9, 6  # patches along a side of the picture of a kind; kinds in a row
STUDIES = ("mnist-small/table-8", "table-8-64", "mnist-0.01/stem-x-kind", "lape-64")  # their reports have most tables


def table(head, rows):
    """A table in Markdown."""
    cells = [head, ["---"] * len(head), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in cells)


def code(words):
    return f"`{words}`" if words else ""


def settings():
    """A table for each section of the settings."""
    parts, defaults = [], dict(flatten(RunConfig().model_dump()))
    sections = dict.fromkeys(path.partition(".")[0] for path in SETTINGS)
    for section in sections:
        rows = [
            (code(path), code(setting_text(defaults[path])), listing.allowed(one), one.description)
            for path, one in SETTINGS.items()
            if path.partition(".")[0] == section
        ]
        parts.append(f"### {section}\n\n" + table(["setting", "default", "allowed", "what it is"], rows))
    return "\n\n".join(parts)


def kinds():
    rows = [
        (code(name), ", ".join(map(code, kind.sites)), kind.resized or "", own(kind), kind.about)
        for name, kind in REGISTRY.data.items()
        if not kind.is_plugin
    ]
    return table(["kind", "sites, the natural one first", "at another image size", "own settings", "what it is"], rows)


def own(kind):
    return ", ".join(f"`{field}` {value:g}" for field, value in kind.defaults.items())


def presets():
    return table(
        ["preset", "parameters", "fixed", "MFLOPs/image", "published", "measured here", "what it is"],
        [(code(name), *cells) for name, *cells in listing.preset_rows()],
    )


def studies():
    rows = []
    for study in map(load_study, FILES):
        variants, metric = len(make_plan(study).variants), Metric(study.metric)
        margin = metric.size(study.margin)
        rows.append((code(study.name), variants, len(study.seeds), code(study.metric), margin, study.description))
    return table(["study", "variants", "seeds", "metric", "margin", "question"], rows)


def metrics():
    rows = []
    for entry in TABLE:
        name = re.sub(r"\(\?P<(\w+)>[^)]*\)", lambda group: group[1].upper(), entry.name)
        label = re.sub(r"\{(\w+)\}", lambda group: group[1].upper(), entry.label)
        better = entry.better or "only watched"
        rows.append((code(name), label, entry.split, "fraction" if entry.unit else "", better, entry.needs))
    return table(["metric", "what it is", "images", "unit", "better", "needs"], rows)


def files():
    lines = [re.split("  +", line, maxsplit=1) for line in record.__doc__.splitlines() if line.startswith("STUDY/")]
    return table(["file", "what it holds"], [(code(name), about) for name, about in lines])


def columns():
    """The tables of some reports, with what the page calls their columns."""
    found = {}
    for name in STUDIES:
        document = study_document(analyze(read(str(ROOT / "analysis" / "reference" / name))))
        made = {file: body for file, body in make(document).items() if file.endswith(".csv")}
        shown = {f"tables/{one.name}.csv": one for one in document.tables}
        for file, body in made.items():
            one = shown.get(file)
            known = {c.field: f"{c.label}: {c.note}" if c.note else c.label for c in one.columns} if one else {}
            labels = {name: known[field] for field, name in names_of({key: [""] for key in known if key}).items()}
            heads = next(csv.reader(io.StringIO(body.decode())))
            found.setdefault(file, {}).update({head: labels.get(head, "") for head in heads if general(head)})
    return table(
        ["file", "columns"],
        [(code(file), ", ".join(code(head) for head in heads)) for file, heads in sorted(found.items())],
    )


def general(head):
    """Whether a column is not named after a factor, a metric or a level of one study."""
    return not re.match(r"(model|data|optim|train|eval)\.|fewshot|shift/|.*@", head)


def flags():
    rows = [(code(flag_of(name)), " ".join(field.description.split())) for name, (field, _) in FLAGS.items()]
    return table(["flag of `vit-report`", "what it does"], rows)


def example():
    """The JSON of a study, with one of its variants and comparisons."""
    tree = as_dict(analyze(read(str(ROOT / "analysis" / "reference" / STUDIES[0]))))
    tree |= {name: tree[name][1:2] for name in ("variants", "comparisons")} | {"warnings": tree["warnings"][:1]}
    return f"```json\n{json.dumps(rounded(tree), indent=1)}\n```"


def rounded(value):
    """Numbers of at most six digits: others have other last digits on another processor."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return list(map(rounded, value)) if isinstance(value, list) else value


def statuses():
    mains = {"vit-train": experiments.main.main, "vit-sweep": sweeps.main.main, "vit-report": analysis.main.main}
    rows = [(code(name), (main.__doc__ or "").partition("status: ")[2]) for name, main in mains.items()]
    every = " ".join(run_command.__doc__.split("\n\n")[1].split("`resumes`")[0].split())
    return f"{table(['command', 'exit status'], rows)}\n\nEvery command: {every[0].lower()}{every[1:]}"


PARTS = {
    function.__name__: function
    for function in (settings, kinds, presets, studies, metrics, files, columns, flags, example, statuses)
}


def written(text):
    """The page with its tables as the code has them."""
    return PART.sub(lambda part: f"{part[1]}{part[2]}{PARTS[part[1]]()}\n", text)


def variables():
    """The environment variables that the code reads."""
    sources = (path.read_text() for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    return {*re.findall(r"\b(?:VIT|WANDB|RAY|XDG)_[A-Z_]+\b", "\n".join(sources))}


def picture():
    """For each kind, untrained: how alike the centre patch and each patch are, or what attention adds between them."""
    torch.manual_seed(0)
    names = [name for name, kind in REGISTRY.data.items() if not kind.is_plugin]
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "kinds", "font.size": 7}):
        figure, axes = plt.subplots(-(-len(names) // PER_ROW), PER_ROW, figsize=(7, 5.2), layout="constrained")
        for axis in axes.flat:
            axis.set_axis_off()
        for axis, name in zip(axes.flat, names):
            shape = {"embed_dim": 96, "num_heads": 4, "depth": 1, "num_classes": 2}
            cfg = ViTConfig(img_size=SIDE, patch_size=1, pos_embed=name, **shape)
            pos = first_position(build(cfg))
            similarity = position_similarity(pos, cfg)
            logits = None if similarity is not None else position_logits(pos, cfg)
            tile = similarity if similarity is not None else None if logits is None else logits[0]
            axis.set_title(name, fontsize=7)
            if tile is None:
                said = "nothing" if name == "none" else "depends on\nthe image"
                axis.text(0.5, 0.5, said, ha="center", va="center", transform=axis.transAxes)
            else:
                values = tile[SIDE // 2, SIDE // 2].detach().numpy()
                axis.imshow(values, cmap="viridis" if logits is None else "cividis")
        figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    picture()
