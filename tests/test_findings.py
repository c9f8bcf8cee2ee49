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

from analysis import compare
from analysis.claims.literature import PAPER_TABLE_8
from analysis.findings import analyze
from analysis.runs.read import read
from analysis.studies.ledger import independent_groups
from analysis.verdicts.study import compare_variants
from experiments.config import override, run_id
from experiments.presets import PRESETS, preset

REFERENCE = Path(__file__).resolve().parents[1] / "analysis" / "reference"
PAGE = (REFERENCE / "README.md").read_text(encoding="utf-8")
README = (REFERENCE.parents[1] / "README.md").read_text(encoding="utf-8")
SENTENCES = " ".join(PAGE.split())
TABLES = re.findall(r"<!-- (\w+)(?:: (.*?))? -->\n((?:\|.*\n)+)", PAGE + README)
NUMBER = r"[+−-]?\d+(?:\.\d+)?"
NAMED = {  # rows of differences name these variants with their factor
    **{f"depth={n}": str(n) for n in (2, 6)},
    **{f"registers={n}": str(n) for n in (0, 4)},
    **{f"loss on {head}": head for head in ("softmax", "logits")},
}


def cells(kind):
    """What the comment before a table says, and the cells of a row, for each row of the tables of a kind."""
    rows = [(spec, line) for name, spec, table in TABLES if name == kind for line in table.splitlines()[2:]]
    return [(spec, [cell.strip() for cell in line.strip("|").split("|")]) for spec, line in rows]


def numbers(text):
    return [float(number.replace("−", "-")) for number in re.findall(NUMBER, text)]


def folder_of(row):
    return row[1].removesuffix(" *").strip("`")


def pair_of(row):
    a, b = row[0].rpartition(": ")[2].split(" − ")
    return NAMED.get(a, a), results(folder_of(row), "").study.baseline if b == "base" else NAMED.get(b, b)


@cache
def results(folder, metric):
    return analyze(read(str(REFERENCE / folder), metric=metric or None))


def finished(folder):
    return pd.read_csv(REFERENCE / folder / "runs.csv", dtype={"variant": str}).query("status == 'finished'")


@cache
def all_rows():
    """Study, metric, pair and verdict of each row of a difference, with the metric's own name."""
    rows = [(folder_of(row), metric, pair_of(row), row[3]) for metric, row in cells("differences")]
    rows += [(folder, metric, pair, cell.rpartition(", ")[2]) for folder, metric, pair, cell in by_size()]
    last = {("mnist-small/table-8-lengths", "test/acc"): "test/acc@40"}  # the same values
    named = [(folder, metric or str(results(folder, "").study.metric), *rest) for folder, metric, *rest in rows]
    return [(folder, last.get((folder, metric), metric), *rest) for folder, metric, *rest in named]


def by_size():
    """Study, metric, pair and text of each cell of the tables of a difference by image size."""
    for spec, (name, *row) in cells("sizes"):
        folder, pair, sizes = spec.split(": ")
        for side, cell in zip(sizes.split(", "), row, strict=True):
            metric = f"test/acc@{side}px" + "/interpolated" * (name == "interpolated")
            yield folder, metric, tuple(pair.split(" − ")), cell


@cache
def families():
    """How many studies and metrics the rows are about."""
    return len({row[:2] for row in all_rows()})


def points(values):
    """A value with its interval, in points; with two decimals where one of the three would round to 0.0."""
    places = 2 if any(abs(value) < 0.05 for value in values) else 1
    value, low, high = (f"{value:+.{places}f}".replace("-", "−") for value in values)
    return f"{value} [{low}, {high}]"


