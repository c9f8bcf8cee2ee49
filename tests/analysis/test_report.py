"""The report of a study: warnings, provenance, commands, and odd studies that still make a report."""

import html
import re
from dataclasses import replace

import pytest
import yaml
from synthetic import on_dataset, results_of, write_factorial, write_study

from analysis.answers.across.compute import aggregate, studies_by_dataset
from analysis.answers.several_studies import across_document, compare_document
from analysis.answers.study_report import study_document, study_warnings
from analysis.answers.study_results import analyze
from analysis.runs.folder import read_folder, read_runs
from analysis.runs.read import read
from analysis.write import files as write
from experiments.presets import preset
from experiments.runs import record

TWO = {"none": 0.7, "learned-1d": 0.9}


@pytest.mark.parametrize(
    "options",
    [
        {"accuracy": {"none": 0.7}},
        {"accuracy": TWO, "statuses": {("none", seed): "diverged" for seed in range(5)}},
        {"accuracy": TWO, "statuses": {("learned-1d", seed): "absent" for seed in range(5)}},
        {"accuracy": TWO, "statuses": {("learned-1d", seed): "incomplete" for seed in (1, 2, 3, 4)}},
        {"spread": 0.0},
        {"metric": "val/loss", "margin": 0.05},
        {"looks": [3, 5]},
        {"looks": [10, 20]},
    ],
    ids=[
        *("one variant", "baseline diverged", "one absent", "one pair", "no spread", "a loss"),
        *("planned looks", "before the first look"),
    ],
)
def test_incomplete_studies_still_have_a_report(tmp_path, options):
    files = write.make(study_document(results_of(tmp_path, **options)))
    assert not re.search(rb"(?i)\b(nan|inf|none of)\b", files["report.md"])


def test_a_loss_is_not_tested_for_equivalence_at_the_margin_of_an_accuracy(tmp_path):
    """The plan's margin is 1 point of test accuracy.

    In each kind of report the test losses have only tests of a difference.
    """
    sources = [write_study(tmp_path / name, spread=1e-4, **on_dataset(name)) for name in ("digits", "mnist")]
    stated, *explored = (
        analyze(read(str(at), metric=metric))
        for at, metric in zip([sources[0], *sources], (None, "test/loss", "test/loss"))
    )
    assert '"equivalent" if it lies' in write.make(study_document(stated))["report.md"].decode()
    for results in explored:
        assert not results.claims
        for compared in results.comparisons.pairs.values():
            assert compared.verdict in ("better", "worse", "not shown")
    later = write_study(tmp_path / "later", spread=2e-4, **on_dataset("digits"))
    documents = [
        study_document(explored[0]),
        compare_document(explored[0], analyze(read(str(later), metric="test/loss")), "compare"),
        across_document(aggregate(studies_by_dataset(explored)), "across"),
    ]
    for document, count in zip(documents, (2, 3, 2), strict=True):  # a comparison of two has the note of each
        page = write.make(document)["report.md"].decode()
        said = [line for line in page.splitlines() if re.search("equivalen|margin", line, re.IGNORECASE)]
        assert len(said) == count and all(
            "stated for test accuracy" in line or "nothing is called equivalent" in line for line in said
        )


def test_the_methods_say_for_what_the_intervals_hold(tmp_path):
    factors, variants = analyze(read_folder(write_factorial(tmp_path / "a"))), results_of(tmp_path / "b")
    for results, level in ((factors, "97.5 % (pairs and factors share the 5 %)"), (variants, "95 %")):
        page = write.make(study_document(results))["report.md"].decode()
        assert f"in at least {level} of studies, all of them hold" in page
        assert "as each side has 2.5 %" in page and "need not be in them" in page


def test_seeds_of_one_configuration_have_a_report(tmp_path):
    folder = write_study(tmp_path, accuracy={"none": 0.7}, seeds=3)
    (folder / record.STUDY).unlink()
    document = study_document(analyze(read_runs(folder, False, None, None)))
    assert document.title == "position: test accuracy"
    assert b"3 seeds). There is no other" in write.make(document)["report.md"]


def test_a_file_is_copied_from_the_report_as_it_is(tmp_path):
    own = {"name": "mine", "factors": {"model.pos_embed": ["none", "cpe"]}, "seeds": 2}
    document = study_document(results_of(tmp_path, seeds=4, command="vit-sweep run my/mine.yaml", study=own))
    for name in ("report.md", "report.html"):
        page = html.unescape(write.make(document)[name].decode())
        pattern = r"^(?:<pre><code>)?(# my/mine\.yaml.*?)\n?(?:```|</code></pre>)"
        (copied,) = re.findall(pattern, page, re.DOTALL | re.MULTILINE)
        assert yaml.safe_load(copied) == own


@pytest.mark.parametrize(
    ("options", "folded"),
    [
        *(
            ({"command": "vit-sweep run position"}, False),
            ({"command": "vit-sweep run my/mine.yaml"}, True),
            ({"command": None}, True),
        ),
        ({"preset": "pulfer-mnist", "base": preset("pulfer-mnist").model_dump()}, False),
    ],
)
def test_claims_about_other_scales_are_folded_except_in_built_in_studies(tmp_path, options, folded):
    results = results_of(tmp_path, accuracy={"sinusoidal": 0.78, "none": 0.7}, seeds=3, **options)
    tables = {table.name: table for table in study_document(results).tables}
    assert tables["claims"].folded == folded


def test_a_single_slow_run_gives_a_warning_and_leaves_the_median(tmp_path):
    study = read_folder(write_study(tmp_path, accuracy=TWO, seeds=5))
    runs = study.runs.set_index(["variant", "seed"])  # none takes 4.0 s, learned-1d 4.1 s
    runs.loc[[("none", 0), ("learned-1d", 3), ("learned-1d", 4)], "device_seconds"] = [400.0, 12.0, 12.0]
    runs.loc[[("learned-1d", 3), ("learned-1d", 4)], "hardware"] = "slow"
    results = analyze(replace(study, runs=runs.reset_index()))
    assert results.cost["device_seconds"].to_dict() == {"none": 4.0, "learned-1d": 4.1}
    # on the same hardware, of seeds 0, 1, 2: 0.01025, 1.025, 1.025
    assert results.cost.loc["learned-1d", "device_seconds_ratio"] == pytest.approx(4.1 / 4.0)
    said = " ".join(study_warnings(results))
    assert "one run of none took 100.0 times the median" in said and "2 kinds of hardware" in said


def test_a_study_of_several_factors_starts_with_them_and_another_with_its_variants(tmp_path):
    studies = results_of(tmp_path / "one"), analyze(read_folder(write_factorial(tmp_path / "two")))
    one, several = ([section.id for section in study_document(results).sections] for results in studies)
    assert one[:5] == ["result", "differences", "claims", "curves", "cost"]
    assert several[:3] == ["factors", "result", "differences"]
    assert several[-4:] == ["methods", "provenance", "reproduce", "runs"]
