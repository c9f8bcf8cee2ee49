"""The bench compares like with like, and runs anywhere: no data, no network, no GPU. No time is ever asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from timm_weights import randomised, to_timm
from torchvision import transforms

from experiments.bench.contenders import LEAD, Entry, Ours, Plain, Tutorial
from experiments.bench.contest import Team, race
from experiments.bench.limits import Traffic, needs
from experiments.bench.rivals import MODELS, Pictures, TutorialViT, timm_model
from experiments.config import RunConfig, override
from experiments.data.images import Images, Splits
from experiments.presets import preset
from vit import ViT

REPO = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
TINY = {"model.embed_dim": 16, "model.num_heads": 2, "model.depth": 2, "train.batch_size": 8}
TINTN_PARAMS = 119_098  # as the tutorial's repository prints


def tiny() -> RunConfig:
    return override(preset("tintn-cifar10"), TINY)


def images(n: int = 24) -> Splits:
    random = torch.Generator().manual_seed(0)
    part = Images(torch.randint(256, (n, 3, 32, 32), dtype=torch.uint8, generator=random), torch.arange(n) % 10)
    return Splits(part, part, part, tuple("0123456789"), torch.full((3,), 0.5), torch.full((3,), 0.5))


def to_tutorial(ours: ViT, theirs: TutorialViT) -> TutorialViT:
    """Copy our weights into the tutorial's model: our QKV rows, head by head, into its single projections."""
    size, heads = ours.cfg.head_dim, ours.cfg.num_heads
    with torch.no_grad():
        theirs.patches.weight.copy_(ours.patch_embed.proj.weight.reshape(theirs.patches.weight.shape))
        theirs.patches.bias.copy_(ours.patch_embed.proj.bias)
        theirs.cls_token.copy_(ours.cls_token)
        theirs.position[0].copy_(ours.pos[0].table)
        theirs.classifier.load_state_dict(ours.head[0].state_dict())
        for ours_block, block in zip(ours.blocks, theirs.blocks, strict=True):
            for part, name in enumerate(("query", "key", "value")):
                for h in range(heads):
                    rows = slice((part * heads + h) * size, (part * heads + h + 1) * size)
                    getattr(block.heads[h], name).weight.copy_(ours_block.attn.qkv.weight[rows])
                    getattr(block.heads[h], name).bias.copy_(ours_block.attn.qkv.bias[rows])
            pairs = [
                (ours_block.attn.proj, block.proj),
                (ours_block.norm1, block.norm1),
                (ours_block.norm2, block.norm2),
                (ours_block.mlp.fc1, block.mlp[0]),
                (ours_block.mlp.fc2, block.mlp[2]),
            ]
            for mine, other in pairs:
                other.load_state_dict(mine.state_dict())
    return theirs


@pytest.mark.parametrize("kind", ["timm", "tutorial"])
def test_the_rival_computes_our_model(kind: str) -> None:
    cfg = tiny().vit_config()
    ours, x = randomised(ViT(cfg)), torch.randn(4, 3, 32, 32, dtype=torch.float64)
    theirs = to_timm(ours, timm_model(cfg)) if kind == "timm" else to_tutorial(ours, TutorialViT(cfg).double())
    torch.testing.assert_close(theirs(x), ours(x), atol=1e-9, rtol=1e-9)


def test_all_have_the_published_size() -> None:
    cfg = preset("tintn-cifar10").vit_config()
    size = {kind: sum(p.numel() for p in make(cfg).parameters()) for kind, make in {"ours": ViT, **MODELS}.items()}
    # vit-pytorch: no QKV biases, but LayerNorms of a patch's pixels, of its token, and after the encoder
    assert size == {
        "ours": TINTN_PARAMS,
        "timm": TINTN_PARAMS,
        "tutorial": TINTN_PARAMS,
        "vit-pytorch": TINTN_PARAMS - 4 * 3 * 48 + 2 * 48 + 2 * 48 + 2 * 48,
    }


