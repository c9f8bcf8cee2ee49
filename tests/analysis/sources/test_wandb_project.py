"""`vit-report wandb:...` with the real API and real files: the numbers of the records, whatever happened to the runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mirrored
import pytest
from wandb_server import WandbServer

from analysis.sources.read import read
from experiments.errors import UserError
from experiments.runs import record


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    with WandbServer().used_here(monkeypatch) as running:
        yield running


def runs(**changes: object) -> list:
    return [mirrored.spec(seed, **changes) for seed in (0, 1)]


def check_against_records(place: str, study: Path) -> None:
    """The imported study has every number of the records."""
    found = read(place)
    for seed in (0, 1):
        own = record.read_run(study / f"s{seed}")
        (row,) = found.runs[found.runs["seed"] == seed].to_dict("records")
        for key in ("status", "epochs", "test/acc", "test/loss", "val/acc", "run_id"):
            assert row[key] == own.summary[key]
        assert row["params"] == own.summary["cost"]["params"]
        assert row["model.depth"] == own.config["model"]["depth"]
        curve = found.curves[found.curves["seed"] == seed].sort_values("epoch")
        for key in ("epoch", "lr", "train/loss", "val/acc"):
            assert curve[key].tolist() == [each[key] for each in own.rows]
    assert len(found.runs) == 2
    assert not found.troubles
    assert found.variants == ["learned-1d"]
    assert found.factors == {}


def test_a_project_read_with_the_real_api_has_the_records_numbers(server: WandbServer, tmp_path: Path) -> None:
    mirrored.trained(tmp_path / "study", runs())
    check_against_records("wandb:tester/vit-ablation", tmp_path / "study")
    list(server.runs.values())[-1].history.pop(1)
    assert sorted(read("wandb:tester/vit-ablation").runs["status"]) == ["finished", "incomplete"]
    with pytest.raises(UserError, match="wandb:tester/other: the runs could not be read from W&B"):
        read("wandb:tester/other")
