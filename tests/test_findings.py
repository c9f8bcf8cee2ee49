"""The numbers of the results pages and of the README are those of the records, and so are the sentences about them."""

import re

import numpy as np
import page
import pandas as pd
import pytest
from page import REFERENCE, ROOT, compared, finished, results
from scipy import stats

from analysis import compare
from analysis.outputs.pooled import independent_groups
from experiments.config import override, run_id
from experiments.presets import PRESETS, preset

PAGE, README = ((at / "README.md").read_text(encoding="utf-8") for at in (REFERENCE, ROOT))
ALL = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
SENTENCES, SAID = (" ".join(text.split()) for text in (PAGE, README))
SIX_SIZES = ("test/acc", *(f"test/acc@{side}px" for side in (24, 40, 48, 56, 64)))
INTERPOLATED = tuple(f"{metric}/interpolated" for metric in SIX_SIZES[1:])


def rows(kind, text=PAGE, spec=None):
    """The cells of each row of the tables of a kind, or of the one of this specification."""
    tables = [match for match in page.TABLE.finditer(text) if match[1] == kind and spec in (None, match[2])]
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


@pytest.mark.parametrize("question", [row[0] for row in rows("verdicts", spec="answers")])
def test_an_answer_leads_to_its_section(question):
    anchor = re.search(r"\(#(.*)\)", question)[1]
    headings = re.findall(r"^## (.*)$", PAGE, re.M)
    assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_no_sentence_has_a_decimal_number_that_no_table_has():
    """But for rates, and what the tests below recompute."""
    prose = "\n".join(line for line in PAGE.splitlines() if not line.startswith(("|", "!", "<", "vit-")))
    in_tables = set(re.findall(r"\d+\.\d+", "".join(line for line in PAGE.splitlines() if line.startswith("|"))))
    numbers = set(re.findall(r"(?<![\d./])\d+\.\d+", re.sub(r"`.*?`|MLP|Table \d|0\.0\d+|arxiv\S+", "", prose)))
    recomputed = "0.14 0.7 2.5 4.3 4.7 6.8 8.7 11.0 11.9 12.8"
    assert numbers <= in_tables | {*recomputed.split()}


def test_the_results_page_and_the_readme_have_a_length():
    assert len(PAGE.split()) <= 2400 and len(README.split()) <= 620


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
    said = "each of seven embeddings gains at least 6 points over none, and any two of them differ by at most 2.5"
    assert said in SENTENCES
    shots = results("table-8-64", "fewshot/cifar10/5").comparisons.family
    gains = [100 * abs(shots[pair].diff.value) for pair in with_none]
    assert f"the gains are {min(gains):.1f} to {max(gains):.1f}; other pairs are undecided" in SENTENCES
    assert {pair for pair, one in shots.items() if one.verdict != "not shown"} == {*with_none}
    others = [
        compared("table-8-64", "", name, "learned-1d, stem")[:2] for _, name in with_none if name != "learned-1d, stem"
    ]
    assert [word for _, word in others].count("better") == 2 and len(others) == 6
    assert "No embedding: −7.2; two of six others are better, at larger rates" in SAID


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


def test_the_studies_of_the_page_that_were_looked_at_without_a_plan_are_named():
    def early(folder):
        found = results(folder)
        *earlier, last = found.conduct.looks
        return not found.policy.looks.plan and any(look.fewest < last.fewest for look in earlier)

    named = re.findall("`(.*?)`", re.search(r"without a plan, so below 95 %: (.*?)\. - ", SENTENCES)[1])
    on_page = {name for name in re.findall("`(.*?)`", PAGE) if name in page.STUDIES} | {"mnist-small/positions"}
    assert {*named} == {folder for folder in on_page | {"bfloat16/positions"} if early(folder)}