def test_the_tutorials_pictures_are_our_images() -> None:
    splits = images()
    pictures = Pictures(splits.train, transforms.ToTensor())
    assert len(pictures) == 24
    for i in (0, 23):
        pixels, label = pictures[i]
        torch.testing.assert_close(pixels, splits.scaled(splits.train.x[i]))
        assert label == splits.train.y[i]


@pytest.mark.parametrize(
    ("kind", "make", "runs", "epoch"),
    [("ours", Ours, 1, 24), ("ours", Ours, 3, 72), ("timm", Plain, 1, 24), ("vit-pytorch", Plain, 1, 24)],
)
def test_every_contender_does_the_work_it_counts(kind: str, make: type, runs: int, epoch: int) -> None:
    contender = make(Entry(kind, kind, tiny(), runs=runs), images(), CPU, 0)
    params = contender.engine.params.values() if kind == "ours" else contender.model.parameters()
    before = [p.detach().clone() for p in params]
    done, seconds = contender.steps(2)
    assert done == 2 * 8 * runs and seconds > 0
    assert not any(torch.equal(p, was) for p, was in zip(params, before, strict=False))
    assert contender.epochs(2)[0] == 2 * epoch


def test_the_tutorials_epoch_is_counted_in_its_middle() -> None:
    contender = Tutorial(Entry("tutorial", "tutorial", tiny()), images(), CPU, 0)
    seen = []
    contender.forward = lambda x: (seen.append(x.shape), contender.model(x))[1]
    assert contender.epochs(2)[0] == 2 * 24
    assert seen == [(8, 3, 32, 32)] * (LEAD + 2 * 3)


def test_flops_by_hand() -> None:
    """Three times the forward products (values, gradients of inputs and of weights), less the images' gradient."""
    tokens, patches, width = 65, 64, 48
    layer = 2 * tokens * width * (3 + 1 + 4 + 4) * width + 2 * 2 * tokens * tokens * width
    embedding, head = 2 * patches * 48 * width, 2 * width * 10
    cfg = preset("tintn-cifar10").vit_config()
    x, y = torch.randn(2, 3, 32, 32), torch.tensor([0, 1])
    for model in (ViT(cfg), TutorialViT(cfg), timm_model(cfg)):
        assert needs(model, x, y)["flops"] == 3 * (4 * layer + embedding + head) - embedding


def test_traffic_by_hand() -> None:
    a, b = torch.randn(8, 16), torch.randn(16, 4)
    with Traffic() as traffic:
        (a.t().t() @ b.view(16, 4)).relu()
    assert traffic.total == 4 * (8 * 16 + 16 * 4 + 8 * 4) + 4 * 2 * 8 * 4


class Pipe:
    """The parent's end: answers at once, and notes who was asked."""

    def __init__(self, name: str, asked: list[tuple[str, str, int]], answer: object) -> None:
        self.name, self.asked, self.answer = name, asked, answer

    def send(self, message: tuple[str, int]) -> None:
        self.asked.append((self.name, *message))

    def recv(self) -> object:
        return self.answer


def team(name: str, asked: list, *answers: object) -> Team:
    return Team(Entry(name, "ours", tiny()), [Pipe(name, asked, answer) for answer in answers], [])


def test_turns_are_taken_round_by_round_and_nobody_is_always_first() -> None:
    asked: list[tuple[str, str, int]] = []
    teams = [team("a", asked, (10.0, 2.0)), team("b", asked, (9.0, 3.0))]
    race(teams, {"steps": {"a": 5, "b": 3}, "epochs": {"b": 1}}, rounds=2)
    assert asked == [
        ("a", "steps", 1),
        ("b", "steps", 1),
        ("b", "epochs", 1),  # warm-up
        ("a", "steps", 5),
        ("b", "steps", 3),
        ("b", "epochs", 1),
        ("b", "steps", 3),
        ("a", "steps", 5),
        ("b", "epochs", 1),
    ]
    assert [t.rates for t in teams] == [{"steps": [5.0, 5.0]}, {"steps": [3.0, 3.0], "epochs": [3.0, 3.0]}]