@pytest.mark.parametrize(("spec", "row"), cells("means"), ids=lambda part: part if isinstance(part, str) else part[0])
def test_a_mean_and_its_interval_follow_from_the_runs(spec, row):
    folder, _, metrics = spec.rpartition(": ")
    if folder:
        variant, shown = row[0], row[-len(metrics.split(", ")) :]
    else:
        (folder, _, variant), shown = row[0].replace("`", "").partition(", "), [row[2]]
    for metric, cell in zip(metrics.split(", "), shown, strict=True):
        assert numbers(cell) == pytest.approx(mean_and_half_width(folder, variant, metric), abs=0.0051)


def mean_and_half_width(folder, variant, metric):
    values = 100 * finished(folder).query("variant == @variant")[metric].to_numpy()
    half = [stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)] if len(values) > 1 else []
    return [values.mean(), *half]


@cache
def otherwise(folder, metric, how):
    """All pairs of a study by paired t tests, or adjusted for all families of the page."""
    found = results(folder, metric)
    policy = replace(found.policy, variance="paired") if how == "paired" else found.policy
    if how == "page":
        policy = replace(policy, strictness=families())
    return compare_variants(found.means.values, found.study.baseline, policy).family


def expected(folder, metric, pair):
    """A difference with its interval, the verdict, the number of seeds, and whether the paired t test agrees."""
    pairs = results(folder, metric).comparisons.family
    key, sign = (pair, 1) if pair in pairs else (pair[::-1], -1)
    compared = pairs[key]
    ends = sorted(sign * 100 * end for end in (compared.adjusted.low, compared.adjusted.high))
    inverse = {"better": "worse", "worse": "better"} if sign < 0 else {}
    verdict = inverse.get(compared.verdict, compared.verdict)
    same = otherwise(folder, metric, "paired")[key].verdict == compared.verdict
    agrees = "–" if verdict == "not shown" else "yes" if same else "no"
    return [points([sign * 100 * compared.diff.value, *ends]), verdict, str(compared.n), agrees]


@pytest.mark.parametrize(("metric", "row"), cells("differences"), ids=lambda part: part and part[0])
def test_a_difference_and_its_verdict_are_those_of_the_report(metric, row):
    assert row[2:] == expected(folder_of(row), metric, pair_of(row))


@pytest.mark.parametrize(("folder", "metric", "pair", "cell"), [*by_size()], ids=str)
def test_a_difference_at_an_image_size_and_its_verdict_are_those_of_the_report(folder, metric, pair, cell):
    assert cell == ", ".join(expected(folder, metric, pair)[:2])


@pytest.mark.parametrize("folder", sorted({folder_of(row) for _, row in cells("differences")}))
def test_a_star_is_at_the_studies_that_were_looked_at_without_a_plan(folder):
    found = results(folder, "")
    *earlier, last = found.conduct.looks
    early = not found.policy.looks.plan and any(look.fewest < last.fewest for look in earlier)
    assert {row[1].endswith(" *") for _, row in cells("differences") if folder_of(row) == folder} == {early}
    assert early == (f"`{folder}`" in re.search(r"looked at without a plan.*?: (.*?);", SENTENCES)[1])


@pytest.mark.parametrize(("spec", "row"), cells("interpolated"), ids=lambda part: part[0])
def test_a_gain_of_interpolated_positions_is_that_of_the_same_weights(spec, row):
    folder, _, sizes = spec.partition(": ")
    runs = finished(folder).query("variant == @row[0]")
    for side, cell in zip(sizes.split(", "), row[1:], strict=True):
        gains = 100 * (runs[f"test/acc@{side}px/interpolated"] - runs[f"test/acc@{side}px"])
        assert cell == points([gains.mean(), *stats.ttest_1samp(gains, 0).confidence_interval(0.95)])


