"""The headline: what it says of clear differences, of undecided ones, of factors and of studies that cannot be tested."""

import re
from dataclasses import replace

import numpy as np
import pytest
import study_file
import tiny
from scipy import stats
from statsmodels.stats.power import TTestPower
from synthetic import write_factorial, write_study

from analysis.report import write
from analysis.report.headline import headline
from analysis.report.methods import _verdicts
from analysis.report.study_report import study_document
from analysis.report.warnings import warnings
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder, read_runs
from analysis.sources.read import read
from experiments.errors import UserError
from experiments.presets import preset
from experiments.runs import record
from experiments.runs.run import train
from experiments.study import RunSpec


def results_of(tmp_path, **options):
    return analyze(read_folder(write_study(tmp_path, **options)))


def by_hand(values, a, b):
    """The mean of a - b over seeds with its t interval, in points, from scipy."""
    diffs = [100 * (values[a][seed] - values[b][seed]) for seed in values[a]]
    low, high = stats.t.interval(0.95, len(diffs) - 1, np.mean(diffs), stats.sem(diffs))
    return np.mean(diffs), low, high


def test_the_first_paragraph_compares_with_the_baseline(tmp_path):
    results = results_of(tmp_path, spread=0.01)
    first, second, third = headline(results)
    assert first.startswith("All three positional embeddings have a higher test accuracy than none (7")
    diff, low, high = by_hand(results.values, "sinusoidal", "none")
    assert f"sinusoidal by {diff:.2f} points (95 % CI {low:.2f} to {high:.2f})" in first
    assert first.endswith(
        "5 seeds, paired t tests, p Holm-adjusted over all pairs, intervals not adjusted, alpha = 5 %."
    )
    assert second.startswith("Among the three positional embeddings themselves, ")
    assert "other data" in third


def test_a_mixed_result_names_each_group(tmp_path):
    accuracy = {"none": 0.8, "cpe": 0.9, "relative": 0.7, "rope-2d": 0.8005}
    first, *_ = headline(results_of(tmp_path, accuracy=accuracy, spread=0.01))
    assert first.startswith("cpe has a higher test accuracy than none (")
    assert "relative has a lower test accuracy than none, by" in first
    assert "rope-2d does not differ significantly from none." in first


def test_a_study_of_two_factors_names_the_other_pairs_that_differ(tmp_path):
    """depth=1, logits is the baseline; both levels of the head differ by 10 points at depth 2 only."""
    *_, combinations, _ = headline(analyze(read_folder(write_factorial(tmp_path, (0.80, 0.80, 0.90, 0.80)))))
    assert "Among the pairs without the baseline, " in combinations
    assert "“depth = 2, logits” is better than “depth = 2, softmax”" in combinations


def test_factors_have_the_names_that_the_study_gives_them(tmp_path):
    study = read_folder(write_factorial(tmp_path, (0.80, 0.70, 0.90, 0.70)))
    named = replace(study, plan=study.plan.model_copy(update={"study": {"names": {"model.depth": "number of layers"}}}))
    document = study_document(analyze(named))
    assert document.title.endswith("test accuracy by number of layers and head")
    assert "the effect of number of layers depends on head" in document.headline[1]


def test_combinations_without_a_difference_are_counted(tmp_path):
    results = analyze(read_folder(write_factorial(tmp_path, (0.8, 0.8, 0.8, 0.8), spread=0.01)))
    _, _, combinations, _ = headline(results)
    assert combinations.startswith(
        "“depth = 1, softmax” is equivalent to the baseline, “depth = 1, logits” (79.88 %): "
    )
    assert "The other two combinations do not differ significantly from the baseline. 5 seeds, " in combinations


@pytest.mark.parametrize("seeds", [9, 10])
def test_undecided_pairs_come_with_the_seeds_needed(seeds, tmp_path):
    results = results_of(
        tmp_path, accuracy={"none": 0.7, "learned-1d": 0.951, "learned-2d": 0.956}, spread=0.03, seeds=seeds
    )
    compared = results.pairs["learned-1d", "learned-2d"]
    assert compared.verdict == "not enough evidence"
    _, second, third = headline(results)
    needed = (
        f"about {compared.seeds_needed.low:,} to {compared.seeds_needed.high:,} seeds per variant are needed"
        if seeds == 10
        else "With fewer than 10 seeds, the number of seeds needed cannot be estimated."
    )
    assert f"learned-1d and learned-2d are not significantly different with {seeds} seeds" in second and needed in third
    assert "no difference" not in " ".join(headline(results))


