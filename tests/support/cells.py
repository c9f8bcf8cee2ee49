"""The gate of a change that must not change a number: `python tests/support/cells.py` prints what differs.

cells.csv holds the estimate, both ends, p, n and verdict of every pair, effect and pool of the exports in
analysis/reference. It was written once, before the first cut; `--write FILE` writes what the code gives now.
"""

import csv
import math
import sys
from pathlib import Path

import analysis
from analysis.findings import analyze
from analysis.outputs.pooled import pool
from analysis.runs.read import read

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "analysis" / "reference"
CELLS = Path(__file__).with_name("cells.csv")
FIELDS = ("study", "what", "a", "b", "estimate", "low", "high", "p", "n", "verdict")
CLOSE = 1e-6  # relative
TABLE, SINE = "model.pos_embed=learned-1d", "model.pos_embed=sincos-2d"
POOLS = {
    f"model.pos_embed=none - {TABLE}": "positions-64 kinds-cifar10 s-chh-cifar10 table-8-cifar10 table-8-tuned",
    f"model.pos_embed=rope-2d - {TABLE}": "positions-64 kinds-cifar10 s-chh-cifar10",
    f"model.pos_embed=relative-2d-kv - {TABLE}": "kinds-cifar10 s-chh-cifar10",
    f"{SINE} - {TABLE}": "larger-64 kinds-cifar10 s-chh-cifar10",
    f"model.pos_embed=relative - {TABLE},model.pos_site=stem": "table-8-cifar10 mnist-0.01/table-8",
    f"model.pos_embed=learned-2d,model.pos_site=stem - {TABLE},model.pos_site=stem": (
        "table-8-cifar10 table-8-tuned flags-cifar10"
    ),
    f"{TABLE},model.pos_site=every-layer,model.pool=cls - {TABLE},model.pos_site=stem,model.pool=cls": (
        "table-8-64 table-8-cifar10 table-8-tuned lape-64"
    ),
}
"""A pair of settings -> the studies over which the results page pools it."""


def of_study(name, found):
    """The rows of a study on one dataset: its pairs, then the effects of its factors."""
    for (a, b), one in found.findings.comparisons.family.items():
        ends = (one.diff.value, one.adjusted.low, one.adjusted.high)
        yield (name, "pair", a, b, *ends, one.p_adjusted, one.n, one.verdict)
    if model := found.findings.factors.model:
        for effect in (*model.contrasts, *model.interactions):
            place, ends = (
                f"{effect.term}: {effect.level}",
                (effect.alone.value, effect.adjusted.low, effect.adjusted.high),
            )
            at = effect.adjusted
            yield (name, "effect", place, effect.reference, *ends, effect.p_adjusted, at.n, effect.verdict)


def rows():
    """Every row, in the order of the studies."""
    for path in sorted(REFERENCE.rglob("study.json")):
        name = path.parent.relative_to(REFERENCE).as_posix()
        found = analysis.read(path.parent)
        parts = getattr(found, "studies", {"": found})
        for dataset, part in parts.items():
            yield from of_study(f"{name}: {dataset}" if len(parts) > 1 else name, part)
    for pair, studies in POOLS.items():
        pooled = pool({study: analyze(read(str(REFERENCE / study))) for study in studies.split()}, pair)
        for what, one in (("pool over seeds", pooled.seeds), ("pool over studies", pooled.studies)):
            yield (studies, what, pair, "", one.value, one.low, one.high, math.nan, one.n, "")


def text(value):
    return repr(float(value)) if isinstance(value, float) else str(value)


def alike(before, now):
    try:
        a, b = float(before), float(now)
    except ValueError:
        return before == now
    return (a != a and b != b) or math.isclose(a, b, rel_tol=CLOSE, abs_tol=1e-12)


def main():
    made = [dict(zip(FIELDS, map(text, row))) for row in rows()]
    if "--write" in sys.argv:
        with Path(sys.argv[-1]).open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(made)
        return
    with CELLS.open(newline="") as file:
        kept = {tuple(row[name] for name in FIELDS[:4]): row for row in csv.DictReader(file)}
    now = {tuple(row[name] for name in FIELDS[:4]): row for row in made}
    lines = [f"gone: {key}" for key in kept if key not in now] + [f"new: {key}" for key in now if key not in kept]
    for key in kept.keys() & now.keys():
        lines += [
            f"{key}: {name} was {kept[key][name]}, is {now[key][name]}"
            for name in FIELDS[4:]
            if not alike(kept[key][name], now[key][name])
        ]
    print(*sorted(lines), f"{len(kept)} rows, {len(lines)} differences", sep="\n")
    raise SystemExit(bool(lines))


if __name__ == "__main__":
    main()