@pytest.mark.parametrize("row", [row for _, row in cells("gains")], ids=lambda row: row[0])
def test_a_difference_of_gains_has_a_paired_interval_for_all_effects_of_its_study(row):
    folder, values = folder_of(row), finished(folder_of(row)).pivot(index="seed", columns="variant", values="test/acc")
    a, b, c, d = (values[name] for name in re.fullmatch(r"\((.*) − (.*)\) − \((.*) − (.*)\)", row[0]).groups())
    gains = 100 * ((a - b) - (c - d))
    terms = results(folder, "").factors.model.terms
    share = 2 * len(terms) * terms["contrasts"].iloc[-1]  # pairs and factors; terms; the differences of one
    half = stats.t.ppf(1 - 0.025 / share, len(gains) - 1) * stats.sem(gains)
    assert row[2:] == [points([gains.mean(), gains.mean() - half, gains.mean() + half]), str(len(gains))]
    assert (terms["verdict"].iloc[-1] == "shown") == (abs(gains.mean()) > half)


@pytest.mark.parametrize("row", [row for _, row in cells("answers")], ids=lambda row: row[2])
def test_an_answer_names_its_section_the_devices_and_the_seeds_of_its_studies(row):
    question, answer, studies, devices, seeds = row
    runs = [finished(folder) for folder in re.findall("`(.*?)`", studies)]
    on_gpu = {"cuda" in used for one in runs for used in one["hardware"].str.split(", then ").explode()}
    assert devices == " and ".join(name for name, gpu in (("CPU", False), ("GPU", True)) if gpu in on_gpu)
    counts = sorted({one["seed"].nunique() for one in runs})
    assert seeds == " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    shown = [(folder_of(one), one[2]) for kind in ("differences", "gains") for _, one in cells(kind)]
    shown += [(folder, cell.rpartition(", ")[0]) for folder, _, _, cell in by_size()]
    in_tables = {interval for folder, interval in shown if f"`{folder}`" in studies}
    assert set(re.findall(r"[+−][\d.]+ \[.*?\]", answer)) <= in_tables
    if question:
        heading, anchor = re.fullmatch(r"\[(.*)\]\(#(.*)\)", question).groups()
        assert f"\n## {heading}\n" in PAGE and anchor == re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def first_table():
    """Folder, kind, site and text of each cell of the README's table."""
    sites = ("stem", "every-layer", "every-layer-shared")
    return [(at, row[0], site, cell) for at, row in cells("grid") for site, cell in zip(sites, row[1:]) if cell]


@pytest.mark.parametrize(("folder", "kind", "site", "cell"), first_table(), ids=str)
def test_a_cell_of_the_first_table_has_the_papers_figure_our_mean_and_the_verdict(folder, kind, site, cell):
    variant = f"{kind}, {'every-layer' if kind == 'relative' else site}"
    mean = mean_and_half_width(folder, variant, "test/acc")[0]
    assert numbers(cell)[-2:] == pytest.approx([100 * PAPER_TABLE_8[kind, site], mean], abs=0.0051)
    verdicts = {"learned-1d, stem": "baseline", **verdicts_with_none(folder, none="learned-1d, stem")}
    assert (cell.partition(", ")[2] or "not shown") == verdicts[variant]


def test_the_page_says_how_many_verdicts_other_tests_would_not_give():
    decided = [row for row in all_rows() if row[3] != "not shown"]
    counts = [len(decided)]
    inverse = {"better": "worse", "worse": "better"}
    lost = {}
    for how in ("paired", "page"):
        lost[how] = []
        for folder, metric, pair, verdict in decided:
            pairs = otherwise(folder, metric, how)
            word = pairs[pair].verdict if pair in pairs else inverse.get(word := pairs[pair[::-1]].verdict, word)
            lost[how] += [] if word == verdict else [(folder, pair)]
        counts.append(len(lost[how]))
    pattern = (
        r"(\d+) rows and cells have a verdict .*? does not give (\d+) of the \d+\. "
        r".*?all (\d+) families of pairs .*? undoes (\d+)\."
    )
    said = re.search(pattern, SENTENCES)
    assert list(map(int, said.groups())) == [*counts[:-1], families(), counts[-1]]


