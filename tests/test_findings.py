"""Every number of the results page, and of the findings in the README, is that of the records."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.answers.study_results import analyze
from analysis.results.policy import study_comparisons
from analysis.sources.read import read
from analysis.stats import differences
from vit.registry import REGISTRY

REFERENCE = Path(__file__).resolve().parents[1] / "analysis" / "reference"
PAGE = (REFERENCE / "README.md").read_text(encoding="utf-8")
README = (REFERENCE.parents[1] / "README.md").read_text(encoding="utf-8")
TABLES = re.findall(r"<!-- (\w+)(?:: (.*?))? -->\n((?:\|.*\n)+)", PAGE + README)
NUMBER = r"[+−-]?\d+(?:\.\d+)?"
FAMILIES = 30  # studies and metrics of the rows


def cells(kind):
    """What the comment before a table says, and the cells of a row, for each row of the tables of a kind."""
    rows = [(spec, line) for name, spec, table in TABLES if name == kind for line in table.splitlines()[2:]]
    return [(spec, [cell.strip() for cell in line.strip("|").split("|")]) for spec, line in rows]


def numbers(text):
    return [float(number.replace("−", "-")) for number in re.findall(NUMBER, text)]


def pair_of(row):
    a, b = row[0].rpartition(": ")[2].split(" − ")
    return a, b


@cache
def results(folder, metric):
    return analyze(read(str(REFERENCE / folder), metric=metric or None))


@pytest.mark.parametrize(("spec", "row"), cells("means"), ids=lambda part: part if isinstance(part, str) else part[0])
def test_a_mean_and_its_interval_follow_from_the_runs(spec, row):
    folder, _, metrics = spec.rpartition(": ")
    if folder:
        variant, shown = row[0], row[-len(metrics.split(", ")) :]
    else:
        (folder, _, variant), shown = row[0].replace("`", "").partition(", "), [row[2]]
    runs = pd.read_csv(REFERENCE / folder / "runs.csv", dtype={"variant": str})
    runs = runs[(runs["variant"] == variant) & (runs["status"] == "finished")]
    for metric, cell in zip(metrics.split(", "), shown, strict=True):
        values = 100 * runs[metric].to_numpy()
        half = [stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)] if len(values) > 1 else []
        assert numbers(cell) == pytest.approx([values.mean(), *half], abs=0.0051)


@cache
def otherwise(folder, metric, how):
    """All pairs of a study by paired t tests, by Welch's test, or adjusted for all families of the page."""
    found = results(folder, metric)
    policy = replace(found.policy, variance="paired") if how == "paired" else found.policy
    if how == "page":
        policy = replace(policy, families=policy.families * FAMILIES)
    with pytest.MonkeyPatch.context() as patch:
        if how == "Welch":
            patch.setattr(differences, "can_share", lambda *_: False)
            patch.setattr(differences, "FEWEST_SEEDS", 1000)
        return study_comparisons(found.variants, found.means.values, policy).pairs


def check(folder, metric, pair, shown):
    """A difference with its interval, the verdict, the number of seeds, and whether the paired t test agrees."""
    pairs = results(folder, metric).comparisons.pairs
    key, sign = (pair, 1) if pair in pairs else (pair[::-1], -1)
    compared = pairs[key]
    ends = sorted(sign * 100 * end for end in (compared.adjusted.low, compared.adjusted.high))
    assert numbers(shown[0]) == pytest.approx([sign * 100 * compared.diff.value, *ends], abs=0.051)
    inverse = {"better": "worse", "worse": "better"} if sign < 0 else {}
    verdict = inverse.get(compared.verdict, compared.verdict)
    same = otherwise(folder, metric, "paired")[key].verdict == compared.verdict
    assert shown[1:] == [verdict, str(compared.n), "–" if verdict == "not shown" else "yes" if same else "no"]


@pytest.mark.parametrize(("metric", "row"), cells("differences"), ids=lambda part: part and part[0])
def test_a_difference_and_its_verdict_are_those_of_the_report(metric, row):
    check(row[1].strip("`"), metric, pair_of(row), row[2:])


@pytest.mark.parametrize(
    ("folder", "row"), cells("versus"), ids=lambda part: part if isinstance(part, str) else part[0]
)
def test_a_row_of_the_first_table_has_the_mean_and_the_difference_from_the_baseline(folder, row):
    variant, _, few, mean, *difference = row
    means = results(folder, "").means.by_metric
    for metric, shown in (("fewshot/cifar10/5", few), ("test/acc", mean)):
        assert float(shown) == pytest.approx(100 * means[metric][variant].value, abs=0.0051)
    if "baseline" not in row:
        check(folder, "", (variant, "learned-1d, stem"), difference)


def test_the_page_says_how_many_verdicts_other_tests_would_not_give():
    rows = [(row[1].strip("`"), metric, pair_of(row), row[3]) for metric, row in cells("differences")]
    rows += [(at, "", (row[0], "learned-1d, stem"), row[5]) for at, row in cells("versus") if "baseline" not in row]
    decided = [row for row in rows if row[3] != "not shown"]
    counts = [len(decided)]
    for how in ("paired", "Welch", "page"):
        other = [otherwise(folder, metric, how) for folder, metric, *_ in decided]
        inverse = {"better": "worse", "worse": "better"}
        found = [
            pairs[pair].verdict if pair in pairs else inverse.get(word := pairs[pair[::-1]].verdict, word)
            for pairs, (_, _, pair, _) in zip(other, decided)
        ]
        counts.append(sum(word != verdict for word, (*_, verdict) in zip(found, decided)))
    pattern = r"Of the (\d+) verdicts .*? give (\d+), .*? give (\d+), .*?undoes (\d+)\."
    said = re.search(pattern, PAGE, re.DOTALL)
    assert list(map(int, said.groups())) == counts
    assert len({row[:2] for row in rows}) == FAMILIES and f"{FAMILIES} families of pairs" in PAGE