def test_sentences_on_embeddings():
    table = {row[0]: row[1:] for row in rows("kinds")}
    assert [*table] == ["none", "sinusoidal", "sincos-2d", "learned-2d", "rope-2d", "relative-2d-kv"]
    assert not table["sinusoidal"][0].endswith("*")
    assert table["sinusoidal"][2].endswith("*") and table["rope-2d"][0].endswith("*")
    values = {
        init: finished("init-cifar10").query("`model.init` == @init").groupby("model.pos_embed")["test/acc"].mean()
        for init in ("torch", "xavier")
    }
    from_table = {init: 100 * (of - of["learned-1d"]) for init, of in values.items()}
    assert (from_table["xavier"] - from_table["torch"]).abs().max() < 0.3
    assert interaction("torch", "xavier", "timm") == pytest.approx(0.004, abs=5e-4)
    assert interaction("torch", "xavier") == pytest.approx(0.9, abs=0.05)
    assert interaction("torch", "xavier", "timm", without="learned-1d") == pytest.approx(0.14, abs=0.005)
    model = results("init-cifar10").factors.model
    assert model.verdicts["model.init+model.pos_embed"] == "not shown"
    for other, verdict in (("learned-1d", "better"), ("rope-2d", "undecided")):
        both = [compared(folder, "", "relative-2d-kv", other)[1] for folder in ("kinds-cifar10", "s-chh-cifar10")]
        assert both == [verdict, verdict]
    devices = (
        finished("s-chh-cifar10").groupby("variant")["hardware"].agg(lambda texts: texts.str.contains("cuda").all())
    )
    assert devices["learned-1d"] and not devices["relative-2d-kv"]
    assert (
        compared("mnist-0.01/modern", "", "pos_embed=rope-2d", results("mnist-0.01/modern").study.baseline)[1]
        == "undecided"
    )
    gains = [
        compared(folder, "", "relative, every-layer", "none, stem") for folder in ("table-8-cifar10", "table-8-tuned")
    ]
    assert [text.split()[0] + word for text, word, _ in gains] == ["+2.5better", "+4.3better"]
    assert "`relative` gains only 2.5 and 4.3 over none" in SENTENCES
    assert compared("positions-64", "", "alibi-2d", "none")[1] == "undecided"


def interaction(*inits, without=""):
    """The p value of the interaction of kind and weights by the F test of a two-way analysis of variance."""
    runs = finished("init-cifar10").query("`model.init` in @inits and `model.pos_embed` != @without")
    values, axes = runs["test/acc"], ("model.init", "model.pos_embed")
    cell = values.groupby([runs[axis] for axis in axes]).transform("mean")
    of_init, of_kind = (values.groupby(runs[axis]).transform("mean") for axis in axes)
    kinds = runs["model.pos_embed"].nunique()
    left, freedom = ((values - cell) ** 2).sum(), ((kinds - 1) * (len(inits) - 1), 4 * kinds * len(inits))
    ratio = ((cell - of_init - of_kind + values.mean()) ** 2).sum() / freedom[0] / (left / freedom[1])
    return stats.f.sf(ratio, *freedom)


def test_of_ten_pairs_of_kinds_how_many_have_one_verdict_with_all_initial_weights():
    kinds = ("none", "sinusoidal", "learned-1d", "learned-2d", "rope-2d")
    pairs = [(a, b) for i, a in enumerate(kinds) for b in kinds[i + 1 :]]
    words = [
        [
            compared("init-cifar10", "", f"init={init}, pos_embed={a}", f"init={init}, pos_embed={b}")[1]
            for a, b in pairs
        ]
        for init in ("torch", "xavier", "timm")
    ]
    verdicts = dict(zip(pairs, zip(*words)))
    assert all(of == ("worse",) * 3 for (a, _), of in verdicts.items() if a == "none")
    others = {pair: of for pair, of in verdicts.items() if pair[0] != "none"}
    assert [*others.values()].count(("undecided",) * 3) == 4
    differ = [pair[0] for pair, of in others.items() if of == ("worse", "undecided", "undecided")]
    assert differ == 2 * ["sinusoidal"] and "eight have one verdict with all three (four worse, four und" in SENTENCES
    gains = [
        compared("init-cifar10", "", f"init={init}, pos_embed={kind}", f"init=timm, pos_embed={kind}")
        for init in ("torch", "xavier")
        for kind in kinds
    ]
    assert {gain[1] for gain in gains} == {"better"} and "xavier's are better than timm's" in SENTENCES


