"""The findings of the README are those of the records."""

import re
from pathlib import Path

import pytest

from analysis.answers.study_results import analyze
from analysis.sources.read import read

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.search(r"<!-- findings.*?-->\n(.*?)<!-- end", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)[1]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in BLOCK.splitlines()[2:]]
VARIANTS = {
    "learned-1d − none": ("learned-1d, stem", "none, stem"),
    "relative − learned-1d": ("relative, every-layer", "learned-1d, stem"),
    "learned-2d − learned-1d": ("learned-2d, stem", "learned-1d, stem"),
    "relative-2d-kv − learned-1d": ("relative-2d-kv", "learned-1d"),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_finding_is_what_the_records_show(row):
    finding, records, shown, seeds = row
    a, b = VARIANTS[finding.rpartition(": ")[2]]
    results = analyze(read(str(ROOT / "analysis" / "reference" / records.strip("`"))))
    pairs = results.comparisons.pairs
    found, sign = (pairs[a, b], 1) if (a, b) in pairs else (pairs[b, a], -1)
    ends = sorted(sign * 100 * end for end in (found.adjusted.low, found.adjusted.high))
    expected = [sign * 100 * found.diff.value, *ends]
    assert [float(number.replace("−", "-")) for number in re.findall(r"[+−][\d.]+", shown)] == pytest.approx(
        expected, abs=0.051
    )
    assert found.n == int(seeds)
    assert (found.verdict == "not enough evidence") == ("No difference is shown" in finding)