@pytest.mark.parametrize(("spec", "row"), cells("bench"), ids=lambda part: part if isinstance(part, str) else part[0])
def test_a_speed_is_the_median_ratio_within_a_turn(spec, row):
    (file,) = (f for f in REFERENCE.glob("bench-cpu*.json") if json.loads(f.read_text())["setting"]["preset"] == row[0])
    turns = {name: np.array(one["turns"]) for name, one in json.loads(file.read_text())["contenders"].items()}
    best = max(("timm", "timm-bf16"), key=lambda name: np.median(turns[name]))
    for name, cell in zip(spec.split(", "), row[1:], strict=True):
        ratios = turns[name] / turns[best]
        assert numbers(cell) == pytest.approx([np.median(ratios), ratios.min(), ratios.max()], abs=0.0051)
        assert len(ratios) == 5 and "in turns (5 times" in SENTENCES
    faster = {name: np.median(turns[f"{name}-bf16"]) > np.median(turns[name]) for name in ("ours", "timm")}
    assert faster == {"ours": True, "timm": False}


def test_speeds_on_a_gpu_are_those_of_the_bench():
    bench = json.loads((REFERENCE / "bench-gpu.json").read_text())
    measured = {name: one for name, one in bench["contenders"].items() if one["turns"]}
    rate = {name: np.array(one["turns"]) for name, one in measured.items()}
    assert bench["setting"]["hardware"]["name"] == "NVIDIA H200" and len(cells("gpu")) == len(measured)
    for _, (program, runs, precision, speed, *ratios) in cells("gpu"):
        one, turns = measured[program.strip("`")], rate[program.strip("`")]
        assert (one["runs"], one["precision"]) == (int(runs), precision)
        assert float(speed.replace(",", "")) == pytest.approx(np.median(turns), abs=5.1)
        for ratio, other in zip(ratios, ("tutorial", "timm-bf16-compiled"), strict=True):
            assert float(ratio) == pytest.approx(np.median(turns / rate[other]), abs=0.051)
    said = re.search(
        r"one run of `tintn-cifar10` is (\d+) times as fast .*? (\d+) times .*?; 16 seeds .*? (\d+) and (\d+) times",
        " ".join(README.split()),
    )
    wanted = [
        rate[name] / rate[other]
        for name in ("ours-bf16", "ours-bf16-stacked")
        for other in ("tutorial", "timm-bf16-compiled")
    ]
    assert list(map(int, said.groups())) == [round(np.median(ratio)) for ratio in wanted]


def verdicts_with_none(folder, metric="", none="none"):
    """Each other variant -> its verdict against the model without an embedding."""
    pairs = results(folder, metric).comparisons.pairs
    inverse = {"better": "worse", "worse": "better"}
    return {
        (set(pair) - {none}).pop(): c.verdict if pair[1] == none else inverse.get(c.verdict, c.verdict)
        for pair, c in pairs.items()
        if none in pair
    }