@pytest.mark.parametrize(("spec", "row"), cells("bench"), ids=lambda part: part if isinstance(part, str) else part[0])
def test_a_speed_is_the_median_ratio_within_a_turn(spec, row):
    (file,) = (f for f in REFERENCE.glob("bench-*.json") if json.loads(f.read_text())["setting"]["preset"] == row[0])
    turns = {name: np.array(one["turns"]) for name, one in json.loads(file.read_text())["contenders"].items()}
    best = max(("timm", "timm-bf16"), key=lambda name: np.median(turns[name]))
    ratios = [np.median(turns[name] / turns[best]) for name in spec.split(", ")]
    assert [float(cell) for cell in row[1:]] == pytest.approx(ratios, abs=0.0051)


def test_counts_in_sentences():
    versus = results("digits/controls", "").comparisons.versus
    verdicts = [compared.verdict for compared in versus.values()]
    assert (len(versus) - 1, verdicts.count("better"), verdicts.count("worse")) == (18, 0, 4)
    table_8 = ("table-8-64", "table-8-cifar10", "table-8-tuned", "mnist-small/table-8", "mnist-small/table-8-lengths")
    for folder in (*table_8, "kinds-cifar10", "digits/position"):  # "every embedding beats none"
        none = "none, stem" if folder in table_8 else "none"
        pairs = results(folder, "").comparisons.with_variant(none)
        assert {compared.verdict for compared in pairs.values()} <= {"better", "worse"} and len(pairs) >= 3
        none = results(folder, "").means.of(none).value
        assert all(mean.value >= none for mean in results(folder, "").means.by_metric["test/acc"].values())
    runs = pd.read_csv(REFERENCE / "table-8-64" / "runs.csv").query("status == 'finished'")
    wide = runs.pivot(index="seed", columns="variant", values="test/acc")  # "by more than 5 points"
    assert wide.shape == (5, 8) and wide.drop(columns="none, stem").sub(wide["none, stem"], axis=0).min().min() > 0.05
    gain = 100 * (wide["learned-2d, every-layer"] - wide["learned-1d, stem"])  # on CPUs, and on the rest
    assert [gain[:2].mean(), gain[2:].mean()] == pytest.approx([1.5, 1.4], abs=0.051)
    few = results("table-8-64", "fewshot/cifar10/5").comparisons.pairs
    assert {c.verdict for pair, c in few.items() if "none, stem" not in pair} == {"not shown"}
    few = results("table-8-tuned", "fewshot/cifar10/5").comparisons.pairs
    differ = [pair for pair, c in few.items() if c.verdict != "not shown" and "none, stem" not in pair]
    other = ("learned-1d, every-layer", "learned-1d, every-layer-shared")
    assert sorted(differ) == sorted((one, "relative, every-layer") for one in other)
    schh = [compared.verdict for compared in results("s-chh-cifar10", "").comparisons.pairs.values()]
    assert len(schh) == 10 and schh.count("not shown") == 5
    arrow = results("probes/probe-arrow", "").means
    absolute = ("sinusoidal", "sincos-2d", "learned-1d-gated", "fourier-learned", "adaptive-2d")
    assert all(arrow.of(kind).value >= 0.999 and REGISTRY[kind].encodes == "absolute" for kind in absolute)
    rival = pd.read_csv(REFERENCE / "s-chh-cifar10" / "runs.csv").pivot(columns="seed", index="variant")["test/acc"]
    order = ["none", "sincos-2d", "learned-1d", "rope-2d", "relative-2d-kv"]  # "in the order of s-chh"
    assert rival.shape == (5, 3) and (rival.loc[order].diff().iloc[1:] > 0).all(axis=None)
    on_one = runs[~runs["hardware"].str.contains(", then ")]
    rates = on_one.groupby(on_one["hardware"].str.contains("cuda"))["images_per_second"].agg(["min", "max"])
    assert rates.loc[True].round(-3).tolist() == [38_000, 39_000] and "38,000 to 39,000" in PAGE
    assert rates.loc[False].round(-1).tolist() == [290, 770] and "290 to 770" in PAGE
    on_h100 = pd.read_csv(REFERENCE / "stem-x-kind-64" / "runs.csv")[["images_per_second", "device_seconds"]]
    assert on_h100["images_per_second"].agg(["min", "max"]).round(-3).tolist() == [54_000, 66_000]
    assert "54,000 to 66,000" in PAGE and "17 to 21 s" in PAGE
    assert on_h100["device_seconds"].agg(["min", "max"]).round().tolist() == [17, 21]
    ledger = (REFERENCE / "ledger" / "report.md").read_text(encoding="utf-8")
    counted = re.findall(r"(\d+) statements of (\d+) \w+, .*?on\s(\d+) studies", ledger + README)
    assert len(counted) == 2 and len(set(counted)) == 1


def test_no_sentence_has_a_decimal_number_that_no_table_has():
    prose = "\n".join(line for line in PAGE.splitlines() if not line.startswith(("|", "!", "<")))
    prose = re.sub(r'"[^"]*"', "", prose)  # quotes of papers
    in_tables = set(re.findall(r"\d+\.\d+", "".join(table for _, _, table in TABLES)))
    assert set(re.findall(r"(?<![\d./])\d+\.\d+", prose)) <= in_tables
