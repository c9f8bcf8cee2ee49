"""The result of a search by W&B: the trials are trained with the command of its specification, without a server."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import tiny
import yaml

from experiments.main import main as vit_train
from experiments.runs import record
from sweeps.main import main

RATES = (0.001, 0.01)
PARAMS = "optim.lr=0.001|0.01"


def wandb(capsys: pytest.CaptureFixture[str], folder: Path, *words: object, params: str = PARAMS) -> list[str]:
    """The lines of `vit-sweep wandb --tune`."""
    command = ["wandb", folder / "heads.yaml", "--tune", "--params", params, "--out", folder, *words]
    with pytest.raises(SystemExit) as exited:
        main([str(word) for word in command])
    out, err = capsys.readouterr()
    assert (exited.value.code, err) == (0, "")
    return out.splitlines()


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *words: object) -> str:
    """The one line with which `vit-sweep wandb --tune` refuses its input."""
    with pytest.raises(SystemExit) as exited:
        main(
            ["wandb", str(folder / "heads.yaml"), "--tune", "--params", PARAMS, "--out", str(folder), *map(str, words)]
        )
    out, err = capsys.readouterr()
    assert (exited.value.code, out, err.count("\n")) == (2, "", 1)
    return err


def train(folder: Path, variant: str, *words: str) -> float:
    """Train a trial as an agent does. Returns its validation accuracy."""
    (file,) = (folder / "heads" / "wandb-tuning").glob(f"{variant}-*.yaml")
    command = yaml.safe_load(file.read_text())["command"]
    assert (command[0], command[-1]) == ("vit-train", "${args}")
    before = set(file.parent.glob("*/summary.json"))
    with pytest.raises(SystemExit) as exited:
        vit_train([*command[1:-1], *words])
    assert not exited.value.code
    (new,) = set(file.parent.glob("*/summary.json")) - before
    return record.read_summary(new.parent)["val/acc"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    study = {"name": "heads", "factors": {"model.head": ["logits", "mlp"]}, "base": tiny.settings(train__epochs=2)}
    (tmp_path / "heads.yaml").write_text(yaml.safe_dump(study))
    return tmp_path


def test_the_best_settings_of_each_variant_are_written_once_all_trials_have_ended(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = folder / "heads" / "tuned.yaml"
    wandb(capsys, folder, "--trials", 2, "--method", "random")
    scores: dict[str, list[float]] = {}
    for number, (variant, rate) in enumerate([(v, r) for v in ("logits", "mlp") for r in RATES]):
        counted = [line for line in wandb(capsys, folder, "--trials", 2, "--method", "random") if "have ended" in line]
        assert counted == [
            f"{v}: {min(max(number - n, 0), 2)} of 2 trials have ended" for v, n in (("logits", 0), ("mlp", 2))
        ]
        assert not tuned.exists()
        scores.setdefault(variant, []).append(train(folder, variant, f"--optim.lr={rate}"))
    train(folder, "mlp", "--optim.lr=0.5")  # of another space
    said = wandb(capsys, folder, "--trials", 2, "--method", "random")
    found = yaml.safe_load(tuned.read_text())
    for variant, accuracies in scores.items():
        best = max(accuracies)
        own = found["variants"][variant]
        assert own["val/acc"] == best and own["epochs"] == 4
        assert accuracies[RATES.index(own["settings"]["optim.lr"])] == best
    assert sorted(trial["settings"]["optim.lr"] for trial in found["trials"]) == sorted([*RATES, *RATES])
    assert (found["budget"], found["sampler"]) == (2, "wandb random")
    assert said[-1].startswith(f"next: vit-sweep run {folder / 'heads.yaml'} --tuned {tuned}")
    with pytest.raises(SystemExit):
        main(["run", str(folder / "heads.yaml"), "--tuned", str(tuned), "--out", str(folder / "after"), "--dry-run"])
    assert "tuned" in capsys.readouterr().out


def test_the_next_command_works_where_the_command_line_sets_a_tuned_setting(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--optim.lr", "0.02", "--set", "optim.lr=0.03"]
    given += ["--set", "optim.lr+train.batch_size=[0.04, 16]", "--set", "optim.weight-decay=0.02"]
    wandb(capsys, folder, "--trials", 2, *given)
    for variant in ("logits", "mlp"):
        for rate in RATES:
            train(folder, variant, f"--optim.lr={rate}")
    command = shlex.split(wandb(capsys, folder, "--trials", 2, *given)[-1].removeprefix("next: "))
    out = command.index("--out") + 1
    command[out] = str(folder / "after")
    with pytest.raises(SystemExit) as exited:
        main([*command[1:], "--tracking", "off", "--device", "cpu", "--workers", "1", "--seeds", "1"])
    assert not exited.value.code, capsys.readouterr().err
    best = yaml.safe_load((folder / "heads" / "tuned.yaml").read_text())["variants"]
    for path in (folder / "after" / "heads").glob("*/config.json"):
        config = json.loads(path.read_text())
        assert config["optim"]["lr"] == best[config["model"]["head"]]["settings"]["optim.lr"]
        assert (config["train"]["batch_size"], config["optim"]["weight_decay"]) == (16, 0.02)


def test_a_budget_above_the_size_of_the_space_ends_with_the_space(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb(capsys, folder, "--trials", 9, params="train.batch_size=16..17")
    for variant in ("logits", "mlp"):
        for size in (16, 17):
            train(folder, variant, f"--train.batch_size={size}")
    wandb(capsys, folder, "--trials", 9, params="train.batch_size=16..17")
    assert len(yaml.safe_load((folder / "heads" / "tuned.yaml").read_text())["trials"]) == 4


def test_a_result_is_not_replaced_by_that_of_fewer_trials(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wandb(capsys, folder, "--trials", 2)
    for variant in ("logits", "mlp"):
        for rate in RATES:
            train(folder, variant, f"--optim.lr={rate}")
    wandb(capsys, folder, "--trials", 2)
    tuned = folder / "heads" / "tuned.yaml"
    before = tuned.read_text()
    line = refused(capsys, folder, "--trials", 1)
    assert f"--trials: 1 is not allowed: {tuned} is the result of 2 trials of each variant" in line
    assert tuned.read_text() == before


def test_trials_of_two_methods_are_not_mixed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wandb(capsys, folder, "--trials", 2, "--method", "random")
    line = refused(capsys, folder, "--trials", 2)
    assert "--method: bayes is not allowed: " in line and "searches with random" in line
    wandb(capsys, folder, "--trials", 2, params="optim.lr=0.001|0.02")  # another space is another search


def test_other_seeds_of_the_study_are_the_same_tuning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wandb(capsys, folder, "--trials", 2, "--seeds", 1)
    files = {path.name: path.read_bytes() for path in (folder / "heads" / "wandb-tuning").iterdir()}
    wandb(capsys, folder, "--trials", 2, "--seeds", "3,4")
    assert {path.name: path.read_bytes() for path in (folder / "heads" / "wandb-tuning").iterdir()} == files
