"""The numbers of the results pages and of the README are those of the records, and so are the sentences about them."""

import re

import numpy as np
import page
import pandas as pd
import pytest
from page import REFERENCE, ROOT, compared, finished, results
from scipy import stats

from analysis import compare
from analysis.studies.pooled import independent_groups
from experiments.config import override, run_id
from experiments.presets import PRESETS, preset

PAGE, README = ((at / "README.md").read_text(encoding="utf-8") for at in (REFERENCE, ROOT))
ALL = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
SENTENCES, SAID = (" ".join(text.split()) for text in (PAGE, README))
SIX_SIZES = ("test/acc", *(f"test/acc@{side}px" for side in (24, 40, 48, 56, 64)))
INTERPOLATED = tuple(f"{metric}/interpolated" for metric in SIX_SIZES[1:])


def rows(kind, text=PAGE):
    """The cells of each row of the tables of a kind."""
    tables = [match for match in page.TABLE.finditer(text) if match[1] == kind]
    lines = [line for match in tables for line in match[4].splitlines()]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def verdicts_with(folder, other="none", metric=""):
    """Each other variant -> its verdict against `other`."""
    names = [name for name in results(folder, metric).study.variants if name != other]
    return {name: compared(folder, metric, name, other)[1] for name in names}


@pytest.mark.parametrize("path", page.PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_writing_a_page_from_the_records_changes_nothing(path):
    text = path.read_text(encoding="utf-8")
    assert page.written(text) == text


@pytest.mark.parametrize("question", [row[0] for row in rows("answers") if row[0]])
def test_an_answer_leads_to_its_section(question):
    anchor = re.search(r"\(#(.*)\)", question)[1]
    headings = re.findall(r"^## (.*)$", PAGE, re.M)
    assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_no_sentence_has_a_decimal_number_that_no_table_has():
    prose = "\n".join(line for line in PAGE.splitlines() if not line.startswith(("|", "!", "<", "vit-")))
    in_tables = set(re.findall(r"\d+\.\d+", "".join(line for line in PAGE.splitlines() if line.startswith("|"))))
    assert set(re.findall(r"(?<![\d./])\d+\.\d+", prose)) <= in_tables


def test_each_embedding_gains_six_points_and_two_differ_by_at_most_two_and_a_half():
    family = results("table-8-64").comparisons.family
    ends = {pair: 100 * np.abs([one.adjusted.low, one.adjusted.high]) for pair, one in family.items()}
    with_none = [pair for pair in family if "none, stem" in pair]
    assert (
        len(family) == 28
        and len(with_none) == 7
        and set(verdicts_with("table-8-64", "none, stem").values()) == {"better"}
    )
    assert min(ends[pair].min() for pair in with_none) >= 6
    assert max(ends[pair].max() for pair in family if pair not in with_none) <= 2.5
    for text in (SENTENCES, SAID):
        assert re.search(
            r"each of seven embeddings gains at least 6 points over none, and any two of them differ by at most 2\.5",
            text,
            re.I,
        )


def test_how_the_rates_of_table_8_were_chosen_and_where_its_best_cell_ran():
    tried, runs = finished("table-8-64-rates"), finished("table-8-64")
    assert set(tried["seed"]) == {100} and set(tried["epochs"]) == {5} and tried["optim.lr"].nunique() == 5
    best = runs.groupby("variant")["test/acc"].mean().idxmax()
    assert set(runs.loc[runs["variant"] == best, "optim.lr"]) == {tried["optim.lr"].max()}
    used = runs.loc[runs["variant"] == best, "hardware"]
    assert used.str.contains("cuda").sum() == 3 and used.str.contains(", then ").sum() == 3
    stem = tried[(tried["model.pos_embed"] == "learned-1d") & (tried["model.pos_site"] == "stem")]
    for folder in ("positions-64", "larger-64", "stem-x-kind-64", "lape-64"):
        assert set(finished(folder)["optim.lr"]) == {stem.loc[stem["val/acc"].idxmax(), "optim.lr"]}


def test_a_star_is_at_the_studies_that_were_looked_at_without_a_plan():
    def early(folder):
        found = results(folder)
        *earlier, last = found.conduct.looks
        return not found.policy.looks.plan and any(look.fewest < last.fewest for look in earlier)

    folders = {name for row in rows("differences") for name in re.findall("`(.*?)`", row[1])}
    assert {row[1] for row in rows("differences") if early(row[1].strip("`* "))} == {
        row[1] for row in rows("differences") if row[1].endswith("*")
    }
    named = re.findall("`(.*?)`", re.search(r"looked at without a plan: (.*?);", SENTENCES)[1])
    assert all(early(folder) for folder in named) and not folders - {*named} & {f for f in folders if early(f)}


def test_which_embeddings_are_not_shown_to_beat_none():
    assert [name for name, word in verdicts_with("positions-64").items() if word != "better"] == ["alibi-2d"]
    digits, shuffled = (list(verdicts_with(f"digits/{name}").values()) for name in ("positions", "controls"))
    assert (len(digits), digits.count("not shown"), digits.count("better")) == (17, 3, 14)
    assert (len(shuffled), shuffled.count("worse")) == (18, 4) and "better" not in shuffled


def test_sentences_on_pooled_effects():
    pooled = {row[0]: row for row in rows("pooled")}
    none = pooled["none − table"]
    gaps = _by_study(none)
    assert none[3].startswith("0 of") and len(gaps) == 5 and all(-9.1 < gap < -6.9 for gap in gaps)
    assert "In each of five CIFAR-10 studies, none is 7 to 9 points below the table (means)" in SENTENCES
    said = {"2-D relative (keys": "attention", "RoPE": "RoPE", "1-D table": "a 1-D table in every layer"}
    for start, name in said.items():
        (row,) = (row for row in pooled.values() if row[0].startswith(start))
        found = re.search(rf"{name} ([\d.]+)(?: points)? \((?:95 % CI )?([\d.]+) to ([\d.]+)[;)]", SAID).groups()
        shown = [float(end) for end in re.findall(r"[+−](\d[\d.]*)", row[4])]
        assert [*map(float, found)] == pytest.approx(shown, abs=0.051)
    assert row[3] == "19 of 20" and "gains 0.8 points" in SENTENCES
    assert "−4.5 on CIFAR-10, −2.2 on MNIST" in SENTENCES
    assert _by_study(pooled["1-D relative (the paper's) − table"]) == pytest.approx([-4.5, -2.2], abs=0.05)


def _by_study(row):
    """The mean difference of the pair of a pooled row in each of its studies, in points."""
    names = re.findall("`(.*?)`", row[2])
    effects = page.pool({name: results(name) for name in names}, row[1].strip("`")).effects
    return [100 * np.mean([*effect.by_seed.values()]) for effect in effects]


def test_sentences_on_site_head_dropout_depth_and_pooling():
    dropout, depth = (f"mnist-0.01/{name}" for name in ("dropout", "depth"))
    costs = [
        compared("pulfer-mnist/head", "", "softmax", "logits"),
        compared(dropout, "", "hidden=0.2, attention=0", "hidden=0, attention=0"),
    ]
    assert [one[1] for one in costs] == ["worse", "worse"]
    assert [one[0].partition(" ")[0] for one in costs] == ["−11.9", "−2.3"]
    none = "hidden=0, attention=0"
    assert compared(dropout, "", "hidden=0.1, attention=0", none)[1] == "not shown"
    assert set(verdicts_with(depth, "1").values()) == {"better"}
    assert {compared(depth, "", a, b)[1] for a, b in (("2", "4"), ("2", "6"), ("4", "6"))} == {"not shown"}
    assert compared("lape-64", "", "pos_site=stem, pool=gap", "pos_site=stem, pool=cls")[1] == "better"
    site = [
        compared("mnist-0.01/table-8", "", f"{kind}, every-layer", f"{kind}, stem")[1]
        for kind in ("learned-1d", "learned-2d")
    ]
    assert site == ["equivalent", "better"]


def test_one_change_at_a_time_has_its_own_rates_and_verdicts():
    found, runs = results("flags-cifar10"), finished("flags-cifar10")
    tuned, names = found.study.plan.tuning, found.variants.brief
    tried = {v: sorted(one.settings["optim.lr"] for one in tuned.trials if one.variant == v) for v in names}
    rates = tried[found.study.baseline]
    chosen = [one.settings["optim.lr"] for one in tuned.variants.values()]
    assert len(names) == 9 and len(rates) == 10 and all(one == rates for one in tried.values())
    assert 0.001 <= rates[0] < min(chosen) and max(chosen) < rates[-1] <= 0.016
    assert not any(tuned.space["optim.lr"].edge(rate) for rate in chosen)
    assert not {seed for one in tuned.trials for seed in one.accuracies} & set(runs["seed"])
    assert runs.groupby("variant")["seed"].apply(set).tolist() == 9 * [{0, 1, 2, 3, 4}]
    words = {names[v]: one.verdict for (v, _), one in found.comparisons.family.items()}
    assert words == {
        **dict.fromkeys(("2-D RoPE", "2-D table"), "better"),
        **dict.fromkeys(("no embedding", "Softmax before the loss", "dropout 0.1", "2 layers"), "worse"),
        **dict.fromkeys(("1-D sine", "6 layers"), "not shown"),
    }


def test_larger_images():
    table = {row[0]: row[1:] for row in rows("sizes")}
    assert all(cell.endswith("worse") for cell in table["positions as they are"])
    words = [cell.rpartition(", ")[2] for cell in table["interpolated"]]
    assert words == ["not shown", "better", "better", "not shown", "not shown"]
    (gained,) = rows("interpolated")
    cells = (table["positions as they are"][2], gained[3], table["interpolated"][1])
    assert [cell.split()[0] for cell in cells] == ["−9.4", "+11.9", "+1.9"]
    said = (
        "RoPE is 9.4 points below a learned table; interpolating gains 11.9, and the two are not told apart (at 40 px, "
        "RoPE is then 1.9 above)"
    )
    assert said in SAID


def test_what_larger_64_shows_at_the_level_of_its_planned_kinds():
    """28 pairs of eight kinds share the level in place of 6 of four: a p value is adjusted for them."""
    lost = []
    for metric in (*SIX_SIZES, *INTERPOLATED):
        family = results("larger-64", metric).comparisons.family
        one = family.get(("rope-2d", "learned-1d")) or family["learned-1d", "rope-2d"]
        assert len(family) == 6 and (one.p_adjusted <= 0.05) == (one.verdict in ("better", "worse"))
        if one.p_adjusted <= 0.05 < one.p_adjusted * 28 / 6:
            lost.append(metric)
    assert lost == ["test/acc", "test/acc@40px", "test/acc@48px/interpolated"]
    said = "not told apart at 32 px, at 40 px as they are (nor there in `larger-64-cpu`), and at 48 px interpolated"
    assert said in SENTENCES and compared("larger-64-cpu", "test/acc@40px", "rope-2d", "learned-1d")[1] == "not shown"


def test_larger_64_has_the_values_of_the_same_runs_in_other_studies():
    others = pd.concat([finished("positions-64"), finished("stem-x-kind-64").query("`model.stem` == 'patchify'")])
    both = finished("larger-64").merge(others.drop_duplicates(keys := ["model.pos_embed", "seed"]), on=keys)
    same = ["train/loss", "val/loss", "test/loss", "test/acc", "test/acc@24px", "test/acc@56px", "permuted/acc"]
    shared = [both[[f"{name}_x", f"{name}_y"]].dropna() for name in same]
    assert [len(values) for values in shared] == [20] * 4 + [15] * 3
    assert all((values.iloc[:, 0] == values.iloc[:, 1]).all() for values in shared)
    folders = ("larger-64", "larger-64-cpu", "positions-64", "lape-64", "stem-x-kind-64")
    assert len(independent_groups({folder: results(folder).study for folder in folders})) == 1


def test_what_another_device_and_version_change_in_larger_64():
    """The gaps between the means of both exports."""
    card, cpu = (finished(folder) for folder in ("larger-64", "larger-64-cpu"))
    assert set(cpu["run_id"]) == set(card["run_id"][card["variant"] != "sincos-2d"])
    gaps, reach = [], []
    for metric in (*SIX_SIZES, *INTERPOLATED):
        for kind in ("rope-2d", "learned-1d", "none") if metric in SIX_SIZES else ("rope-2d",):
            a, b = (100 * runs.loc[runs["variant"] == kind, metric] for runs in (card, cpu))
            gaps.append(abs(a.mean() - b.mean()))
            reach.append(np.abs(stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)).max())
    said = re.search(
        r"repeats, on .*?, (\d+) runs .*? Of (\d+) means .*? is ([\d.]+) points, .*? reach ([\d.]+) to ([\d.]+)",
        SENTENCES,
    )
    found = [len(cpu), len(gaps), max(gaps), min(reach), max(reach)]
    assert list(map(float, said.groups())) == pytest.approx(found, abs=0.051)
    assert f"by at most {said[3]} points; at one image size, {said[5]} cannot be ruled out" in SAID