def test_variants_are_called_equivalent_only_if_that_is_shown(tmp_path):
    same = {"none": 0.7, "learned-1d": 0.95, "learned-2d": 0.95}
    assert "equivalent" in headline(results_of(tmp_path / "many", accuracy=same, spread=0.002, seeds=8))[1]
    assert "equivalent" not in headline(results_of(tmp_path / "few", accuracy=same, spread=0.03, seeds=3))[1]


def test_a_single_seed_gets_no_verdict(tmp_path):
    sentences = " ".join(headline(results_of(tmp_path, seeds=1)))
    assert "single seed" in sentences and "a higher test accuracy" not in sentences
    assert write.make(study_document(results_of(tmp_path / "again", seeds=1)))["report.html"]


def test_a_single_variant_has_its_interval(tmp_path):
    first, second = headline(results_of(tmp_path, accuracy={"none": 0.7}, seeds=3))
    assert "no other variant to compare it with" in first
    assert re.fullmatch(r"The 95 % interval of the mean is \[\d\d\.\d+, \d\d\.\d+\] %\.", second)


def test_a_published_system_alone_is_compared_with_its_figure(tmp_path):
    base = preset("pulfer-mnist").model_dump()
    results = results_of(
        tmp_path,
        name="pulfer-mnist",
        preset="pulfer-mnist",
        base=base,
        accuracy={"sinusoidal": 0.788},
        spread=1e-4,
        seeds=4,
    )
    second = headline(results)[1]
    assert "pulfer-mnist has a test accuracy of 78.85 %. Holds here: sinusoidal − the published 78.85 %:" in second


def test_the_minimum_detectable_difference_has_80_percent_power(tmp_path):
    results = results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.7}, spread=0.05, seeds=5)
    (compared,) = (results.versus[variant] for variant in results.others)
    power = power_of_difference(compared.diff, compared.detectable)
    assert power == pytest.approx(0.8, abs=1e-6)
    assert (
        f"the minimum detectable difference is {100 * compared.detectable:.1f} points (80 % power)"
        in headline(results)[-1]
    )


@pytest.mark.parametrize(("margin", "word"), [(0.01, "too few"), (0.3, "enough")])
def test_the_headline_says_whether_the_seeds_can_detect_the_margin(margin, word, tmp_path):
    results = results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.72}, spread=0.05, seeds=5, margin=margin)
    assert (results.versus["learned-1d"].detectable > margin) == (word == "too few")
    points = f"{100 * margin:g} point" + "s" * (margin > 0.01)
    assert f"So 5 seeds are {word} to detect differences as small as the margin ({points})." in headline(results)[-1]


def test_two_seeds_with_a_large_spread_exclude_no_difference(tmp_path):
    results = results_of(
        tmp_path,
        accuracy={"none": 0.5, "learned-1d": 0.5, "cpe": 0.5, "rope-2d": 0.5, "relative": 0.5},
        spread=0.4,
        seeds=2,
    )
    assert "have too few seeds to detect any difference" in headline(results)[-1]


def power_of_difference(diff, truth):
    """The power of the two-sided t test at 5 %, from statsmodels; `diff` gives the spread."""
    deviation = (diff.high - diff.value) / stats.t.isf(0.025, diff.n - 1) * diff.n**0.5
    return TTestPower().power(truth / deviation, diff.n, 0.05)


def test_a_baseline_that_always_diverged_needs_another_baseline(tmp_path):
    lost = {("none", seed): "diverged" for seed in range(3)}
    _, second = headline(results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=3, statuses=lost))
    assert second.startswith("All 3 runs of the baseline ended without a result. More seeds will not help")


def test_runs_without_a_test_accuracy_are_not_called_unfinished(tmp_path):
    for name, head in (("a", "logits"), ("b", "mlp")):
        train([RunSpec.of(name, tiny.config(model__head=head))], tmp_path, device="cpu", test=False)
    first, second = headline(analyze(read_runs(tmp_path, False, None, None)))
    assert first == "Nothing can be compared: no run of the baseline logits has a test accuracy."
    assert "vit-train --test false" in second and "--metric val/acc" in second
    first, _ = headline(analyze(read_runs(tmp_path, False, "val/acc", None)))
    assert first.startswith("mlp has a validation accuracy of ")