def test_sentences_on_rates_scale_and_site():
    runs = finished("kinds-cifar10")
    assert set(runs["optim.lr"]) == {0.003}
    sizes = finished("flags-init-cifar10").groupby("model.depth")["params"].min()
    assert f"({1 - sizes[2] / sizes[4]:.0%} fewer".replace("%", " %") in SENTENCES
    site = [
        compared("mnist-0.01/table-8", "", f"{kind}, every-layer", f"{kind}, stem")[1]
        for kind in ("learned-1d", "learned-2d")
    ]
    assert site == ["equivalent", "better"]
    small = [
        compared(folder, "", "learned-2d, every-layer", "learned-2d, stem")
        for folder in ("table-8-cifar10", "table-8-tuned")
    ]
    assert [word for _, word, _ in small] == 2 * ["undecided"]


def test_one_change_at_a_time_has_its_own_rates_and_verdicts():
    found, runs = results("flags-init-cifar10"), finished("flags-init-cifar10")
    tuned, names = found.study.plan.tuning, found.variants.brief
    tried = {
        names[v]: {one.settings["optim.lr"]: one.val_acc for one in tuned.trials if one.variant == v} for v in names
    }
    chosen = {names[v]: one.settings["optim.lr"] for v, one in tuned.variants.items()}
    more = {name: {*rates} - {0.0015, 0.003, 0.006, 0.012} for name, rates in tried.items()}
    assert {name: rates for name, rates in more.items() if rates} == {
        "Softmax before the loss": {0.000375, 0.00075},
        "2 layers": {0.024},
    }
    assert all(min(rates) < chosen[name] < max(rates) for name, rates in tried.items()) and len(tried) == 9
    second = {name: sorted(rates.values())[-2] for name, rates in tried.items()}
    assert all(100 * (rates[chosen[name]] - second[name]) < 0.505 for name, rates in tried.items())
    assert "runners-up are within 0.5 points" in SENTENCES and tried["2 layers"][0.003] == tried["2 layers"][0.012]
    assert {seed for one in tuned.trials for seed in one.accuracies} == {100} and 100 not in set(runs["seed"])
    assert runs.groupby("variant")["seed"].apply(set).tolist() == 9 * [{0, 1, 2, 3, 4}]
    shared = runs[runs["run_id"].isin(finished("init-cifar10")["run_id"])]
    assert [*shared["variant"].map(names).unique()] == ["base", "no embedding", "1-D sine", "2-D table"]
    assert len(shared) == 20
    assert all(tried[name][rate] > tried["base"][rate] for name in ("6 layers", "2-D RoPE") for rate in tried["base"])
    params = runs.groupby("variant")["params"].first().rename(names)
    assert f"({params['6 layers'] / params['base'] - 1:.0%} more" in SENTENCES.replace(" %", "%")
    spread = 100 * np.sqrt(runs.groupby("variant")["val/acc"].var().mean())
    assert f"standard deviation of {spread:.1f} points" in SENTENCES


def test_dropout_after_100_epochs():
    assert compared("dropout-100", "", "dropout=0.1", "dropout=0")[1:] == ("undecided", "3")
    assert set(finished("dropout-100")["epochs"]) == {100} and set(finished("dropout-100")["optim.lr"]) == {0.003}
    assert "in 100 it is undecided (three seeds)" in SENTENCES


def test_how_many_verdicts_of_one_change_hold_against_the_old_rates():
    """Those of `flags-cifar10`: timm's initial weights, and the best of ten random rates."""
    old, new = (
        {found.variants.brief[variant]: one.verdict for (variant, _), one in found.comparisons.family.items()}
        for found in map(results, ("flags-cifar10", "flags-init-cifar10"))
    )
    same = [name for name, verdict in new.items() if old[name] == verdict]
    assert same == ["no embedding", "Softmax before the loss", "dropout 0.1", "2 layers"] and len(old) == len(new) == 8
    assert "Four of eight verdicts are those of `flags-cifar10`" in SENTENCES