def test_table_8_on_mnist_is_equivalent_in_both_precisions():
    found = {at: results(f"{at}/table-8") for at in ("mnist-small", "bfloat16")}
    frame = pd.concat([one.study.runs.assign(study=at) for at, one in found.items()])
    both = compare(frame, metric="test/acc", factor=["study", "variant"], margin=0.01, variance="paired")
    names = [[f"study={at}, variant={variant}" for at in found] for variant in found["bfloat16"].variants.names]
    pairs = {frozenset(pair): one.verdict for pair, one in both.findings.comparisons.pairs.items()}
    assert [pairs[frozenset(pair)] for pair in names] == 8 * ["equivalent"]
    settings = [one.study.runs.filter(regex=r"^[a-z]+\.").astype(str).apply(set) for one in found.values()]
    assert {path for path, values in settings[0].items() if values != settings[1][path]} == {"train.precision"}


def test_the_verdicts_at_two_rates():
    (*_, total) = rows("rates")
    pairs, shown, same, new = map(int, total[2:])
    assert same < shown < pairs and new > 0
    assert f"{same} of {shown} verdicts stay, none is reversed, and {new} are new" in SENTENCES


def test_counts_in_sentences():
    rival = finished("s-chh-cifar10").pivot(columns="seed", index="variant")["test/acc"]
    order = ["none", "sincos-2d", "learned-1d", "rope-2d", "relative-2d-kv"]
    assert rival.shape == (5, 3) and (rival.loc[order].diff().iloc[1:] > 0).all(axis=None)
    transfer = results("few-shot-transfer", "fewshot/other-classes/5").comparisons.pairs
    assert {one.verdict for one in transfer.values()} == {"not shown"}
    assert (
        "a loss of 4.6 points" in SENTENCES
        and "−4.6" in compared("few-shot-transfer", "fewshot/other-classes/5", "none", "learned-1d")[0]
    )
    lengths = [
        compared("mnist-small/table-8-lengths", f"test/acc@{n}", "relative, every-layer", "learned-1d, stem")
        for n in (10, 40)
    ]
    assert [one[1] for one in lengths] == ["worse", "not shown"]
    runs = pd.concat([pd.read_csv(file, low_memory=False) for file in REFERENCE.glob("**/runs.csv")])
    ends = [runs[name].agg(["min", "max"]).tolist() for name in ("model.embed_dim", "model.depth", "epochs")]
    assert ends == [[8, 64], [1, 6], [5, 100]] and "width 8 to 64, at most 6 layers" in SENTENCES