def test_diverged_runs_are_named_and_whether_a_verdict_depends_on_them(tmp_path):
    clear = {"none": 0.7, "learned-1d": 0.9, "cpe": 0.5}
    lost = {("learned-1d", 1): "diverged", ("cpe", 0): "diverged"}
    results = results_of(tmp_path, accuracy=clear, statuses=lost, seeds=6)
    assert results.versus["learned-1d"].verdict_with_diverged == "not enough evidence"  # once at 10 %, the chance level
    assert results.versus["cpe"].verdict_with_diverged == "worse"
    (said,) = (paragraph for paragraph in headline(results) if "diverged" in paragraph)
    assert "1 of 6 runs of learned-1d and 1 of 6 runs of cpe diverged" in said
    assert (
        "The verdicts on learned-1d and on the pair of learned-1d and cpe change if diverged runs are counted at chance level."
        in said
    )


def test_diverged_runs_of_other_variants_make_the_family_larger(tmp_path):
    """Without the two variants of which no run finished, cpe is tested alone; with them, Holm's method has six pairs."""
    kinds = {"none": 0.700, "cpe": 0.71, "rope-2d": 0.8, "relative": 0.8}
    lost = {(kind, seed): "diverged" for kind in ("rope-2d", "relative") for seed in range(5)}
    results = results_of(tmp_path, accuracy=kinds, statuses=lost, spread=0.012)
    compared = results.versus["cpe"]
    assert compared.verdict == "better" and compared.p == compared.p_holm and compared.p > 0.05 / 6
    assert (compared.verdict_with_diverged, compared.depends_on_diverged) == ("not enough evidence", True)
    (said,) = (paragraph for paragraph in headline(results) if "diverged" in paragraph)
    assert "The verdicts on cpe, rope-2d and relative " in said


def test_a_verdict_depends_on_diverged_runs_whose_chance_level_is_not_known(tmp_path):
    """A loss of a data set whose number of classes is not recorded."""
    lost = {("sinusoidal", 1): "diverged"}
    study = read_folder(write_study(tmp_path, metric="test/loss", margin=0.05, statuses=lost, seeds=6))
    runs = study.runs.assign(**{"data.name": "mine", "data.num_classes": None})
    results = analyze(replace(study, runs=runs))
    assert results.versus["sinusoidal"].verdict == "better"
    assert results.versus["sinusoidal"].depends_on_diverged and not results.versus["learned-1d"].depends_on_diverged
    (said,) = (paragraph for paragraph in headline(results) if "diverged" in paragraph)
    assert said.endswith(" not certain, because the test loss of chance level is not known.")


def test_lower_is_better_for_a_loss(tmp_path):
    results = results_of(tmp_path, metric="test/loss", margin=0.05)
    assert results.best == "sinusoidal" and results.versus["sinusoidal"].verdict == "better"
    assert "points" not in " ".join(headline(results)) and "have a lower test loss than none" in headline(results)[0]


def test_nothing_finished_is_an_error(tmp_path):
    statuses = {(variant, seed): "absent" for variant in ("none", "learned-1d") for seed in range(2)}
    with pytest.raises(UserError, match="no run has finished yet"):
        results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=2, statuses=statuses)


def test_a_variant_whose_runs_all_diverged_is_not_compared(tmp_path):
    lost = {("sinusoidal", seed): "diverged" for seed in range(4)}
    said = headline(results_of(tmp_path, seeds=4, spread=0.01, statuses=lost))
    assert said[0].startswith("Both positional embeddings have a higher test accuracy than none")
    assert "sinusoidal cannot be compared: there is no result on a seed of the baseline." in said[0]
    assert " 0 seeds" not in " ".join(said) and " 0 to" not in " ".join(said)
    assert any("4 of 4 runs of sinusoidal diverged" in paragraph for paragraph in said)


def test_images_that_changed_between_seeds_are_not_called_the_same(tmp_path):
    study = read_folder(write_study(tmp_path, seeds=4))
    assert "All runs use the same training and test images" in headline(analyze(study))[-1]
    runs = study.runs.assign(image_files="one")
    runs.loc[runs["seed"] == 3, "image_files"] = "later"
    changed = replace(study, runs=runs)
    assert "The images were changed between the runs, so the tests are not valid." in headline(analyze(changed))[-1]
    assert any(
        "The images were changed between runs of none, sinusoidal" in each for each in warnings(analyze(changed))
    )


