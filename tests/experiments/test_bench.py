"""The benchmark: models, counts of work, turns, time limits and the command. No test asserts a time."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from timm_weights import randomised, to_timm
from torchvision import transforms

from experiments.bench import __main__ as command
from experiments.bench import harness, measure
from experiments.bench.baselines import MARGIN, LibraryEngine, PILImages, TutorialLoop, TutorialViT, timm_model
from experiments.bench.harness import Runner, Workload, WorkloadError, mps_server, paired_ratio, take_turns
from experiments.bench.measure import (
    MODELS,
    ByteCounter,
    Plan,
    TrainingLoop,
    default_names,
    machine_rates,
    summarize,
    training_cost,
    workloads,
)
from experiments.config import RunConfig, override
from experiments.data.images import Images, Splits
from experiments.presets import preset
from experiments.training.fit import fit
from experiments.training.tables import epoch_tables
from vit import ViT

REPO = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
NAMES = list(workloads(Plan("cpu", 1, 2, 2, 1.0)))
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
def test_baseline_computes_our_model(kind: str) -> None:
    cfg = tiny().vit_config()
    ours, x = randomised(ViT(cfg)), torch.randn(4, 3, 32, 32, dtype=torch.float64)
    theirs = to_timm(ours, timm_model(cfg)) if kind == "timm" else to_tutorial(ours, TutorialViT(cfg).double())
    torch.testing.assert_close(theirs(x), ours(x), atol=1e-9, rtol=1e-9)


def test_models_have_the_published_size() -> None:
    cfg = preset("tintn-cifar10").vit_config()
    size = {kind: sum(p.numel() for p in make(cfg).parameters()) for kind, make in MODELS.items()}
    # vit-pytorch has no QKV biases, and LayerNorms of a patch's pixels, of its token, and after the encoder
    assert size == {
        "ours": TINTN_PARAMS,
        "timm": TINTN_PARAMS,
        "tutorial": TINTN_PARAMS,
        "vit-pytorch": TINTN_PARAMS - 4 * 3 * 48 + 2 * 48 + 2 * 48 + 2 * 48,
    }


def test_tutorial_loads_our_images() -> None:
    splits = images()
    dataset = PILImages(splits.train, transforms.ToTensor())
    assert len(dataset) == 24
    for i in (0, 23):
        pixels, label = dataset[i]
        torch.testing.assert_close(pixels, splits.scaled(splits.train.x[i]))
        assert label == splits.train.y[i]


def workload(name: str = "ours", loop: type = TrainingLoop, model: str = "ours", **options: object) -> Workload:
    return Workload(name, loop, tiny(), model, **options)


@pytest.mark.parametrize(("model", "runs"), [("ours", 1), ("ours", 3), ("timm", 1), ("vit-pytorch", 1)])
def test_loop_does_the_work_it_counts(model: str, runs: int) -> None:
    built = TrainingLoop(workload(model=model, runs=runs, epochs=2), images(), CPU, 0)
    before = [p.detach().clone() for p in built.engine.params.values()]
    done, seconds = built.turn()
    assert done == 2 * 24 * runs and seconds > 0
    assert not any(torch.equal(p, was) for p, was in zip(built.engine.params.values(), before, strict=True))


def test_library_model_takes_the_steps_of_a_plain_loop() -> None:
    """timm's model in our training loop against a loop that anyone would write, on the same batches."""
    splits, config = images(), override(tiny(), {"data.hflip": False, "data.rrc_scale": 1.0, "train.epochs": 2})
    engine = LibraryEngine("timm", config, 10, CPU)
    torch.manual_seed(config.seed)
    model = timm_model(config.vit_config(10))
    rows = [row for (row,) in fit(engine, splits)]
    optimizer = torch.optim.AdamW(model.parameters(), config.optim.lr, weight_decay=config.optim.weight_decay)
    for epoch, row in enumerate(rows):
        total = 0.0
        for part in epoch_tables([config], 24, epoch, 8).order[:, 0]:
            loss = F.cross_entropy(model(splits.normalized(splits.scaled(splits.train.x[part]))), splits.train.y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * 8 / 24
        assert row["train/loss"] == pytest.approx(total, rel=1e-5)


def test_tutorial_epoch_is_timed_in_the_middle() -> None:
    loop = TutorialLoop(workload(loop=TutorialLoop, model="tutorial", epochs=2), images(), CPU, 0)
    seen = []
    loop.engine.model.register_forward_pre_hook(lambda model, arguments: seen.append(arguments[0].shape))
    assert loop.turn()[0] == 2 * 24
    assert seen == [(8, 3, 32, 32)] * (MARGIN + 2 * 3)


def test_flops_by_hand() -> None:
    """Three times the forward products (values, gradients of inputs and of weights), without the images' gradient."""
    tokens, patches, width = 65, 64, 48
    layer = 2 * tokens * width * (3 + 1 + 4 + 4) * width + 2 * 2 * tokens * tokens * width
    embedding, head = 2 * patches * 48 * width, 2 * width * 10
    cfg = preset("tintn-cifar10").vit_config()
    x, y = torch.randn(2, 3, 32, 32), torch.tensor([0, 1])
    for model in (ViT(cfg), TutorialViT(cfg), timm_model(cfg)):
        assert (
            training_cost(model, x, y, preset("tintn-cifar10"))["flops_per_image"]
            == 3 * (4 * layer + embedding + head) - embedding
        )


def test_bytes_by_hand() -> None:
    a, b = torch.randn(8, 16), torch.randn(16, 4)
    with ByteCounter() as traffic:
        (a.t().t() @ b.view(16, 4)).relu()
    assert traffic.total == 4 * (8 * 16 + 16 * 4 + 8 * 4) + 4 * 2 * 8 * 4


class Pipe:
    """The parent's end of a pipe to a process: replies at once, and records the requests."""

    def __init__(self, name: str, requests: list[tuple[str, str]], reply: object) -> None:
        self.name, self.requests, self.reply = name, requests, reply

    def send(self, message: str) -> None:
        self.requests.append((self.name, message))

    def poll(self, seconds: float) -> bool:
        return self.reply != "too late"

    def recv(self) -> object:
        return self.reply

    def close(self) -> None:
        self.requests.append((self.name, "close"))


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch):
    """Makes runners whose processes are stubs that reply what is given."""

    def start(self: Runner, *_: object) -> None:
        process = SimpleNamespace(join=lambda seconds: None, is_alive=lambda: False)
        self.processes = [(process, pipe) for pipe in self.stubs]

    monkeypatch.setattr(Runner, "_start_processes", start)

    def make(name: str, requests: list, *replies: object, **options: object) -> Runner:
        runner = Runner(workload(name, **options), 60.0)
        runner.stubs = [Pipe(name, requests, reply) for reply in replies]
        return runner

    return make