def test_sentences_on_generated_tasks():
    for folder, kind in {"probes/probe-direction": "alibi-2d", "probes/probe-distance": "frozen-random"}.items():
        assert [name for name, word in verdicts_with(folder).items() if word != "better"] == [kind]
    arrow = finished("probes/probe-arrow").groupby("variant")["test/acc"].min()
    absolute = ("sinusoidal", "sincos-2d", "learned-1d-gated", "fourier-learned", "adaptive-2d")
    assert set(finished("probes/probe-arrow")["test_images"]) == {960} and "at least 959 of 960" in ALL["probes.md"]
    assert all(arrow[kind] > 958.5 / 960 for kind in absolute)
    heard = finished("probes/frozen-random-heard").groupby("variant")["test/acc"].agg(["min", "count"])
    assert heard["min"].min() >= 0.98 and heard["count"].tolist() == [5, 5, 5]


@pytest.mark.parametrize("row", rows("means", ALL.get("systems.md", "")), ids=lambda row: row[0])
def test_a_published_accuracy_is_above_in_or_below_our_interval_and_agreement_is_not_shown(row):
    published, (mean, half) = float(row[1]), map(float, row[2].split(" ± "))
    place = "above" if published > mean + half else "below" if published < mean - half else "inside"
    assert row[3].startswith(f"{place} our interval") and abs(published - mean) + half > 1
    if "one more run" in row[3]:
        assert row[0] == "`tintn-cifar10`, learned-1d"
        assert abs(published - mean) < half * np.sqrt(len(finished("tintn-cifar10")) + 1)  # both have s t(n - 1)


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