def test_which_embeddings_beat_none():
    table_8 = ("table-8-64", "table-8-cifar10", "table-8-tuned", "mnist-small/table-8", "mnist-small/table-8-lengths")
    for folder, count in {
        **dict.fromkeys(table_8, 7),
        "kinds-cifar10": 4,
        "digits/position": 3,
        "s-chh-cifar10": 4,
    }.items():
        found = verdicts_with_none(folder, none="none, stem" if count == 7 else "none")
        assert [*found.values()] == ["better"] * count
    for folder in ("stem-x-kind-64", "mnist-small/stem-x-kind"):
        for stem in ("patchify", "conv"):
            found = verdicts_with_none(folder, none=f"stem={stem}, pos_embed=none")
            assert {found[f"stem={stem}, pos_embed={kind}"] for kind in ("learned-1d", "sincos-2d")} == {"better"}
    digits, mnist = (list(verdicts_with_none(f"{data}/positions").values()) for data in ("digits", "mnist-small"))
    assert (digits.count("not shown"), digits.count("better")) == (3, 14)
    assert (mnist.count("not shown"), mnist.count("better")) == (5, 11)
    assert "3 of 17 embeddings in `digits/positions` and 5 of 17 in `mnist-small/positions`" in SENTENCES
    assert verdicts_with_none("mnist-small/positions")["cape"] == "worse"
    shuffled = list(verdicts_with_none("digits/controls").values())
    assert (len(shuffled), shuffled.count("better"), shuffled.count("worse")) == (18, 0, 4)
    few = verdicts_with_none("mnist-small/table-8-sizes", none="pos_embed=none, pos_site=stem, train_limit=1000")
    assert {word for name, word in few.items() if name.endswith("train_limit=1000")} == {"not shown"}
    for metric in ("", "test/acc@24px", "test/acc@56px", "test/acc@64px"):
        found = verdicts_with_none("positions-64", metric)
        assert found["alibi-2d"] == "not shown"
        if not metric:
            assert [name for name, word in found.items() if word != "better"] == ["alibi-2d"]
        else:
            pairs = results("positions-64", metric).comparisons.pairs
            rope = ("rope-2d", "rope-2d-learned-1d", "rope-mixed")
            assert {pairs[kind, "learned-1d"].verdict for kind in rope} == {"worse"}
    assert {found[kind] for kind in rope} == {"worse"}  # at 64 px
    transfer = [results("few-shot-transfer", f"fewshot/{data}/5").comparisons for data in ("other-classes", "mnist")]
    assert {c.verdict for comparisons in transfer for c in comparisons.pairs.values()} == {"not shown"}


def test_in_which_studies_a_table_in_every_layer_beats_the_same_kind_at_the_stem():
    for folder, count in {
        "mnist-small/table-8": 4,
        "mnist-small/table-8-lengths": 0,
        "table-8-cifar10": 1,
        "table-8-64": 1,
        "table-8-tuned": 0,
    }.items():
        found = {kind: verdicts_with_none(folder, none=f"{kind}, stem") for kind in ("learned-1d", "learned-2d")}
        gains = [found[kind][f"{kind}, every-layer{end}"] for kind in found for end in ("", "-shared")]
        assert (gains.count("better"), gains.count("not shown")) == (count, 4 - count)