def measured(runners: list[Runner], rounds: int) -> list[str]:
    return [runner.workload.name for runner in take_turns(runners, rounds, {"cifar10": Path()}, "cpu")]


def test_turns_interleave_and_the_order_rotates(stub) -> None:
    requests: list[tuple[str, str]] = []
    a = stub("a", requests, (10.0, 2.0, 70))
    b = stub("b", requests, (9.0, 3.0, 80))
    assert measured([a, b], rounds=2) == ["a", "b", "b", "a"]
    warm_up, turns = [("a", "turn"), ("b", "turn")], [("a", "turn"), ("b", "turn"), ("b", "turn"), ("a", "turn")]
    assert requests == [*warm_up, *turns, ("a", "close"), ("b", "close")]
    assert [a.rates, b.rates] == [[5.0, 5.0], [3.0, 3.0]]
    assert [a.peak_memory, b.peak_memory] == [70, 80]


def test_rate_is_that_of_the_slowest_process(stub) -> None:
    runner = stub("a", [], (10.0, 2.0, 1), (10.0, 4.0, 2))
    measured([runner], rounds=1)
    assert runner.median == 20 / 4 and runner.peak_memory == 3


@pytest.mark.parametrize(
    ("reply", "note"),
    [("OutOfMemoryError: 80 GiB", "OutOfMemoryError: 80 GiB"), ("too late", "stopped at the time limit of 60 s")],
)
def test_failed_workload_stops_alone_and_gives_the_reason(stub, reply: str, note: str) -> None:
    requests: list[tuple[str, str]] = []
    failed, other = stub("a", requests, reply), stub("b", requests, (1.0, 1.0, 1))
    assert measured([failed, other], rounds=3) == ["a", *["b"] * 3]
    assert failed.note == note and failed.median is None
    assert other.rates == [1.0] * 3 and other.note == ""
    assert [request for request in requests if request[0] == "a"] == [("a", "turn"), ("a", "close")]


