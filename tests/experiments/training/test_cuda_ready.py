"""Failures that would otherwise show only on a GPU, found on the CPU: kernel choice, synchronisation, compilation,
memory.
"""

import contextlib
import itertools
from collections import Counter
from typing import Any

import movements
import pytest
import tiny
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.compared import RunSpec
from experiments.config import RunConfig, override
from experiments.data import loading
from experiments.data.loading import Images, Splits
from experiments.presets import preset
from experiments.runs.run import train
from experiments.training import fit, stacked
from experiments.training import step as step_module
from experiments.training import trainer as trainers
from experiments.training.stacked import Stacked
from experiments.training.step import DeviceStep
from experiments.training.tables import epoch_tables
from vit import ViT, kernels
from vit.registry import REGISTRY

CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11), reason="names operators of PyTorch from 2.11 on"
)


@pytest.fixture(autouse=True)
def forms_of_a_gpu(monkeypatch):
    """Attention and linear layers as on a GPU."""
    monkeypatch.setattr(kernels, "is_faster_in_parts", lambda q, k: False)
    monkeypatch.setattr(kernels, "in_parts", lambda x: True)


ONE_OF_EACH_FAMILY = ("learned-1d", "relative", "rope-2d", "cpe")
# kinds with a bias -> whether it is learned
BIASED = {
    "rel-bias-2d": True,
    "relative": True,
    "irpe-k": True,
    "relative-2d-kv": True,
    "pape": True,
    "alibi-2d": False,
    "lookhere": False,
}


def cohort(name: str, runs: int, **changes: object) -> list[RunConfig]:
    base = override(preset(name), {key.replace("__", "."): value for key, value in changes.items()})
    return [override(base, {"seed": seed}) for seed in range(runs)]