def test_sentences_about_table_8():
    runs = finished("table-8-64")
    torch = runs.assign(torch=runs["versions"].str.extract(r"\btorch ([\d.]+)")).pivot(
        index="seed", columns="variant", values="torch"
    )
    same = torch.eq(torch["relative, every-layer"], axis=0)
    assert [*same.index[same.all(axis=1)]] == [0, 1, 4] and same.loc[[2, 3]].sum(axis=1).eq(1).all()
    assert "on seeds 0, 1 and 4 only" in SENTENCES
    few = results("table-8-64", "fewshot/cifar10/5").comparisons.pairs
    assert {c.verdict for pair, c in few.items() if "none, stem" not in pair} == {"not shown"}
    none = results("table-8-64", "").comparisons.pairs["none, stem", "learned-1d, stem"]
    said = re.search(r"([\d.]+) points of test accuracy worse\s.*?interval ([\d.]+) to ([\d.]+)\)", README, re.DOTALL)
    ends = (none.diff.value, none.adjusted.high, none.adjusted.low)
    assert list(map(float, said.groups())) == pytest.approx([-100 * end for end in ends], abs=0.051)
    assert len(first_table()) == 8
    rates = runs.groupby("optim.lr")["variant"].unique()
    assert rates.map(len).to_dict() == {0.002: 3, 0.004: 4, 0.008: 1} and rates[0.008] == ["learned-2d, every-layer"]
    tried = finished("table-8-64-rates")
    assert set(tried["seed"]) == {100} and set(tried["val_images"]) == {5000} and set(tried["epochs"]) == {5}
    best = tried.loc[tried.groupby(tried["variant"].str.partition(", ")[2])["val/acc"].idxmax(), "optim.lr"]
    assert sorted(best) == [0.002] * 3 + [0.004] * 4 + [0.008] and tried["optim.lr"].max() == 0.008
    few = results("table-8-tuned", "fewshot/cifar10/5").comparisons.pairs
    differ = [pair for pair, c in few.items() if c.verdict != "not shown" and "none, stem" not in pair]
    other = ("learned-1d, every-layer", "learned-1d, every-layer-shared")
    assert sorted(differ) == sorted((one, "relative, every-layer") for one in other)
    tuned = results("table-8-tuned", "").comparisons.pairs
    six = {pair: c.verdict for pair, c in tuned.items() if not {"none, stem", "relative, every-layer"} & set(pair)}
    shown = {pair: verdict for pair, verdict in six.items() if verdict != "not shown"}
    lower = ("learned-1d, every-layer-shared", "learned-2d, every-layer", "learned-2d, every-layer-shared")
    assert len(six) == 15 and shown == {("learned-1d, every-layer", name): "better" for name in lower}
    settings = finished("table-8-tuned").groupby(["optim.lr", "optim.weight_decay"])["variant"].unique()
    assert sorted(map(len, settings)) == [2, 2, 4]
    equal = [
        c.verdict for pair, c in tuned.items() if "none, stem" not in pair and any({*pair} <= {*g} for g in settings)
    ]
    assert sorted(equal) == ["better", *4 * ["not shown"]]


def test_the_sizes_of_the_models_and_the_epochs():
    runs = pd.concat([pd.read_csv(file, low_memory=False) for file in REFERENCE.glob("**/runs.csv")])
    ends = [runs[name].agg(["min", "max"]).tolist() for name in ("model.embed_dim", "model.depth", "epochs")]
    assert ends == [[8, 64], [1, 6], [5, 100]] and "width 8 to 64, at most 6 layers" in SENTENCES


def test_counts_in_sentences():
    schh = [compared.verdict for compared in results("s-chh-cifar10", "").comparisons.pairs.values()]
    assert len(schh) == 10 and schh.count("not shown") == 2
    rival = finished("s-chh-cifar10").pivot(columns="seed", index="variant")["test/acc"]
    order = ["none", "sincos-2d", "learned-1d", "rope-2d", "relative-2d-kv"]  # "the same order as in s-chh"
    assert rival.shape == (5, 3) and (rival.loc[order].diff().iloc[1:] > 0).all(axis=None)
    detectable = [
        c.detectable for c in results("table-std-64", "").comparisons.pairs.values() if c.verdict == "not shown"
    ]
    assert [min(detectable), max(detectable)] == pytest.approx([0.016, 0.026], abs=0.0005)
    arrow = finished("probes/probe-arrow").groupby("variant")["test/acc"].min()
    absolute = ("sinusoidal", "sincos-2d", "learned-1d-gated", "fourier-learned", "adaptive-2d")
    assert set(finished("probes/probe-arrow")["test_images"]) == {960} and "at least 959 of 960" in SENTENCES
    assert all(arrow[kind] > 958.5 / 960 for kind in absolute)
    heard = finished("probes/frozen-random-heard").groupby("variant")["test/acc"].agg(["min", "count"])
    assert heard["min"].min() >= 0.98 and heard["count"].tolist() == [5, 5, 5]


@pytest.mark.parametrize("row", [row for spec, row in cells("means") if ":" not in spec], ids=lambda row: row[0])
def test_a_published_accuracy_is_above_in_or_below_our_interval_and_agreement_is_not_shown(row):
    (published,), (mean, half) = numbers(row[1]), numbers(row[2])
    place = "above" if published > mean + half else "below" if published < mean - half else "inside"
    assert row[3].startswith(f"{place} our interval") and abs(published - mean) + half > 1
    assert "Agreement within 1 point is shown for none of the four" in SENTENCES


