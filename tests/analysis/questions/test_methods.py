"""Methods: at most twenty lines, which say what this study used."""

import pytest
import study_file
from synthetic import results_of, write_factorial, write_study

from analysis.findings import analyze
from analysis.questions.methods import question
from analysis.runs.folder import read_folder
from analysis.write import files as write
from analysis.write.document import Document


def facts(findings):
    (item,) = question(findings).items
    return dict(item.facts)


def test_methods_have_at_most_twenty_lines(tmp_path):
    findings = results_of(tmp_path, statuses={("sinusoidal", 0): "diverged"}, looks=[3, 5, 10], seeds=10)
    lines = [f"{term}: {text}" for term, text in facts(findings).items()]
    assert sum(-(-len(line) // 120) for line in lines) <= 20
    document = Document("", "", "", (), [], [question(findings)])
    page = write.make(document)["report.md"].decode().partition("## Methods")[2]
    assert 0 < len([line for line in page.splitlines() if line.strip()]) <= 20


def test_the_methods_say_for_what_the_intervals_hold(tmp_path):
    factors, variants = analyze(read_folder(write_factorial(tmp_path / "a"))), results_of(tmp_path / "b")
    for findings, family in ((factors, ", and for the factors with them"), (variants, "")):
        held = f"For all pairs of variants together{family} (Bonferroni): in at least 95 % of studies, all hold."
        assert facts(findings)["Intervals of differences"] == held


@pytest.mark.parametrize(
    ("splits", "said"),
    [
        ([0, 0], "other seeds on the same images (digits)."),
        (["per-seed", "per-seed"], "other splits of the same dataset (data.split_seed is per-seed)"),
        ([0, "per-seed"], "for the variants with data.split_seed per-seed also other splits"),
    ],
)
def test_what_an_interval_covers_follows_from_the_split_of_each_variant(splits, said, tmp_path):
    findings = results_of(
        tmp_path,
        accuracy={"a": 0.5, "b": 0.6},
        factors={"data.split_seed": splits},
        levels=lambda variant: {"data.split_seed": splits["ab".index(variant)]},
    )
    assert said in facts(findings)["Scope"]


def test_a_margin_that_was_changed_is_not_called_fixed(tmp_path):
    folder = write_study(tmp_path, seeds=2)
    stated = facts(analyze(read_folder(folder)))["Verdict"]
    assert "the margin, ±1 point, which the study fixes before its runs; otherwise" in stated
    study_file.write_study(
        folder, {**study_file.read_study(folder), "margin": 0.2, "earlier": [{"runs": 2, "stated": {"margin": 0.01}}]}
    )
    assert (
        "±20 points, which was changed after runs had started; otherwise"
        in facts(analyze(read_folder(folder)))["Verdict"]
    )
