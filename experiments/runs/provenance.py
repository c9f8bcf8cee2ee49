"""The provenance of a result: code, versions, hardware, command and plug-ins; and the cost of a model."""

import contextlib
import functools
import hashlib
import importlib.metadata
import math
import platform
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from experiments.catalogue import DATASETS
from experiments.config import RunConfig
from experiments.runs import record
from experiments.version import code, is_committed, uncommitted_diff
from vit import ViT, plugins
from vit.registry import REGISTRY

PACKAGES = ("vit-ablation", "torch", "torchvision", "numpy", "optuna", "wandb", "scikit-learn")


@functools.cache
def versions() -> dict[str, str]:
    """Version of Python and of each package that a result can depend on."""
    packages = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # a checkout, or an optional package
            packages[package] = importlib.metadata.version(package)
    return packages


def hardware(device: torch.device) -> dict[str, Any]:
    """The device of a run: its type, its name and the number of CPU threads."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_name()
    return {"device": device.type, "name": name, "threads": torch.get_num_threads()}


def session(device: torch.device) -> dict[str, Any]:
    """The code and the machine of one session of a run's training. `diff`: the SHA-256 of its uncommitted changes."""
    diff = uncommitted_diff()
    return {
        **code(),
        **({"diff": hashlib.sha256(diff).hexdigest()} if diff else {}),
        "torch": versions().get("torch"),
        "hardware": hardware(device),
    }


@functools.cache
def _cpu_name() -> str:
    with contextlib.suppress(OSError):  # only Linux has this file
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _plugins(config: RunConfig) -> dict[str, tuple[str, plugins.Source | None]]:
    """The plug-ins of a run, by their name in its summary and folder: module, and source where it has a file."""
    kind, dataset = REGISTRY[config.model.pos_embed], DATASETS[config.data.name]
    used = {record.PLUGIN: (kind.cls.__module__, kind.plugin)} if kind.is_plugin else {}
    return {**used, **({record.DATA_PLUGIN: (dataset.read.__module__, dataset.plugin)} if dataset.read else {})}


def source_files(config: RunConfig) -> dict[str, bytes]:
    """The sources of the run's plug-ins, as files of the run's folder: name -> content. Empty without any."""
    sources = {part: source.files for part, (_, source) in _plugins(config).items() if source}
    return {f"{part}/{name}": body for part, files in sources.items() for name, body in files.items()}


def plugin(config: RunConfig) -> dict[str, Any]:
    """What the summary says of the run's plug-ins, an embedding and a dataset; {} without any.

    `modules` is the value of VIT_PLUGINS without the folders of files, `digest` is `vit.plugins.digest` of the copy in
    the run's folder, `committed` whether git holds the same source. Without a source file, as in a notebook, the latter
    two are None.
    """
    names = dict.fromkeys(Path(name).name for name in plugins.names())
    return {
        part: {
            "modules": ",".join(names) or module,
            "digest": source and source.digest,
            "committed": source and is_committed(source.folder, tuple(source.files)),
        }
        for part, (module, source) in _plugins(config).items()
    }


class _Flops(TorchFunctionMode):
    """Adds up the FLOPs of products, convolutions and attention, two for a multiply-add.

    torch's `FlopCounterMode` counts the same, but it imports `torch._dynamo`, which takes a second.
    """

    total = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out, name = func(*args, **(kwargs or {})), getattr(func, "__name__", "")
        if name in ("attend", "scaled_dot_product_attention"):
            self.total += 2 * args[1].shape[-2] * (args[0].numel() + out.numel())
        elif name in ("linear", "matmul", "bmm", "mm", "__matmul__"):
            self.total += 2 * out.numel() * args[0].shape[-1]
        elif name == "conv2d":
            self.total += 2 * out.numel() * args[1][0].numel()
        elif name == "einsum":
            names = args[0].partition("->")[0].split(",")
            sizes = {i: n for indices, x in zip(names, args[1:], strict=True) for i, n in zip(indices, x.shape)}
            self.total += 2 * math.prod(sizes.values())
        return out


def model_cost(model: ViT) -> dict[str, int]:
    """The number of learned parameters and of fixed position values, and the FLOPs of a forward pass of one image."""
    stored, cfg, training = model.state_dict(keep_vars=True).values(), model.cfg, model.training
    image = next(model.parameters()).new_zeros(1, cfg.in_chans, cfg.img_size, cfg.img_size)
    with _Flops() as flops, torch.no_grad():
        model.eval()(image)
    model.train(training)
    return {
        "params": sum(t.numel() for t in stored if t.requires_grad),
        "params_fixed": sum(t.numel() for t in stored if not t.requires_grad),
        "flops_per_image": flops.total,
    }