def test_larger_images():
    table = {row[0]: [cell.rpartition(", ")[2] for cell in row[1:]] for row in rows("sizes")}
    assert table["positions as they are"] == ["worse", "undecided", "worse", "worse", "worse"]
    assert table["interpolated"] == ["undecided", "better", "undecided", "undecided", "undecided"]
    runs = finished("larger-64").query("variant == 'rope-2d'")
    gained = 100 * (runs["test/acc@48px/interpolated"] - runs["test/acc@48px"])
    low, high = stats.ttest_1samp(gained, 0).confidence_interval(0.95)
    assert f"interpolation gains RoPE {gained.mean():.1f} [{low:.1f}, {high:.1f}] points at 48 px" in SENTENCES
    on_cpu = compared("larger-64-cpu", "test/acc@40px/interpolated", "rope-2d", "learned-1d", of=28)
    assert on_cpu[1] == "undecided" and "at 40 px is undecided" in SENTENCES


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
        r"repeats, on .*?, (\d+) runs .*? Of (\d+) means .*? is ([\d.]+) points, .*? gaps of ([\d.]+) to ([\d.]+)\.",
        SENTENCES,
    )
    found = [len(cpu), len(gaps), max(gaps), min(reach), max(reach)]
    assert list(map(float, said.groups())) == pytest.approx(found, abs=0.051)


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
    pairs, shown, same, new = sum(page.at_both_rates(*both) for both in page.AT_BOTH_RATES)
    assert same < shown < pairs and new > 0
    assert f"of {shown} verdicts at 0.003, {same} stay at 0.01, none is reversed; {new} are new" in SENTENCES


def test_counts_in_sentences():
    rival = finished("s-chh-cifar10").pivot(columns="seed", index="variant")["test/acc"]
    order = ["none", "sincos-2d", "learned-1d", "rope-2d", "relative-2d-kv"]
    assert rival.shape == (5, 3) and (rival.loc[order].diff().iloc[1:] > 0).all(axis=None)
    runs = pd.concat([pd.read_csv(file, low_memory=False) for file in REFERENCE.glob("**/runs.csv")])
    ends = [runs[name].agg(["min", "max"]).tolist() for name in ("model.embed_dim", "model.depth", "epochs")]
    assert ends == [[8, 64], [1, 6], [5, 100]] and "width 8 to 64 with at most 6 layers" in SENTENCES


def test_sentences_on_generated_tasks():
    for folder, kind in {"probes/probe-direction": "alibi-2d", "probes/probe-distance": "frozen-random"}.items():
        assert [name for name, word in verdicts_with(folder).items() if word != "better"] == [kind]
    arrow = finished("probes/probe-arrow").groupby("variant")["test/acc"].min()
    absolute = ("sinusoidal", "sincos-2d", "learned-1d-gated", "fourier-learned", "adaptive-2d")
    assert set(finished("probes/probe-arrow")["test_images"]) == {960} and "at least 959 of 960" in ALL["probes.md"]
    assert all(arrow[kind] > 958.5 / 960 for kind in absolute)
    heard = finished("probes/frozen-random-heard").groupby("variant")["test/acc"].agg(["min", "count"])
    assert heard["min"].min() >= 0.98 and heard["count"].tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("folder", "variant", "first"), [("lodha-cifar10", "learned-1d", 11), ("pulfer-mnist/head", "softmax", 1)]
)
def test_training_losses_of_published_systems(folder, variant, first):
    text = " ".join(ALL["systems.md"].split())
    author = "Lodha's notebook has" if first == 11 else "Pulfer's log"
    published = [float(one) for one in re.search(rf"{author} ((?:\d\.\d+(?:, )?)+)", text)[1].split(", ")]
    curves = pd.read_csv(REFERENCE / folder / "curves.csv").query("variant == @variant")
    ours = curves.groupby("epoch")["train/loss"].agg(["mean", "std"])
    away = [abs(loss - ours.loc[first + n, "mean"]) / ours.loc[first + n, "std"] for n, loss in enumerate(published)]
    assert len(published) == 5 and max(away[first == 1 :]) <= 1.2


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
