"""Write the numbers of the results pages and of the README from the records: `python tests/support/page.py`.

A comment before a table says what its rows are; the first cells of a row name what is compared, the others are written
here. `tests/test_findings.py` says that writing changes nothing. Means and intervals come from scipy, verdicts from
the report of the study.
"""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from analysis.findings import analyze
from analysis.findings.comparisons import compare_variants
from analysis.outputs.pooled import pool
from analysis.runs.read import read

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "analysis" / "reference"
PAGES = [ROOT / "README.md", *sorted(REFERENCE.glob("*.md"))]
STUDIES = sorted(path.parent.relative_to(REFERENCE).as_posix() for path in REFERENCE.rglob("study.json"))
TABLE = re.compile(r"(?<=<!-- )(\w+)(?:: (.*?))?( -->\n\|.*\n\|.*\n)((?:\|.*\n)+)")
AT_BOTH_RATES = [
    ("bfloat16/table-8", "mnist-0.01/table-8"),
    ("modern", "mnist-0.01/modern"),
    ("untried", "mnist-0.01/untried"),
    *((f"mnist-small/{s}", f"mnist-0.01/{s}") for s in ("depth", "dropout", "registers", "table-std", "stem-x-kind")),
]
INVERSE = {"better": "worse", "worse": "better"}
WORDS = {"not shown": "undecided"}  # as pages say it
KIND = "model.pos_embed"
TORCH, TIMM, XAVIER = (("init-cifar10", f"init={init}, pos_embed=") for init in ("torch", "timm", "xavier"))
KINDS = (
    [TORCH],
    [XAVIER],
    [TIMM, ("kinds-cifar10", "")],
    [("positions-64", ""), ("larger-64", "")],
    [("s-chh-cifar10", "")],
)
"""For each column, where a kind is looked for: the study, and what stands before a kind in the name of a variant."""
POOLED = {
    "none": ["positions-64", "kinds-cifar10", "s-chh-cifar10", "table-8-cifar10", "table-8-tuned"],
    "sincos-2d": ["larger-64", "kinds-cifar10", "s-chh-cifar10"],
    "learned-2d": ["table-8-cifar10", "table-8-tuned", "flags-cifar10"],
    "rope-2d": ["positions-64", "kinds-cifar10", "s-chh-cifar10"],
}


@cache
def study(folder):
    """A study in analysis/reference, read once."""
    return read(str(REFERENCE / folder))


@cache
def results(folder, metric=""):
    """Its findings, by its own metric or another one."""
    return analyze(read(str(REFERENCE / folder), metric=metric) if metric else study(folder))


@cache
def finished(folder):
    """The finished runs of a study, as its table has them."""
    runs = pd.read_csv(REFERENCE / folder / "runs.csv", dtype={"variant": str}, low_memory=False)
    return runs[runs["status"] == "finished"]


def points(values, places=None):
    """A value with its interval, in points; with two decimals where one of the three would round to 0.0."""
    places = (2 if any(abs(value) < 0.05 for value in values) else 1) if places is None else places
    value, low, high = (f"{value:+.{places}f}".replace("-", "−") for value in values)
    return f"{value} [{low}, {high}]"


def mean(folder, variant, metric, half=True):
    """The mean of a variant over its finished runs, in %, with half its 95 % interval."""
    values = 100 * finished(folder).query("variant == @variant")[metric].to_numpy()
    width = f" ± {stats.t.ppf(0.975, len(values) - 1) * stats.sem(values):.2f}" if half and len(values) > 1 else ""
    return f"{values.mean():.2f}{width}"


