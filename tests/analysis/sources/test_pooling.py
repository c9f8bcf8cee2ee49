"""Runs of one variant are pooled only where they are of one model."""

import pytest
from synthetic import write_study

from analysis.report.warnings import warnings
from analysis.results.study_results import analyze
from analysis.sources.exported import export
from analysis.sources.read import read
from experiments.errors import UserError
from experiments.runs import record
from vit.plugins import digest

KINDS = {"none": 0.7, "row-only": 0.9}


def change(run, **parts):
    """Write a run's summary again, with changed sections."""
    summary = record.read_summary(run)
    merged = {key: {**summary[key], **changes} for key, changes in parts.items()}
    kept = {key: value for key, value in summary.items() if key not in ("files", "digest")}
    record.write_summary(run, {**kept, **merged})


@pytest.fixture
def folder(tmp_path):
    return write_study(tmp_path, accuracy=KINDS, factors={"model.pos_embed": list(KINDS)}, seeds=6, epochs=1)


def test_other_parameter_counts_are_refused(folder):
    """The case of issue 14: 5 models with 28,138 parameters and 1 with 26,362 must not be n = 6."""
    for seed in range(6):
        change(folder / f"v1-s{seed}", cost={"params": 28138 if seed else 26362})
    with pytest.raises(
        UserError, match=r"'row-only' are not of one model: 26,362 parameters \(v1-s0\); 28,138 .*\(5 runs\)"
    ):
        read(str(folder))
    results = analyze(read(str(folder), skip_unreadable=True))
    assert (results.mean("row-only").n, results.mean("none").n) == (5, 6)
    assert "has 26,362 parameters, but most runs of row-only have 28,138" in results.study.troubles["v1-s0"]
    assert results.conduct.counts.loc["row-only", "unreadable"] == 1


def test_other_sources_of_one_plugin_are_refused(folder):
    for seed in range(6):
        run, body = folder / f"v1-s{seed}", b"scale = 1\n" if seed < 4 else b"scale = 2\n"
        (run / record.PLUGIN).mkdir()
        (run / record.PLUGIN / "rows.py").write_bytes(body)
        plugin = {"modules": "rows", "digest": digest({"rows.py": body}), "committed": True}
        change(run, provenance={"plugin": plugin}, cost={"params": 7})
    with pytest.raises(UserError, match=r"plug-in source \w{12} .4 runs.*plug-in source \w{12} .2 runs"):
        read(str(folder), skip_unreadable=False)
    study = read(str(folder), skip_unreadable=True)
    assert set(study.troubles) == {"v1-s4", "v1-s5"}
    assert sorted(text for files in study.sources.values() for text in files.values()) == ["scale = 1\n", "scale = 2\n"]


def test_record_without_source_stays_readable(folder, tmp_path):
    study = read(str(folder))
    assert any("6 runs of the plug-in row-only: source not recorded" in line for line in warnings(analyze(study)))
    again = read(str(export(study, tmp_path / "kept")))
    assert any("6 runs of the plug-in row-only: source not recorded" in line for line in warnings(analyze(again)))