def test_turn_that_does_not_fit_in_the_time_limit_is_not_started(stub, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, durations = [0.0], iter([40.0, 6.0, 6.0, 6.0])  # of the warm-up and of the turns, within 60 s

    def recv(self: Pipe) -> object:
        clock[0] += next(durations)
        return self.reply

    monkeypatch.setattr(Pipe, "recv", recv)
    monkeypatch.setattr(harness, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    runner = stub("a", [], (6.0, 3.0, 1))
    assert measured([runner], rounds=5) == ["a"] * 4
    assert runner.rates == [2.0] * 3 and runner.note == "3 turns fit in the time limit of 60 s"


class Misbehaving:
    """A loop that hangs, ends its process, or fails, as its model's name says."""

    def __init__(self, workload: Workload, *_: object) -> None:
        if workload.model == "hang":
            Path(workload.name).write_text(str(subprocess.Popen(["sleep", "600"]).pid))
        self.model = workload.model

    def turn(self) -> tuple[float, float]:
        if self.model == "hang":
            time.sleep(600)
        if self.model == "cache":
            raise ValueError(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        if self.model == "exit":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("first line\nsecond line")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "seconds", "note"),
    [
        ("exit", 100.0, "a process ended with status -9"),
        ("fail", 100.0, "ValueError: first line"),
        ("hang", 12.0, "stopped at the time limit of 12 s"),
    ],
)
def test_misbehaving_process_is_ended(tmp_path: Path, model: str, seconds: float, note: str) -> None:
    torch.save(images(), tmp_path / "images.pt")
    name = str(tmp_path / "pid of its own process")
    runner = Runner(workload(name, loop=Misbehaving, model=model), seconds)
    assert list(take_turns([runner], 3, {"cifar10": tmp_path / "images.pt"}, "cpu")) == [runner]
    assert runner.note == note and runner.rates == [] and runner.processes == []
    if Path(name).exists():
        stat = Path("/proc", Path(name).read_text(), "stat")
        assert not stat.exists() or stat.read_text().split()[2] == "Z"


@pytest.mark.slow
def test_each_workload_has_a_compile_cache_of_its_own(tmp_path: Path) -> None:
    """A compiler that is killed leaves files cut short, which must not reach the user's cache or other workloads."""
    torch.save(images(), tmp_path / "images.pt")
    options = {"loop": Misbehaving, "model": "cache"}
    runners = [Runner(workload(name, **options), 300.0) for name in ("a", "b")]
    list(take_turns(runners, 1, {"cifar10": tmp_path / "images.pt"}, "cpu"))
    folders = {Path(runner.note.removeprefix("ValueError: ")) for runner in runners}
    assert len(folders) == 2 and not any(folder.exists() for folder in folders)


def test_ratio_is_the_median_of_the_turns_ratios() -> None:
    assert paired_ratio([2.0, 8.0, 9.0], [1.0, 2.0, 9.0]) == 2.0  # of 2, 4 and 1; the ratio of medians is 4
    assert paired_ratio([3.0, 8.0], [1.0]) == 3.0
    assert paired_ratio([], [1.0]) is None


def test_summary_of_hand_made_timings() -> None:
    ours = Runner(workload("ours", processes=2, runs=4), 60.0, [90.0, 80.0, 100.0], 500)
    tutorial = Runner(workload("tutorial"), 60.0, [30.0, 40.0, 10.0], 300, "2 turns")
    waiting = Runner(workload("timm"), 60.0)
    machine = {"matmul_flops": 4.5e5, "copy_bytes": 4.5e3}
    costs = {"ours": {"flops_per_image": 1e3, "bytes_per_image": 25.0}}
    rows = summarize([ours, waiting, tutorial], ("tutorial", "timm"), machine, costs, {"cifar10": 1_000})
    assert list(rows) == ["ours", "tutorial"]
    row = rows["ours"]
    assert (row["images_per_second"], row["run_epochs_per_hour"]) == (90, 324)
    assert (row["share_of_matmul"], row["share_of_copy"]) == (0.2, 0.5)
    assert row["ratios"] == {"tutorial": 3.0}  # the median of 3, 2 and 10
    assert rows["tutorial"]["note"] == "2 turns"


def test_machine_rates_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of 1536 x 1536 matrices, and a copy of 2^24 float32 values, which are read and written, in 2 s each."""
    timer = SimpleNamespace(blocked_autorange=lambda: SimpleNamespace(median=2.0))
    monkeypatch.setattr(measure, "Timer", lambda call, **options: timer)
    assert machine_rates(Plan("cpu", 1, 2, 2, 1.0)) == {"matmul_flops": 1536**3, "copy_bytes": 4 * 2**24}


def test_gpu_workloads_are_those_of_the_plan() -> None:
    assert default_names(Plan("cuda", 1, 2, 2, 1.0)) == [
        "tutorial",
        *(f"{model}-bf16{mode}" for model in ("timm", "vit-pytorch") for mode in ("", "-compiled")),
        "ours-bf16",
        "ours-bf16-stacked-eager",
        "ours-bf16-stacked",
        "ours-bf16-stacked-compiled",
        "ours-bf16-mps",
    ]


def test_mps_is_skipped_without_a_gpu_or_its_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "MPS_CONTROL", "no-such-program")
    for device, reason in (("cpu", "NVIDIA MPS needs a GPU"), ("cuda", "No such file or directory: 'no-such-program'")):
        with pytest.raises(WorkloadError, match=reason), mps_server(device):
            pass


def test_mps_daemon_is_started_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control, log = tmp_path / "control", tmp_path / "log"
    control.write_text(
        f'#!/bin/sh\necho "$1 $(cat) $CUDA_MPS_PIPE_DIRECTORY" >> {log}; exit $(cat {tmp_path}/status)\n'
    )
    control.chmod(0o755)
    monkeypatch.setattr(harness, "MPS_CONTROL", str(control))
    (tmp_path / "status").write_text("0")
    with mps_server("cuda") as env:
        folder = env["CUDA_MPS_PIPE_DIRECTORY"]
        assert Path(folder).is_dir()
    assert log.read_text().splitlines() == [f"-d  {folder}", f" quit {folder}"]
    (tmp_path / "status").write_text("1")
    with pytest.raises(WorkloadError, match="failed with status 1"), mps_server("cuda"):
        pass


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "experiments.bench", *arguments]
    return subprocess.run(command, cwd=REPO, env=os.environ, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_dry_run(tmp_path: Path) -> None:
    out = tmp_path / "new" / "bench.json"
    done = bench("--dry-run", "--device", "cpu", "--out", str(out))
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    names = ["tutorial", "timm", "vit-pytorch", "ours", "ours-stacked", "ours-one-process", "digits", "digits-stacked"]
    assert list(results["workloads"]) == names
    for name, row in results["workloads"].items():
        assert row["note"] == "" and row["peak_memory_bytes"] > 0
        assert row["images_per_second"] == row["turns"][0] > 0
        if name.startswith("digits"):
            assert row["ratios"] == {} and row["share_of_matmul"] is None
            continue
        assert row["share_of_matmul"] > 0 and row["share_of_copy"] > 0
        assert row["run_epochs_per_hour"] == pytest.approx(row["images_per_second"] / 49_000 * 3600)
        assert list(row["ratios"]) == ["tutorial", "timm"]
    for name in ("tutorial", "timm"):
        assert results["workloads"][name]["ratios"][name] == 1.0
    assert results["machine"]["matmul_flops"] > 0 and results["machine"]["copy_bytes"] > 0
    assert results["setting"]["device"] == "cpu" and "generated" in results["setting"]["data"]
    assert str(Path.home()) not in out.read_text()
    assert done.stdout == command.table(results)
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [*names, "machine:"]
    assert [path.name for path in out.parent.iterdir()] == ["bench.json"]


def test_results_are_kept_when_the_command_is_stopped(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    arguments = [sys.executable, "-m", "experiments.bench", "--dry-run", "--device", "cpu", "--out", str(out)]
    process = subprocess.Popen([*arguments, "--only", "ours-bf16-mps", "ours", "tutorial"], cwd=REPO)
    while not (out.exists() and "ours-bf16-mps" in out.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(100) == 143
    results = json.loads(out.read_text())
    assert results["workloads"]["ours-bf16-mps"]["note"] == "skipped: NVIDIA MPS needs a GPU"
    assert "ours-bf16-mps: skipped: NVIDIA MPS needs a GPU" in command.table(results)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batches", "1"], "batches: 1 is not allowed; at least 2"),
        (["--rounds", "0"], "rounds: 0 is not allowed; at least 1"),
        (["--runs", "1"], "runs: 1 is not allowed; at least 2"),
        (["--seconds", "nan"], "seconds: nan is not allowed; at least 1"),
        (
            ["--data-root", "nowhere"],
            "data-root: 'nowhere' has no folder cifar-10-batches-py; without it, images are generated",
        ),
        (["--out", "x.md"], "out: 'x.md' is not allowed: a name that ends in .json"),
        (["--out", "old.json"], "out: 'old.json' exists; delete it, or choose another name with --out"),
        (["--out", "old.json/x.json"], "out: 'old.json/x.json' cannot be written"),
        (
            ["--device", "cuda:99"],
            "device: 'cuda:99' is not available; allowed: auto, cpu, or a GPU's name such as cuda:0",
        ),
        (["--only", "tim"], "only: 'tim' is not a workload; did you mean 'timm'? allowed: " + ", ".join(NAMES)),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.json").write_text("{}")
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)
    assert exit_.value.code == 2
    assert capsys.readouterr() == ("", f"experiments.bench: error: {message}\n")
    assert os.listdir() == ["old.json"] and Path("old.json").read_text() == "{}"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_dry_run_on_a_gpu(tmp_path: Path) -> None:
    done = bench("--dry-run", "--device", "cuda", "--out", str(tmp_path / "bench.json"))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "bench.json").read_text())
    notes = {name: row["note"] for name, row in results["workloads"].items() if row["note"]}
    assert set(notes) <= {"ours-bf16-mps"}, notes
