"""The benchmark: models, training steps, turns, failures and the command. No test asserts a time."""

import json
from pathlib import Path

import measure
import pytest
import torch
import torch.nn.functional as F
from baselines import LibraryEngine, TutorialViT, baseline, tutorial_rate
from timm_weights import randomised, to_timm
from torch import nn

from experiments.cli import run_command
from experiments.config import RunConfig, override
from experiments.data.images import Images, Splits
from experiments.presets import preset
from experiments.runs import record
from experiments.training.fit import fit
from experiments.training.tables import epoch_tables
from vit import ViT

CPU = torch.device("cpu")
PARAMS = 119_098  # of the model of tintn (2023), as its repository prints


def tiny() -> RunConfig:
    size = {"model.embed_dim": 16, "model.num_heads": 2, "model.depth": 2, "train.batch_size": 8, "train.epochs": 2}
    return override(preset("tintn-cifar10"), {**size, "data.hflip": False, "data.rrc_scale": 1.0})


def images() -> Splits:
    part = Images(torch.randint(256, (24, 3, 32, 32), dtype=torch.uint8), torch.arange(24) % 10)
    return Splits(part, part, part, tuple("0123456789"), torch.full((3,), 0.5), torch.full((3,), 0.5))


def to_tutorial(ours: ViT, theirs: TutorialViT) -> nn.Module:
    """Copy our weights into the tutorial's model: our QKV rows, head by head, into its single projections."""
    weights, size = ours.state_dict(), ours.cfg.head_dim
    state = {"cls_token": weights["cls_token"], "position": weights["pos.0.table"][None]}
    state |= {f"classifier.{kind}": weights[f"head.0.{kind}"] for kind in ("weight", "bias")}
    state |= {f"patches.{kind}": weights[f"patch_embed.proj.{kind}"] for kind in ("weight", "bias")}
    state["patches.weight"] = state["patches.weight"].reshape(theirs.patches.weight.shape)
    for name, tensor in weights.items():
        if ".attn.qkv." in name:
            block, kind = name.split(".attn.qkv.")
            for i, rows in enumerate(tensor.split(size)):  # of all queries, then all keys, then all values
                part, head = divmod(i, ours.cfg.num_heads)
                state[f"{block}.heads.{head}.{part}.{kind}"] = rows
        elif name.startswith("blocks."):
            state[name.replace("attn.", "").replace("mlp.", "")] = tensor
    theirs.load_state_dict(state)
    return theirs.double()


@pytest.mark.parametrize("name", ["timm", "tutorial"])
def test_baseline_computes_our_model(name):
    cfg = tiny().vit_config()
    ours, x = randomised(ViT(cfg)), torch.randn(4, 3, 32, 32, dtype=torch.float64)
    theirs = (to_timm if name == "timm" else to_tutorial)(ours, baseline(name, cfg))
    torch.testing.assert_close(theirs(x), ours(x), atol=1e-9, rtol=1e-9)


def test_models_have_the_published_size():
    cfg = preset("tintn-cifar10").vit_config()
    models = [ViT(cfg), *(baseline(name, cfg) for name in ("tutorial", "timm", "vit-pytorch", "vit-pytorch-alike"))]
    # vit-pytorch has no QKV biases, and LayerNorms of a patch's pixels, of its token, and after the encoder
    other = PARAMS - 4 * 3 * 48 + 3 * 2 * 48
    sizes = [sum(p.numel() for p in model.parameters()) for model in models]
    assert sizes == [PARAMS] * 3 + [other, other + 4 * 3 * 48]
    gelus = [part for part in models[-1].modules() if isinstance(part, nn.GELU)]
    assert len(gelus) == 4 and {part.approximate for part in gelus} == {"tanh"}