def compared(folder, metric, a, b, of=None):
    """A difference with its interval, the verdict and the number of seeds. `of`: at the level of so many pairs."""
    pairs = results(folder, metric).comparisons.family
    (one, sign) = (pairs[a, b], 1) if (a, b) in pairs else (pairs[b, a], -1)
    low, high = one.adjusted.low, one.adjusted.high
    verdict = one.verdict if sign > 0 else INVERSE.get(one.verdict, one.verdict)
    if of:  # the same standard error and degrees of freedom at the level of more pairs
        wider = stats.t.ppf(1 - 0.025 / of, one.noise.df) / stats.t.ppf(1 - 0.025 / len(pairs), one.noise.df)
        low, high = (one.diff.value + wider * (end - one.diff.value) for end in (low, high))
        verdict = verdict if low * high > 0 else "not shown"
    ends = sorted(sign * 100 * end for end in (low, high))
    return points([sign * 100 * one.diff.value, *ends]), WORDS.get(verdict, verdict), str(one.n)


def _pair(text, folder):
    """`a − b`; `base` is the baseline of the study, and `depth=6` its variant `6`, where it has no other factor."""
    study = results(folder).study
    names = (study.baseline if name == "base" else name for name in text.split(" − "))
    return [name if name in study.variants else name.partition("=")[2] for name in names]


def verdicts(_, row):
    """The cell before the last is "`study` (`metric`, N pairs): a − b"; the last is its interval and verdict."""
    if row[-2] == "–":
        return row
    folder, metric, of, pair = re.fullmatch(r"`(.*?)`(?: \(`(.*?)`(?:, (\d+) pairs)?\))?: (.*)", row[-2]).groups()
    text, verdict, _ = compared(folder, metric or "", *_pair(pair, folder), of=int(of or 0))
    return [*row[:-1], f"{text}, {verdict}"]


def kinds(_, row):
    """A kind against the learned table: one cell for each column of `KINDS`, then the pooled difference."""
    cells = []
    for column in KINDS:
        pairs = ((folder, f"{before}{row[0]}", f"{before}learned-1d") for folder, before in column)
        here = (pair for pair in pairs if pair[1] in results(pair[0]).study.variants)
        text, verdict, _ = compared(pair[0], "", *pair[1:]) if (pair := next(here, None)) else ("–", "", "")
        cells.append(text + " *" * (verdict == "undecided"))
    if names := POOLED.get(row[0]):
        site = ",model.pos_site=stem" * (row[0] == "learned-2d")
        over = pool({n: results(n) for n in names}, f"{KIND}={row[0]}{site} - {KIND}=learned-1d{site}").studies
        cells.append(points([100 * over.value, 100 * over.low, 100 * over.high]) + " *" * (over.low * over.high < 0))
    return [row[0], *cells, *["–"] * (6 - len(cells))]


def means(spec, row):
    folder, _, metrics = spec.rpartition(": ")
    if not folder:  # "`folder`, variant", what is published, our mean, a comparison
        name, _, variant = row[0].replace("`", "").partition(", ")
        return [*row[:2], mean(name, variant, metrics), *row[3:]]
    metrics = metrics.split(", ")
    return [*row[: -len(metrics)], *(mean(folder, row[0], metric) for metric in metrics)]


def sizes(spec, row):
    """A pair at several image sizes, at the level of so many pairs."""
    folder, pair, sides, of = spec.split(": ")
    end = "/interpolated" * (row[0] == "interpolated")
    cells = (
        compared(folder, f"test/acc@{side}px{end}", *_pair(pair, folder), of=int(of)) for side in sides.split(", ")
    )
    return [row[0], *(", ".join(cell[:2]) for cell in cells)]


def pooled(_, row):
    """pair, studies; then the seeds above 0, the mean over the seeds of these studies, the mean over studies."""
    names = re.findall("`(.*?)`", row[1])
    found = pool({name: results(name) for name in names}, row[0].strip("`"))
    means = [points([100 * one.value, 100 * one.low, 100 * one.high], places=2) for one in (found.seeds, found.studies)]
    return [*row[:2], f"{sum(effect.above for effect in found.effects)} of {found.seeds.n}", *means]