def without_runs(folder, variant, seeds):
    """Remove the records of a variant with these seeds."""
    for entry in study_file.read_study(folder)["runs"]:
        if entry["variant"] == variant and entry["seed"] in seeds:
            (folder / entry["run"] / record.SUMMARY).unlink()
    return analyze(read_folder(folder))


def test_a_variant_with_one_seed_cannot_be_tested(tmp_path):
    results = without_runs(write_study(tmp_path), "learned-2d", {1, 2, 3, 4})
    first, second, *_ = headline(results)
    assert "learned-2d cannot be tested: there is a result on one seed of the baseline only." in first
    assert "learned-2d" not in first.partition("learned-2d cannot")[0] and "learned-2d" not in second


def test_one_variant_with_few_seeds_does_not_hide_what_the_others_can_detect(tmp_path):
    accuracy = {"none": 0.7, "learned-1d": 0.7, "cpe": 0.7, "rope-2d": 0.7}
    results = without_runs(write_study(tmp_path, accuracy=accuracy, spread=0.01), "rope-2d", {2, 3, 4})
    change = lambda pair, c: replace(c, detectable=1.0 if "rope-2d" in pair else c.detectable)  # noqa: E731
    compared = replace(
        results.comparisons,
        versus={v: change((v,), c) for v, c in results.versus.items()},
        pairs={pair: change(pair, c) for pair, c in results.pairs.items()},
    )
    results = replace(results, comparisons=compared)
    last = headline(results)[-1]
    assert (
        "the minimum detectable difference is" in last and "there are too few seeds to detect any difference." in last
    )


def test_images_that_the_study_varies_are_not_called_the_same(tmp_path):
    results = results_of(
        tmp_path,
        accuracy={"100": 0.7, "200": 0.8},
        levels=lambda variant: {"data.train_limit": int(variant)},
        baseline="100",
    )
    assert "All runs use images of the same dataset (digits), so" in headline(results)[-1]


def test_the_best_mean_of_other_seeds_is_not_called_better_than_a_variant_that_beats_it(tmp_path):
    """On the seeds that both have, `cpe` is better; the mean of `rope-2d` has only the seeds on which both are good."""
    accuracy = {"none": 0.5, "learned-1d": 0.6, "learned-2d": 0.6, "cpe": 0.8, "rope-2d": 0.79}
    results = results_of(tmp_path, accuracy=accuracy, spread=0.0005, seeds=5)
    assert results.best == "cpe"
    means = results.means.by_metric["test/acc"]
    higher = {"test/acc": {**means, "rope-2d": replace(means["rope-2d"], value=0.81)}}
    best = replace(results, means=replace(results.means, by_metric=higher))
    assert best.best == "rope-2d"
    assert (
        "it is significantly better than 3 of the 4 other variants. On the seeds that both have, cpe is significantly better."
        in " ".join(headline(best))
    )


def test_a_single_variant_without_a_finished_run_has_no_mean(tmp_path):
    lost = {("none", seed): "diverged" for seed in range(3)}
    (said,) = headline(results_of(tmp_path, accuracy={"none": 0.5}, seeds=3, statuses=lost))
    assert said == "No run of none has a test accuracy. Its runs: 3 diverged."


def test_an_exploratory_report_repeats_itself_and_its_claims_are_of_its_metric(tmp_path):
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9, "learned-2d": 0.9}, seeds=3)
    results = analyze(read(str(folder), metric="val/acc", baseline="learned-1d"))
    section = next(part for part in study_document(results).sections if part.id == "reproduce")
    assert section.items[0].text.endswith("--metric val/acc --baseline learned-1d")
    assert analyze(read(str(folder))).published.claims
    assert not analyze(read(str(folder), metric="test/loss")).published.claims


def test_with_planned_looks_the_texts_on_intervals_agree(tmp_path):
    results = results_of(tmp_path, looks=[5, 10])
    texts = [text for _, text in _verdicts(results)]
    assert any(text.endswith("Intervals are adjusted for the planned looks only.") for text in texts)