def inputs(configs: list[RunConfig]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Arguments of a training step: images, labels, dropout keys, number of the step."""
    first, runs = configs[0], len(configs)
    (channels, side), batch = first.data.image_shape, first.train.batch_size
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(
        runs, batch, channels, side, side, generator=generator, dtype=trainers.DTYPES[first.train.precision]
    )
    y = torch.randint(0, 10, (runs, batch), generator=generator)
    return x, y, torch.zeros(runs, dtype=torch.int32), torch.zeros(1, dtype=torch.int64)


HEADS = ({"model__num_heads": 4}, {"model__num_heads": 2, "model__pool": "map"})
# of each kind, alone and stacked with both heads; the precision takes turns, so that each meets all others
FUSED = [
    (kind, runs, heads, ("float32", "bfloat16", "float64")[(number + at) % 3])
    for number, kind in enumerate(REGISTRY)
    for at, (runs, heads) in enumerate(itertools.product((1, 3), HEADS))
]


@pytest.mark.parametrize(("kind", "runs", "heads", "precision"), FUSED)
def test_each_layer_calls_fused_attention_once_on_differentiable_tensors(kind, runs, heads, precision, monkeypatch):
    """PyTorch chooses the CUDA kernel by `requires_grad`, which tensors inside `vmap` do not have."""
    seen, real = [], F.scaled_dot_product_attention

    def recorder(q, k, v, attn_mask=None, **more):
        tensors = [q, k, v] + [attn_mask] * (attn_mask is not None)
        assert not any(map(torch._C._functorch.is_batchedtensor, tensors))
        seen.append(
            (q.requires_grad, k.requires_grad, v.requires_grad, attn_mask is not None and attn_mask.requires_grad)
        )
        return real(q, k, v, attn_mask=attn_mask, **more)

    monkeypatch.setattr(F, "scaled_dot_product_attention", recorder)
    changes = {"model__pos_embed": kind, "model__depth": 2, "train__precision": precision, "train__batch_size": 4}
    configs = cohort("digits", runs, **changes, **heads)
    tiny.trainer(configs).train_step(*inputs(configs))
    layers = [(True, True, True, BIASED.get(kind, False))] * 2
    assert seen == layers + [(True, True, True, False)] * ("model__pool" in heads)


ATOMIC = {"IndexBackward0", "GatherBackward0", "IndexSelectBackward0", "EmbeddingBackward0", "UnfoldBackward0"}


def backward_names(tensor: Tensor) -> set[str]:
    """The names of all nodes of the autograd graph of a tensor."""
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [parent for parent, _ in node.next_functions]
    return {type(node).__name__ for node in seen}


@pytest.mark.parametrize("kind", BIASED)
def test_biases_train_without_atomic_additions_on_a_gpu(kind):
    """The order of atomic additions varies, and with it the rounding. A stack on fake CUDA tensors."""
    (config,) = cohort("digits", 1, model__pos_embed=kind, model__depth=1)
    model = ViT(config.vit_config(10))
    with FakeTensorMode(allow_non_fake_inputs=False), torch.device("cuda"):
        stacks = {name: torch.empty(2, *p.shape, requires_grad=True) for name, p in model.named_parameters()}
        shared = {name: torch.empty(b.shape, dtype=b.dtype) for name, b in model.named_buffers()}
        keys, x = torch.zeros(2, dtype=torch.int32), torch.zeros(2, 4, 1, 8, 8)
        scores = vmap(lambda own, x, key: functional_call(model, {**own, **shared}, (x, key)))(stacks, x, keys)
    assert not backward_names(scores) & ATOMIC


@pytest.mark.parametrize(("runs", "heads"), [(1, 4), (10, 4), (66, 4), (10, 12), (64, 1), (1000, 12)])
def test_evaluation_stays_within_the_grid_limit_of_attention(runs, heads):
    configs = cohort("digits", 1, model__num_heads=heads, model__embed_dim=48) * runs
    images = trainers.eval_batch(configs, torch.device("cuda"))
    assert 1 <= images <= trainers.EVAL_BATCH
    assert runs * images <= 65_535
    assert images == 1000 or runs * (images + 1) > 65_535, "as many images as possible"


def graphs_of_a_step(configs: list[RunConfig], rtol: float) -> list[torch.fx.GraphModule]:
    """The graphs, forward and backward, of a stacked step by aot_autograd; its loss is the eager one."""
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    eager, compiled = tiny.trainer(configs), tiny.trainer(configs)
    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
    compiled._train = torch.compile(compiled._train, backend=backend, fullgraph=True)
    expected, loss = eager.train_step(*inputs(configs))[0], compiled.train_step(*inputs(configs))[0]
    torch.testing.assert_close(loss, expected, rtol=rtol, atol=0)
    return graphs


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        *(
            pytest.param(kind, "bfloat16", marks=() if kind in ONE_OF_EACH_FAMILY else pytest.mark.slow)
            for kind in REGISTRY
        ),
        pytest.param("rel-bias-2d", "float32", marks=pytest.mark.slow),
        ("none", "float32"),
    ],
)
def test_the_stacked_step_is_one_graph(kind, precision):
    """It traces as a whole, has no operation that waits for the device, and gives the loss of the eager step."""
    changes = {"model__pos_embed": kind, "train__precision": precision, "model__depth": 1, "train__batch_size": 8}
    configs = cohort("digits", 3, model__pos_drop_rate=0.1, **changes)
    graphs = graphs_of_a_step(configs, 1e-2 if precision == "bfloat16" else 1e-5)
    operations = {str(node.target) for graph in graphs for node in graph.graph.nodes if node.op == "call_function"}
    assert len(graphs) == 2
    assert not {name for name in operations if "local_scalar" in name or "nonzero" in name}


OF_THE_MODEL = [flags for flags in movements.FLAGS if not any(name.startswith("data__") for name in flags)]


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
@pytest.mark.parametrize("others", [False, True])
def test_the_stacked_step_is_one_graph_with_all_flags(others):
    """An operation that cannot be traced is an error wherever it is. Sliced attention and post-norm exclude some."""
    flags = {"train__label_smoothing": 0.1}
    for each in OF_THE_MODEL:
        flags |= each if bool({"model__norm", "model__attn"} & {*each}) == others else {}
    configs = cohort("digits", 2, model__depth=1, train__batch_size=8, **flags)
    assert len(graphs_of_a_step(configs, 1e-5)) == 2


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("mode", ["none", "default"])
def test_batches_are_padded_on_a_gpu_and_for_compiled_steps_only(device, mode):
    """On the CPU, uncompiled, sums stay in the order in which published results were computed."""
    (config,) = cohort("digits", 1, train__compile=mode)
    assert trainers.static_shape(config, torch.device(device)) == (device == "cuda" or mode == "default")


@pytest.mark.parametrize("runs", [1, 2], ids=["alone", "stack"])
def test_engines_of_one_configuration_share_a_compiled_step(runs, monkeypatch):
    """Other seeds, evaluation between steps and a resume compile nothing again, and each trainer trains its own
    weights.
    """
    graphs: list[torch.fx.GraphModule] = []

    def compiler(function, mode, **options):
        return torch_compile(function, backend=lambda graph, _: graphs.append(graph) or graph.forward, **options)

    torch_compile = torch.compile
    monkeypatch.setattr(torch, "compile", compiler)
    monkeypatch.setattr(trainers, "_compiled", {})
    for seeds in (range(runs), range(runs, 2 * runs)):
        configs = [tiny.config(seed=s, model__mlp_drop_rate=0.2, train__compile="default") for s in seeds]
        plain = [override(config, {"train.compile": "none"}) for config in configs]
        splits = loading.load(configs[0])
        compiled, expected = tiny.trainer(configs), tiny.trainer(plain)
        monkeypatch.setattr(step_module, "static_shape", lambda config, device: True)
        for ours, theirs in zip(fit.fit(compiled, splits), fit.fit(expected, splits), strict=True):
            assert ours == [pytest.approx(row, rel=1e-4) for row in theirs]
    assert len(graphs) == 1


@pytest.mark.parametrize("epoch", [0, 1], ids=["in the first step", "after an epoch"])
def test_a_cohort_that_does_not_fit_is_halved_once(epoch, tmp_path, monkeypatch):
    """All five runs are trained; each row is reported once, and the records name the members of the last cohort."""
    specs = [RunSpec.of(f"s{seed}", tiny.config(seed=seed, train__precision="float64")) for seed in range(5)]
    expected = train(specs, tmp_path / "fits", device="cpu")
    step, steps_per_epoch, taken, rows = Stacked.train_step, 3, [0], []

    def exhausted(self, *batch):
        taken[0] += 1
        if len(self.configs) > 3 and taken[0] > epoch * steps_per_epoch:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
        return step(self, *batch)

    monkeypatch.setattr(Stacked, "train_step", exhausted)
    found = train(specs, tmp_path / "halved", device="cpu", on_row=lambda i, row: rows.append((i, row["epoch"])))
    assert sorted(rows) == [(i, e) for i in range(5) for e in (1, 2, 3)]
    ids = [spec.run_id for spec in specs]
    assert {summary["cost"]["cohort"] for summary in expected} == {5}
    for run_id, ours, theirs in zip(ids, found, expected, strict=True):
        members = ours["cost"]["cohort_runs"]
        assert run_id in members
        assert len(members) == ours["cost"]["cohort"] in (2, 3)
        assert theirs["cost"]["cohort_runs"] == ids
        for key in ("train/loss", "val/loss", "test/loss"):
            assert ours[key] == pytest.approx(theirs[key], abs=1e-6)


class CountOperations(TorchDispatchMode):
    """Count the operations that launch work on a device: no views, no allocations."""

    FREE = ("aten::empty", "aten::new_empty", "aten::detach", "aten::alias", "aten::lift_fresh", "aten::_unsafe_view")

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = func._schema.name
        if not func.is_view and name.startswith("aten::") and not name.startswith(self.FREE):
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("precision", "limit"), [("float32", 276), ("bfloat16", 308)])
def test_a_training_step_of_a_stack_has_a_bounded_number_of_operations(precision, limit, monkeypatch):
    """Data, forward, backward and update of eight runs, with one attention operation per layer as on a GPU."""
    monkeypatch.setattr(stacked, "sdpa_kernel", lambda backend: contextlib.nullcontext())
    monkeypatch.setattr(kernels, "_LEAST_ROWS", 100)  # gradients in parts, as with a whole batch
    configs = cohort("tintn-cifar10", 8, train__precision=precision, train__batch_size=8)
    part = Images(torch.randint(0, 256, (16, 3, 32, 32), dtype=torch.uint8), torch.randint(0, 10, (16,)))
    splits = Splits(part, part, part, tuple("0123456789"), torch.full((3,), 0.5), torch.full((3,), 0.5))
    step = DeviceStep(tiny.trainer(configs), splits)
    step._load(epoch_tables(configs, 16, 0, 8))
    for mode in (contextlib.nullcontext(), CountOperations()):  # the first step creates the optimiser's state
        with mode as counted:
            step._run(8)
    assert counted.counts.total() <= limit, counted.counts.most_common(20)


@pytest.mark.parametrize("kind", ["learned-1d", "relative", "cpe"])
def test_a_stack_in_bfloat16_computes_what_a_single_run_computes(kind):
    """The losses of a few steps are those of float32, up to the precision of bfloat16, as for single runs."""
    optim = {"optim__name": "sgd", "optim__lr": 0.1, "optim__schedule": "constant"}
    configs = cohort("digits", 3, model__pos_embed=kind, train__batch_size=16, **optim)

    def losses(precision, together):
        chosen = [override(config, {"train.precision": precision}) for config in configs]
        x, y, keys, number = inputs(chosen)
        parts = [slice(0, 3)] if together else [slice(r, r + 1) for r in range(3)]
        found = []
        for part in parts:
            trainer = tiny.trainer(chosen[part])
            trainer.optimizer.start_epoch(0, 1)
            steps = [trainer.train_step(x[part], y[part], keys[part], number) for _ in range(5)]
            found.append(steps[-1][0].double())
        return torch.cat(found)

    exact = losses("float32", together=True)
    for together in (False, True):
        assert (losses("bfloat16", together) - exact).abs().max() < 5e-3