@cache
def at_both_rates(before, after):
    """Of the pairs that a study compares at both rates, on the seeds of both: how many, verdicts at its own rate, how
    many are the same at the other rate, how many are new there."""
    pairs = []
    both = [results(before), results(after)]
    seeds, variants = (set.intersection(*(set(axis) for axis in axes)) for axes in zip(*(_axes(one) for one in both)))
    for one in both:
        names, outcomes = [v for v in one.means.values if v in variants], one.outcomes
        parts = {name: getattr(outcomes, name).loc[sorted(seeds), names] for name in ("values", "ended", "failed")}
        outcomes = replace(outcomes, **parts, chance=outcomes.chance[names])
        policy = replace(one.policy, family=both[1].policy.family)
        family = compare_variants(outcomes, both[1].study.baseline, policy).family
        pairs.append({frozenset(pair): _sided(pair, compared) for pair, compared in family.items()})
    old, new = pairs
    shown = [pair for pair in old if old[pair][0] != "not shown"]
    assert not any({*filter(None, (old[pair][1], new[pair][1]))} == {*pair} for pair in shown), "a verdict is reversed"
    fresh = sum(new[pair][0] != "not shown" for pair in old if pair not in shown)
    return np.array([len(old), len(shown), sum(old[pair] == new[pair] for pair in shown), fresh])


def _axes(one):
    return one.means.values.index, one.means.values.columns


def _sided(pair, one):
    """The verdict, whatever the order of the pair, and the side that is better."""
    better = {"better": pair[0], "worse": pair[1]}.get(one.verdict)
    return "differ" if better else one.verdict, better


def tuned(folder, row):
    """A variant of a tuned study by its label: rate and mean, where the row has cells for them; the difference from the
    baseline and the verdict.
    """
    baseline, labels = results(folder).study.baseline, results(folder).variants.brief
    (variant,) = (name for name, label in labels.items() if label == row[0].partition(":")[0])
    shown = ("–", "–") if variant == baseline else compared(folder, "", variant, baseline)[:2]
    (rate,) = set(finished(folder).query("variant == @variant")["optim.lr"])
    return [row[0], *[f"{rate:.2g}", mean(folder, variant, "test/acc")][: len(row) - 3], *shown]


def bench(spec, row):
    """Ratios to timm in the faster of its precisions, within a turn: median and range."""
    (file,) = (f for f in REFERENCE.glob("bench-cpu*.json") if json.loads(f.read_text())["setting"]["preset"] == row[0])
    turns = {name: np.array(one["turns"]) for name, one in json.loads(file.read_text())["contenders"].items()}
    best = max(("timm", "timm-bf16"), key=lambda name: np.median(turns[name]))
    ratios = [turns[name] / turns[best] for name in spec.split(", ")]
    return [row[0], *(f"{np.median(r):.2f} ({r.min():.2f} to {r.max():.2f})" for r in ratios)]


def gpu(_, row):
    """Images per second of the bench on a GPU, and the medians of the ratios within a turn."""
    measured = json.loads((REFERENCE / "bench-gpu.json").read_text())["contenders"]
    turns = {name: np.array(one["turns"]) for name, one in measured.items()}
    name = row[0].strip("`")
    one, ratios = measured[name], [np.median(turns[name] / turns[o]) for o in ("tutorial", "timm-bf16-compiled")]
    speed = f"{round(np.median(turns[name]), -1):,.0f}"
    return [row[0], str(one["runs"]), one["precision"], speed, *(f"{ratio:.1f}" for ratio in ratios)]


def duration(_, row):
    """How long the runs of a study took together: from the first start to the last end."""
    runs = finished(row[0].strip("`"))
    (hardware,), took = (
        set(runs["hardware"]),
        pd.to_datetime(runs["finished"]).max() - pd.to_datetime(runs["started"]).min(),
    )
    return [row[0], str(len(runs)), hardware.partition(" (")[0], f"{took.total_seconds() / 60:.1f}"]


def written(text):
    """A page with the numbers of its tables written anew."""

    def table(match):
        kind, spec, head, rows = match.groups()
        cells = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in rows.splitlines())
        rows = (globals()[kind](spec or "", row) for row in cells)
        lines = ("|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in rows)
        return f"{kind}{f': {spec}' if spec else ''}{head}" + "\n".join(lines) + "\n"

    return TABLE.sub(table, text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