def test_the_readme_states_the_finding_in_the_words_of_the_page():
    finding = re.search(r"Every embedding beats none\. .*? is shown\.", " ".join(README.split()))
    assert finding[0] in SENTENCES


def test_the_readme_counts_the_statements_of_the_ledger():
    ledger = (REFERENCE / "ledger" / "report.md").read_text(encoding="utf-8")
    rest = r"statements of (\d+) sources, on (\d+) studies: (\d+) can be tested in a study here, and (\d+) hold"
    (counted,) = re.findall(rf"(\d+) {rest}", ledger)
    assert re.findall(rf"(\d+) published {rest}", " ".join(README.split())) == [counted]


def test_which_studies_have_the_best_of_five_rates_for_a_table_at_the_stem():
    tried, folders = finished("table-8-64-rates"), ("positions-64", "larger-64", "stem-x-kind-64", "lape-64")
    stem = tried[(tried["model.pos_embed"] == "learned-1d") & (tried["model.pos_site"] == "stem")]
    named = f"In `{'`, `'.join(folders[:-1])}` and `{folders[-1]}` it is the best of five for `learned-1d, stem`"
    assert len(stem) == 5 and named in SENTENCES
    for folder in folders:
        assert set(finished(folder)["optim.lr"]) == {stem.loc[stem["val/acc"].idxmax(), "optim.lr"]}


SIX_SIZES = ("test/acc", *(f"test/acc@{side}px" for side in (24, 40, 48, 56, 64)))
INTERPOLATED = tuple(f"{metric}/interpolated" for metric in SIX_SIZES[1:])


def test_larger_64_has_the_values_of_the_same_runs_in_other_studies():
    others = pd.concat([finished("positions-64"), finished("stem-x-kind-64").query("`model.stem` == 'patchify'")])
    both = finished("larger-64").merge(others.drop_duplicates(keys := ["model.pos_embed", "seed"]), on=keys)
    same = ["train/loss", "val/loss", "test/loss", "test/acc", "test/acc@24px", "test/acc@56px", "permuted/acc"]
    shared = [both[[f"{name}_x", f"{name}_y"]].dropna() for name in same]
    assert [len(values) for values in shared] == [20] * 4 + [15] * 3
    assert all((values.iloc[:, 0] == values.iloc[:, 1]).all() for values in shared)
    assert "Its 20 runs have exactly the losses and accuracies of those in" in SENTENCES
    folders = ("larger-64", "larger-64-cpu", "positions-64", "lape-64", "stem-x-kind-64")
    assert len(independent_groups({folder: results(folder, "").study for folder in folders})) == 1
    assert results("positions-64", "").comparisons.pairs["rope-2d", "learned-1d"].verdict == "not shown"
    found = results("larger-64", "")
    all_eight = replace(found.policy, strictness=28 / 6)  # pairs of eight kinds, and of four
    compared = compare_variants(found.means.values, "learned-1d", all_eight).pairs["rope-2d", "learned-1d"]
    assert (
        compared.verdict == "not shown" and "not shown at the level of eight kinds, nor in `positions-64`" in SENTENCES
    )


