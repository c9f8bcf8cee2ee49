"""The headline: which sentences it chooses, for clear and undecided differences and for studies that cannot be
tested.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
import shown
import tiny
from scipy import stats
from synthetic import results_of, write_factorial, write_study

from analysis.answers.conduct import show as conduct
from analysis.answers.pairs import headline as headline_module
from analysis.answers.pairs.headline import among_others
from analysis.answers.study_report import study_document, study_headline
from analysis.answers.study_results import analyze
from analysis.runs.folder import read_folder, read_runs
from analysis.write import files as write
from analysis.write.text import text
from experiments.errors import UserError
from experiments.presets import preset
from experiments.runs.run import train
from experiments.study import RunSpec


def sentences(results):
    """macro -> its slots, for the sentences of the headline: tests pin the choice of a sentence and its numbers."""
    slots_by_macro = {}

    def recording(template, macro, /, **slots):
        slots_by_macro[macro] = slots
        return text(template, macro, **slots)

    with pytest.MonkeyPatch.context() as patch:
        for module in (headline_module, conduct):
            patch.setattr(module, "text", recording)
        study_headline(results)
    return slots_by_macro


def headline(results):
    return " ".join(study_headline(results))


def by_hand(values, a, b, pairs):
    """The mean of a - b over seeds, and its t interval for so many pairs together (Bonferroni), in points."""
    diffs = [100 * (values[a][seed] - values[b][seed]) for seed in values[a]]
    low, high = stats.t.interval(1 - 0.05 / pairs, len(diffs) - 1, np.mean(diffs), stats.sem(diffs))
    return np.mean(diffs), low, high


def test_the_first_paragraph_compares_with_the_baseline(tmp_path):
    results = results_of(tmp_path, spread=0.01, variance="paired")
    first, second, third, method = study_headline(results)
    diff, low, high = by_hand(results.means.values, "sinusoidal", "none", pairs=6)
    mean = f"{100 * results.means.of('none').value:.2f}"
    assert first.startswith(f"Higher test accuracy than none ({mean} %): sinusoidal by {diff:.1f} points ")
    assert f"(95 % CI {low:.1f} to {high:.1f}), learned-1d by" in first
    assert second.startswith("Pairs without the baseline: ") and "Best mean test accuracy: sinusoidal (" in second
    assert "(digits), so the tests say nothing about other data" in third
    assert method.startswith("Method: 5 seeds, 95 % intervals for all pairs of variants together")


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_the_means_and_differences_of_the_headline_are_those_of_the_table(seeds, tmp_path):
    results = results_of(tmp_path, spread=0.01, seeds=seeds)
    said, (table, *_) = headline(results), study_document(results).tables
    means = {row[0]: row[2].split()[0] for row in shown.texts(table)}
    for variant in {"none", results.means.best}:
        assert f"{variant} ({means[variant]} %)" in said or f"{variant} {means[variant]} %" in said
    shared = {row[3].split()[0].lstrip("+") for row in shown.texts(table) if row[4:5] == ["better"]}
    assert set(re.findall(r" by ([\d.]+) points \(95", said)) == shared


def test_a_mixed_result_has_each_variant_in_one_group(tmp_path):
    accuracy = {"none": 0.8, "cpe": 0.9, "relative": 0.7, "rope-2d": 0.8005}
    results = results_of(tmp_path, accuracy=accuracy, spread=0.01)
    slots = sentences(results)["against_baseline"]
    verdicts = {name: compared.verdict for name, compared in slots["tested"].items()}
    assert verdicts == {"cpe": "better", "relative": "worse", "rope-2d": "not shown"}
    assert "Not compared" not in headline(results) and "Not tested" not in headline(results)


def test_lower_is_better_for_a_loss(tmp_path):
    results = results_of(tmp_path, metric="test/loss", margin=0.05)
    assert results.means.best == "sinusoidal" and results.comparisons.versus["sinusoidal"].verdict == "better"
    assert study_headline(results)[0].startswith("Lower test loss than none (")


def test_a_study_of_two_factors_names_the_few_other_pairs_that_differ(tmp_path):
    """depth=1, logits is the baseline; both levels of the head differ by 10 points at depth 2 only."""
    results = analyze(read_folder(write_factorial(tmp_path, (0.80, 0.80, 0.90, 0.80))))
    assert "Pairs without the baseline: a difference is shown for 2 of 3 (“" in headline(results)
    assert "“depth = 2, logits” better than “depth = 2, softmax”" in headline(results)


def test_undecided_pairs_are_counted(tmp_path):
    accuracy = {"none": 0.7, "learned-1d": 0.955, "learned-2d": 0.956}
    results = results_of(tmp_path, accuracy=accuracy, spread=0.03, seeds=10)
    assert results.comparisons.pairs["learned-1d", "learned-2d"].verdict == "not shown"
    assert ", 1 not shown (by " in headline(results)


def test_the_size_of_what_is_not_significant_comes_after_the_names(tmp_path):
    results = results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.71}, spread=0.05, seeds=3)
    assert results.comparisons.versus["learned-1d"].verdict == "not shown"
    size = r"\d+(\.\d+)?"
    said = rf"Neither a difference from none \({size} %\) nor equivalence is shown: the variant learned-1d, by {size} "
    assert re.match(rf"{said}points\. ", headline(results))


def test_a_detectable_difference_above_100_points_is_more_than_the_scale(tmp_path):
    results = results_of(tmp_path, accuracy={"none": 0.3, "learned-1d": 0.6}, spread=0.8, seeds=2, variance="paired")
    assert results.comparisons.versus["learned-1d"].detectable > 1
    assert "more than the scale" in write.make(study_document(results))["report.md"].decode()


def test_a_single_seed_gets_no_verdict(tmp_path):
    results = results_of(tmp_path, seeds=1)
    first, second = study_headline(results)
    best, none = (f"{100 * results.means.of(variant).value:.2f} %" for variant in ("sinusoidal", "none"))
    assert first.startswith(f"Test accuracy: sinusoidal {best}, none {none}. With a single seed no statistical test")
    assert second.startswith("For more runs, ")
    assert write.make(study_document(results))["report.html"]


def test_a_single_variant_has_its_interval(tmp_path):
    results = results_of(tmp_path, accuracy={"none": 0.7}, seeds=3)
    mean = results.means.of("none")
    assert f"(95 % CI {100 * mean.low:.2f} to {100 * mean.high:.2f}, 3 seeds)" in headline(results)


def test_a_published_system_alone_is_compared_with_its_figure(tmp_path):
    base = preset("pulfer-mnist").model_dump()
    options = {"name": "pulfer-mnist", "preset": "pulfer-mnist", "base": base, "accuracy": {"sinusoidal": 0.788}}
    _, claim = study_headline(results_of(tmp_path, **options, spread=1e-4, seeds=4))
    assert re.match(r"Published claim: .*78\.85 %.* Holds here: sinusoidal − the published 78\.85 %", claim)


def test_a_single_variant_without_a_finished_run_has_no_mean(tmp_path):
    lost = {("none", seed): "diverged" for seed in range(3)}
    said = study_headline(results_of(tmp_path, accuracy={"none": 0.5}, seeds=3, statuses=lost))
    assert said == ("No run of none has a test accuracy. Its runs: 3 diverged.",)


@pytest.mark.parametrize(("margin", "enough"), [(0.01, 0), (0.3, 1)])
def test_the_headline_says_what_the_seeds_can_detect_and_for_how_many_pairs_that_is_the_margin(
    margin, enough, tmp_path
):
    results = results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.72}, spread=0.05, seeds=5, margin=margin)
    detectable = results.comparisons.versus["learned-1d"].detectable
    assert sentences(results)["limits"]["detectable"] == f"{100 * detectable:.1f}"
    assert re.search(rf"Pairs for which 5 seeds detect .*: {enough} of 1\.", headline(results))


def test_two_seeds_with_a_large_spread_exclude_no_difference(tmp_path):
    accuracy, options = dict.fromkeys(("none", "learned-1d", "cpe", "rope-2d", "relative"), 0.5), {"variance": "paired"}
    slots = sentences(results_of(tmp_path, accuracy=accuracy, spread=0.4, seeds=2, **options))["limits"]
    assert (slots["hopeless"], slots["detectable"]) == (len(slots["shown"]), "")


def test_a_variant_with_one_seed_cannot_be_tested(tmp_path):
    said = headline(results_of(tmp_path, statuses={("learned-2d", seed): "absent" for seed in (1, 2, 3, 4)}))
    assert "Not tested, with a result on one seed of none: the variant learned-2d." in said
    assert "learned-2d by" not in said and "a difference is shown for 1 of 1" in said  # of the two other variants
    assert "2 not tested" in said


def test_pairs_are_tested_where_the_baseline_cannot_be(tmp_path):
    """The baseline has one seed, the two others have five and differ by 20 points."""
    lost = {("none", seed): "absent" for seed in (1, 2, 3, 4)}
    accuracy = {"none": 0.7, "cpe": 0.9, "relative": 0.7}
    results = results_of(tmp_path, accuracy=accuracy, spread=0.01, statuses=lost)
    assert results.comparisons.pairs["cpe", "relative"].verdict == "better"
    assert study_headline(results)[0].startswith("Test accuracy: cpe ")
    assert "against_baseline" not in sentences(results)
    assert "a difference is shown for 1 of 1 (cpe better than relative)" in headline(results)
    slots = sentences(results)["among_others"]["others"]
    assert [slots[name] for name in ("tested", "differing", "untested")] == [1, 1, 0]
    assert slots["ranked"] == [("cpe", "relative")]


def test_a_baseline_that_always_diverged_needs_another_baseline(tmp_path):
    lost = {("none", seed): "diverged" for seed in range(3)}
    _, advice = study_headline(results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=3, statuses=lost))
    assert advice.startswith("All runs of the baseline (3) ended") and "choose another baseline" in advice


def test_runs_without_a_test_accuracy_are_not_called_unfinished(tmp_path):
    for name, head in (("a", "logits"), ("b", "mlp")):
        train([RunSpec.of(name, tiny.config(model__head=head))], tmp_path, device="cpu", test=False)
    _, advice = study_headline(analyze(read_runs(tmp_path, False, None, None)))
    assert "choose another metric with --metric" in advice and "val/acc" in advice and "test/acc" not in advice
    assert "With a single seed" in study_headline(analyze(read_runs(tmp_path, False, "val/acc", None)))[0]


def test_diverged_runs_are_named_and_a_verdict_does_not_depend_on_them(tmp_path):
    clear = {"none": 0.7, "learned-1d": 0.9, "cpe": 0.3}
    lost = {("learned-1d", 1): "diverged", ("cpe", 0): "diverged"}
    results = results_of(tmp_path, accuracy=clear, statuses=lost, seeds=6)
    versus = results.comparisons.versus
    assert (versus["learned-1d"].verdict_of_finished, versus["learned-1d"].verdict) == ("better", "not shown")
    assert versus["cpe"].verdict == versus["cpe"].verdict_of_finished == "worse"  # also with one run at 10 %, chance
    (said,) = (paragraph for paragraph in study_headline(results) if paragraph.startswith("Diverged"))
    assert said.startswith("Diverged: 1 run of learned-1d, 1 run of cpe. Means use the finished runs.")
    assert "Finished runs alone would show more: the variant learned-1d." in said
    assert said.endswith("Pairs without the baseline of which they would: 1.")


def test_variants_of_which_no_run_finished_do_not_change_the_verdicts_of_the_others(tmp_path):
    kinds = {"none": 0.700, "cpe": 0.707, "rope-2d": 0.8, "relative": 0.8}
    lost = {(kind, seed): "diverged" for kind in ("rope-2d", "relative") for seed in range(5)}
    results = results_of(tmp_path, accuracy=kinds, statuses=lost, spread=0.012)
    compared = results.comparisons.versus["cpe"]
    assert compared.verdict == "better" and compared.p == compared.p_adjusted and not compared.depends_on_diverged
    assert {results.comparisons.versus[kind].verdict for kind in ("rope-2d", "relative")} == {"not shown"}
    assert "Not compared, without a result on a seed of none: rope-2d and relative." in headline(results)


def test_nothing_is_shown_of_a_variant_with_diverged_runs_whose_chance_level_is_not_known(tmp_path):
    """A loss of a data set whose number of classes is not recorded."""
    lost = {("sinusoidal", 1): "diverged"}
    study = read_folder(write_study(tmp_path, metric="test/loss", margin=0.05, statuses=lost, seeds=6))
    runs = study.runs.assign(**{"data.name": "mine", "data.num_classes": None})
    results = analyze(replace(study, runs=runs))
    versus = results.comparisons.versus
    assert (versus["sinusoidal"].verdict, versus["sinusoidal"].verdict_of_finished) == ("not shown", "better")
    assert versus["learned-1d"].verdict == "better"
    assert "Finished runs alone would show more: the variant sinusoidal." in headline(results)


def test_nothing_finished_is_an_error(tmp_path):
    statuses = {(variant, seed): "absent" for variant in ("none", "learned-1d") for seed in range(2)}
    with pytest.raises(UserError, match="no run has finished yet"):
        results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=2, statuses=statuses)


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_are_no_reason_to_suggest_a_large_number_of_runs(seeds, tmp_path):
    """It once said `--seeds 338`. Commands stand in the section Reproduce, each in a line of its own."""
    document = study_document(results_of(tmp_path, seeds=seeds, spread=0.05))
    sentences = [*document.headline, *document.warnings, *(p for part in document.sections for p in part.paragraphs)]
    assert not any("--seeds" in said or "vit-" in said for said in sentences)


def test_images_that_changed_between_seeds_are_not_called_the_same(tmp_path):
    study = read_folder(write_study(tmp_path, seeds=4))
    assert analyze(study).conduct.same_images and not analyze(study).conduct.changed_images
    files = study.runs["seed"].map(lambda seed: "later" if seed == 3 else "one")
    changed = analyze(replace(study, runs=study.runs.assign(image_files=files)))
    assert changed.conduct.changed_images == study.variants
    assert "the tests are not valid" in study_headline(changed)[-2]


def test_images_that_the_study_varies_are_not_called_the_same(tmp_path):
    options = {"accuracy": {"100": 0.7, "200": 0.8}, "levels": lambda limit: {"data.train_limit": int(limit)}}
    assert results_of(tmp_path, **options, baseline="100").conduct.same_images is False


def test_the_best_mean_of_other_seeds_is_not_called_better_than_a_variant_that_beats_it(tmp_path):
    """On the seeds that both have, `cpe` is better; the mean of `rope-2d` has only the seeds on which both are good."""
    accuracy = {"none": 0.5, "learned-1d": 0.6, "learned-2d": 0.6, "cpe": 0.8, "rope-2d": 0.79}
    results = results_of(tmp_path, accuracy=accuracy, spread=0.0005, seeds=5)
    means = results.means.by_metric["test/acc"]
    higher = {"test/acc": {**means, "rope-2d": replace(means["rope-2d"], value=0.81)}}
    said = headline(replace(results, means=replace(results.means, by_metric=higher)))
    assert re.search(r"Best mean test accuracy: rope-2d \(81\S* %\), shown to be better than 3 of the 4 other ", said)
    assert "Shown to be better on the seeds that both have: cpe." in said
    changed = among_others(results.variants, results.comparisons, replace(results.means, by_metric=higher))
    assert [changed[name] for name in ("best", "beaten", "above")] == [["rope-2d"], 3, ["cpe"]]
    assert among_others(results.variants, results.comparisons, results.means)["above"] == []


def test_variants_can_share_the_best_mean(tmp_path):
    accuracy = {"none": 0.5, "cpe": 1.0, "rope-2d": 1.0}
    results = results_of(tmp_path, accuracy=accuracy, spread=0, seeds=3)
    assert results.means.all_best == ["cpe", "rope-2d"]
    others = among_others(results.variants, results.comparisons, results.means)
    assert [others[name] for name in ("best", "beaten", "open")] == [["cpe", "rope-2d"], None, []]
    assert others["counts"] in ({"equivalent": 1}, {"equal on all seeds": 1})
    assert "Best mean test accuracy: cpe and rope-2d (100.00 %)." in headline(results)


def test_too_many_variants_are_compared_with_the_baseline_only(tmp_path, monkeypatch):
    monkeypatch.setattr("analysis.findings.policy.MOST_PAIRS", 3)
    results = results_of(tmp_path, seeds=3)
    assert results.comparisons.pairs == {} and list(results.comparisons.versus) == results.variants.names
    assert "pairs without the baseline are not compared" in headline(results)