def test_library_model_takes_the_steps_of_a_plain_loop():
    splits, config = images(), tiny()
    torch.manual_seed(0)
    trainer = LibraryEngine("timm", [config], 10, CPU)
    torch.manual_seed(0)
    model = baseline("timm", config.vit_config(10))
    optimizer = torch.optim.AdamW(model.parameters(), config.optim.lr, weight_decay=config.optim.weight_decay)
    for epoch, (row,) in enumerate(fit(trainer, splits)):
        total = 0.0
        for part in epoch_tables([config], 24, epoch, 8).numbers["order"][:, 0]:
            loss = F.cross_entropy(model(splits.normalized(splits.scaled(splits.train.x[part]))), splits.train.y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * 8 / 24
        assert row["train/loss"] == pytest.approx(total, rel=1e-5)


def test_tutorial_trains_on_our_images_or_their_mirror_images():
    splits, trainer, seen = images(), LibraryEngine("tutorial", [tiny()], 10, CPU), []
    trainer.train_step = lambda x, y, *_: (seen.append((x[0], y[0])), torch.zeros(1))[1:]
    assert tutorial_rate(trainer, splits.train) > 0
    x = splits.normalized(splits.scaled(splits.train.x))
    assert len(seen) == 3 + 4  # the batches of an epoch, and those before
    for image, label in ((image, label) for batch in seen for image, label in zip(*batch, strict=True)):
        same = [i for i in range(24) if min((image - x[i]).abs().max(), (image.flip(-1) - x[i]).abs().max()) < 1e-5]
        assert len(same) == 1 and label == splits.train.y[same[0]]


def test_turns_interleave_and_a_contender_with_a_note_takes_no_more():
    rate, note = {"rate": 1.0}, {"note": "no memory"}
    replies = {"a": iter([rate] * 5), "b": iter([rate, rate, rate, note]), "c": iter([rate] * 5)}
    taken = list(measure.take_turns(replies, 4))
    assert "".join(name for name, _ in taken) == "abc" + "bca" + "cab" + "ac"  # after a warm-up of each
    assert [(name, reply) for name, reply in taken if reply is not rate] == [("b", note)]


def test_ratios_are_medians_within_turns():
    turns = {"tutorial": [1.0, 2.0, 9.0], "timm": [1.0] * 3, "timm-bf16": [2.0, 2.0, 3.0], "ours": [2.0, 8.0, 9.0]}
    rows = {name: {"turns": rates} for name, rates in {**turns, "ours-bf16": []}.items()}
    measure.compare(rows)
    assert rows["ours"]["x tutorial"] == 2.0  # of 2, 4 and 1; the ratio of the medians is 4
    assert rows["ours"]["x best timm"] == 3.0  # of 1, 4 and 3, to timm-bf16, whose median is larger
    assert rows["ours"]["images_per_second"] == 8.0 and rows["ours-bf16"] == {"turns": []}


def bench(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        run_command(measure.body, "bench", [str(word) for word in words])
    return end.value.code


SMALL = ("--device", "cpu", "--threads", 1, "--batches", 1, "--rounds", 1, "--runs", 2)


def test_file_is_complete_after_each_turn(tmp_path, monkeypatch, capsys):
    out, written, names = tmp_path / "bench.json", [], ["timm", "ours", "ours-bf16-stacked"]
    write = record.write_json
    monkeypatch.setattr(record, "write_json", lambda *args: (write(*args), written.append(out.read_text())))
    assert bench(*SMALL, "--only", *names, "--kind", "rope-2d", "--out", out) == 0
    states = [json.loads(text) for text in written]
    counts = [[len(row["turns"]) for row in state["contenders"].values()] for state in states]
    assert counts == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert all(state["setting"]["versions"]["timm"] and state["setting"]["hardware"] for state in states)
    rows = states[-1]["contenders"]
    kinds = [(name, row["runs"], row["precision"]) for name, row in rows.items()]
    assert kinds == list(zip(names, (1, 1, 2), ("float32", "float32", "bfloat16"), strict=True))
    for row in rows.values():
        assert row["note"] == "" and row["images_per_second"] == row["turns"][0] and row["peak_memory_MiB"] > 50
        assert row["x best timm"] == pytest.approx(row["turns"][0] / rows["timm"]["turns"][0])
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table[1:]] == names and str(Path.home()) not in out.read_text()


def test_an_earlier_result_is_not_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("old.json").write_text("{}")
    assert bench("--out", "old.json") == 2
    assert capsys.readouterr().err == "bench: error: out: 'old.json' cannot be written: File exists\n"
    assert [path.name for path in Path().iterdir()] == ["old.json"] and Path("old.json").read_text() == "{}"