def test_what_another_device_and_version_change_in_larger_64():
    """The gaps between the means of both exports, and between the verdicts of their reports."""
    card, cpu = (finished(folder) for folder in ("larger-64", "larger-64-cpu"))
    assert set(cpu["run_id"]) == set(card["run_id"][card["variant"] != "sincos-2d"])
    gaps, reach, words = [], [], []
    for metric in (*SIX_SIZES, *INTERPOLATED):
        kinds = ("rope-2d", "learned-1d", "none") if metric in SIX_SIZES else ("rope-2d",)  # others: the same values
        for kind in kinds:
            a, b = (100 * runs.loc[runs["variant"] == kind, metric] for runs in (card, cpu))
            gaps.append(abs(a.mean() - b.mean()))
            reach.append(np.abs(stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)).max())
        pairs = [("rope-2d", "learned-1d"), ("rope-2d", "none"), ("learned-1d", "none")][: 3 if len(kinds) > 1 else 2]
        words += [[expected(at, metric, pair)[1] for at in ("larger-64", "larger-64-cpu")] for pair in pairs]
    assert not any({"better", "worse"} == set(both) for both in words) and "none is reversed" in SENTENCES
    said = re.search(
        r"Of (\d+) means .*? is ([\d.]+) points; .*? reach ([\d.]+) to ([\d.]+) points.*? Of (\d+) verdicts "
        r".*?, (\d+) are equal",
        SENTENCES,
    )
    equal = sum(a == b for a, b in words)
    found = [len(gaps), max(gaps), min(reach), max(reach), len(words), equal]
    assert list(map(float, said.groups())) == pytest.approx(found, abs=0.051)


def test_table_8_on_mnist_is_equivalent_in_both_precisions():
    found = {at: results(f"{at}/table-8", "") for at in ("mnist-small", "bfloat16")}
    frame = pd.concat([one.study.runs.assign(study=at) for at, one in found.items()])
    both = compare(frame, metric="test/acc", factor=["study", "variant"], margin=0.01, variance="paired")
    names = [[f"study={at}, variant={variant}" for at in found] for variant in found["bfloat16"].variants.names]
    pairs = {frozenset(pair): one.verdict for pair, one in both.findings.comparisons.pairs.items()}
    assert [pairs[frozenset(pair)] for pair in names] == 8 * ["equivalent"] and len(pairs) == 120
    assert "each of the 8 variants is equivalent in both precisions, within 1 point" in SENTENCES
    settings = [one.study.runs.filter(regex=r"^[a-z]+\.").astype(str).apply(set) for one in found.values()]
    differ = {path for path, values in settings[0].items() if values != settings[1][path]}
    assert differ == {"train.precision"} and "only `train.precision` differs" in SENTENCES
    cpus = found["mnist-small"].study.runs["hardware"].value_counts(normalize=True)
    (other,) = set(cpus.index) - set(found["bfloat16"].study.runs["hardware"])
    assert cpus[other] == 0.5 and "half of the runs in float32 come from another CPU" in SENTENCES


def test_which_embeddings_do_not_tell_directions_or_distances():
    for folder, kind in {"probes/probe-direction": "alibi-2d", "probes/probe-distance": "frozen-random"}.items():
        assert [name for name, word in verdicts_with_none(folder).items() if word != "better"] == [kind]


def test_no_sentence_has_a_decimal_number_that_no_table_has():
    prose = "\n".join(line for line in PAGE.splitlines() if not line.startswith(("|", "!", "<")))
    prose = re.sub(r'"[^"]*"', "", prose)  # quotes of papers
    in_tables = set(re.findall(r"\d+\.\d+", "".join(table for kind, _, table in TABLES if kind != "answers")))
    assert set(re.findall(r"(?<![\d./])\d+\.\d+", prose)) <= in_tables


def test_what_presets_measured_is_in_the_records():
    """Of every preset that has runs with its settings here, and of no other."""
    runs = pd.concat([pd.read_csv(file, low_memory=False) for file in REFERENCE.glob("**/runs.csv")])
    found = {}
    for name in PRESETS:
        ids = [run_id(override(preset(name), {"seed": seed})) for seed in range(10)]
        mine = runs[runs["run_id"].isin(ids) & (runs["status"] == "finished")].drop_duplicates("run_id")
        if len(mine):
            found[name] = f"{100 * mine['test/acc'].mean():.2f} % ({len(mine)} runs, CPU)"
    assert found == {name: entry.measured for name, entry in PRESETS.items() if entry.measured}