def test_a_team_is_as_fast_as_its_slowest_member() -> None:
    slow = team("a", [], (10.0, 2.0), (10.0, 4.0))
    slow.play("steps", 1)
    assert slow.median("steps") == 20 / 4


def test_a_contender_that_fails_is_out_and_says_why() -> None:
    asked: list[tuple[str, str, int]] = []
    broken, fine = team("a", asked, "OutOfMemoryError: 80 GiB"), team("b", asked, (1.0, 1.0))
    race([broken, fine], {"steps": {"a": 1, "b": 1}}, rounds=3)
    assert broken.lost == "OutOfMemoryError: 80 GiB" and broken.median("steps") is None
    assert fine.rates == {"steps": [1.0] * 3}
    assert sum(name == "a" for name, *_ in asked) == 1


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "experiments.bench", *arguments]
    return subprocess.run(command, cwd=REPO, env=os.environ, capture_output=True, text=True, timeout=600)


def test_dry_run(tmp_path: Path) -> None:
    out = tmp_path / "new" / "bench.json"
    done = bench("--dry-run", "--device", "cpu", "--out", str(out))
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    names = ["ours", "ours, cohorts of 4", "ours, one process", "timm", "vit-pytorch", "tutorial"]
    assert list(results["contenders"]) == names
    for row in results["contenders"].values():
        assert row["lost"] == "" and row["peak_memory_bytes"] > 0 and row["share_of_matrix_flops"] > 0
        for task in ("steps", "epochs"):
            assert row[f"{task}_images_per_second"] == row["rounds"][task][0] > 0
        assert row["run_epochs_per_hour"] == pytest.approx(row["epochs_images_per_second"] / 49_000 * 3600)
    for against, ratios in results["ratios"].items():
        assert list(ratios) == names and ratios[against] == {"steps": 1.0, "epochs": 1.0}
    assert results["digits"]["one process"]["ratio"] == 1.0
    assert results["records"]["lost"] == "" and results["records"]["digits_epoch_seconds"] > 0
    assert {axis: len(points) for axis, points in results["curves"].items()} == {"tokens": 1, "width": 1, "cohort": 2}
    assert results["machine"]["matrix_flops"] > 0 and results["machine"]["memory_bytes"] > 0
    assert results["setting"]["device"] == "cpu" and "generated" in results["setting"]["data"]
    assert str(Path.home()) not in out.read_text()
    table = out.with_suffix(".md").read_text()
    assert done.stdout.strip() == table.strip()
    assert [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][2:] == names
    assert out.with_suffix(".svg").read_text().startswith("<?xml")
    assert sorted(path.name for path in out.parent.iterdir()) == ["bench.json", "bench.md", "bench.svg"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--batches", "1"], "batches: 1 is not allowed; at least 2"),
        (["--rounds", "0"], "rounds: 0 is not allowed; at least 1"),
        (
            ["--data-root", "nowhere"],
            "data-root: 'nowhere' has no folder cifar-10-batches-py; without it, images are generated",
        ),
        (["--out", "x.md"], "out: 'x.md' is not allowed: a name that ends in .json"),
        (["--device", "cuda:99"], "device: 'cuda:99' is not here; allowed: auto, cpu, or a GPU's name such as cuda:0"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str) -> None:
    done = bench(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"experiments.bench: error: {said}\n"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_dry_run_on_a_gpu(tmp_path: Path) -> None:
    done = bench("--dry-run", "--device", "cuda", "--out", str(tmp_path / "bench.json"))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "bench.json").read_text())
    assert not any(row["lost"] for row in results["contenders"].values())
