"""Training against a plain torch loop, the schedule against torch's, and what depends on the seed."""

import math
from collections.abc import Iterator

import pytest
import tiny
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR

from experiments.config import RunConfig
from experiments.data import loading
from experiments.memory import ImageDoesNotFit
from experiments.training.engine import Solo, initial_model
from experiments.training.fit import evaluate, fit
from experiments.training.optimizer import learning_rate

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def splits():
    return loading.load(tiny.config())


def rows(config: RunConfig, splits: loading.Splits) -> list[dict[str, float]]:
    return [row for (row,) in fit(Solo([config], 10, CPU), splits)]


def batches(config: RunConfig, splits: loading.Splits) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The inputs of every training step: images, labels, dropout key."""
    seen: list[tuple[Tensor, Tensor, Tensor]] = []

    class Spy(Solo):
        def train_step(self, x: Tensor, y: Tensor, keys: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
            seen.append((x[0].clone(), y[0].clone(), keys[0].clone()))
            return super().train_step(x, y, keys, number)

    list(fit(Spy([config], 10, CPU), splits))
    return seen


def torch_schedule(config: RunConfig, steps_per_epoch: int) -> Iterator[float]:
    """The same schedule, built from torch's schedulers."""
    total = config.train.epochs * steps_per_epoch
    warmup = round(config.optim.warmup_epochs * steps_per_epoch)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=config.optim.lr)
    rise = LinearLR(optimizer, 1 / max(warmup, 1), 1.0, max(warmup - 1, 1)) if warmup else None
    fall = CosineAnnealingLR(optimizer, total - warmup) if total > warmup else ConstantLR(optimizer, 1.0)
    schedule = SequentialLR(optimizer, [rise, fall], [warmup]) if rise else fall
    for _ in range(total):
        yield optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()


@pytest.mark.filterwarnings("ignore:.*epoch parameter in .scheduler.step:UserWarning")
@pytest.mark.parametrize(
    ("epochs", "warmup", "steps"), [(5, 0, 7), (5, 1, 7), (5, 2.5, 4), (3, 1, 1), (10, 2, 21), (3, 5, 4)]
)
def test_warm_up_and_cosine_equal_torchs(epochs, warmup, steps):
    config = tiny.config(train__epochs=epochs, optim__warmup_epochs=warmup, optim__lr=0.01)
    ours = [learning_rate(config, step, steps) for step in range(epochs * steps)]
    assert ours == pytest.approx(list(torch_schedule(config, steps)), rel=1e-9, abs=1e-12)


def test_a_constant_schedule_has_no_warm_up():
    assert all(learning_rate(tiny.config(optim__schedule="constant"), step, 2) == 5e-3 for step in range(6))


def test_rows_have_the_learning_rate_of_the_last_step(splits):
    config = tiny.config()  # 80 images in batches of 32: 3 steps an epoch
    assert [row["lr"] for row in rows(config, splits)] == [learning_rate(config, step, 3) for step in (2, 5, 8)]


OPTIMISERS = {
    "adamw": lambda groups, lr: torch.optim.AdamW(groups, lr=lr),
    "adam": lambda groups, lr: torch.optim.Adam(groups, lr=lr),
    "sgd": lambda groups, lr: torch.optim.SGD(groups, lr=lr, momentum=0.9),
}


def clip(gradients: list[Tensor], max_norm: float) -> float:
    """Scale gradients to a total norm of at most `max_norm`; return their norm before."""
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
    for g in gradients:
        g *= min(1.0, max_norm / norm)
    return norm


@pytest.mark.parametrize(("name", "max_norm"), [*((name, 0.0) for name in OPTIMISERS), ("adamw", 2.0), ("sgd", 2.0)])
def test_training_equals_a_plain_torch_loop(name, max_norm, splits):
    """A training of 9 steps against the loop of a tutorial. Biases, norms, tokens and positions have no weight decay."""
    changes = {
        "optim__name": name,
        "optim__weight_decay": 0.1,
        "optim__grad_clip_norm": max_norm,
        "model__reg_tokens": 1,
    }
    config = tiny.config(train__precision="float64", train__label_smoothing=0.1, **changes)
    engine = Solo([config], 10, CPU)
    model = initial_model(config, 10)
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and not n.startswith("pos.")]
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    plain = OPTIMISERS[name](
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], config.optim.lr
    )
    rates = torch_schedule(config, 3)
    seen, expected, norms = batches(config, splits), [], []
    for epoch in range(3):
        losses, hits = [], 0
        for x, y, _ in seen[3 * epoch : 3 * epoch + 3]:
            rate = next(rates)
            for group in plain.param_groups:
                group["lr"] = rate
            scores = model.train()(x)
            loss = F.cross_entropy(scores, y, label_smoothing=0.1)
            plain.zero_grad()
            loss.backward()
            norms.append(clip([p.grad for p in model.parameters()], max_norm or math.inf))
            plain.step()
            losses += [loss.item()] * len(y)
            hits += int((scores.argmax(1) == y).sum())
        expected.append({"train/loss": sum(losses) / 80, "train/acc": hits / 80, "train/grad_norm": norms[-1]})
    got = [row for (row,) in fit(engine, splits)]
    assert not max_norm or min(norms) < max_norm < max(norms), "some steps must be clipped and some not"
    rel = 1e-5 if max_norm else 1e-9  # torch's clipping adds 1e-6 to the norm
    for ours, theirs in zip(got, expected, strict=True):
        assert {key: ours[key] for key in theirs} == pytest.approx(theirs, rel=rel)
    for key, p in model.named_parameters():
        torch.testing.assert_close(engine.weights()[key], p.detach(), rtol=rel, atol=1e-2 * rel)


def test_evaluation_is_the_mean_over_images_for_any_batch_size(splits, monkeypatch):
    config = tiny.config(model__mlp_drop_rate=0.5, train__label_smoothing=0.3, train__precision="float64")
    engine = Solo([config], 10, CPU)
    with torch.no_grad():
        scores = initial_model(config, 10).eval()(splits.normalized(splits.scaled(splits.test.x, torch.float64)))
    expected = float(F.cross_entropy(scores, splits.test.y)), float((scores.argmax(1) == splits.test.y).double().mean())
    for size in (1000, 7):
        monkeypatch.setattr("experiments.training.engine.EVAL_BATCH", size)
        (found,) = evaluate(engine, splits, splits.test)
        assert (found.loss, found.accuracy) == pytest.approx(expected, rel=1e-9)


def test_evaluation_uses_smaller_batches_where_memory_is_exhausted(splits, monkeypatch):
    engine = Solo([tiny.config(train__precision="float64")], 10, CPU)
    (expected,) = evaluate(engine, splits, splits.test)
    step, room = engine.eval_step, 9

    def limited(x, y, features=False):
        if len(x) > room:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return step(x, y, features)

    monkeypatch.setattr(engine, "eval_step", limited)
    (found,) = evaluate(engine, splits, splits.test)
    assert torch.equal(found.hits, expected.hits) and found.loss == pytest.approx(expected.loss, rel=1e-9)
    room = 0
    with pytest.raises(ImageDoesNotFit, match="^one image of 8 px does not fit in memory to evaluate it: "):
        evaluate(engine, splits, splits.test)


def test_every_epoch_has_every_image_once_in_a_new_order(splits):
    seen = batches(tiny.config(), splits)
    orders = [torch.cat([x for x, _, _ in seen[i : i + 3]]) for i in (0, 3, 6)]
    whole = splits.normalized(splits.scaled(splits.train.x))
    for order in orders:
        assert sorted(map(str, order.flatten(1).tolist())) == sorted(map(str, whole.flatten(1).tolist()))
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[1], orders[2])


def test_everything_random_depends_on_the_seed_only(splits):
    changes = {"data__hflip": True, "model__mlp_drop_rate": 0.1}
    same, again, other = (tiny.config(seed=seed, **changes) for seed in (0, 0, 1))
    assert rows(same, splits) == rows(again, splits)
    first, second = (initial_model(c, 10).state_dict() for c in (same, other))
    assert all(
        not torch.equal(first[key], second[key]) for key in ("patch_embed.proj.weight", "cls_token", "pos.0.table")
    )
    one, two = batches(same, splits), batches(other, splits)
    assert not torch.equal(torch.cat([y for _, y, _ in one]), torch.cat([y for _, y, _ in two]))  # order
    assert {int(key) for _, _, key in one}.isdisjoint(int(key) for _, _, key in two)  # dropout


def test_augmentation_depends_on_the_seed_and_not_on_the_order(splits):
    """About half of the 240 images in three epochs are mirrored; two seeds, or two epochs, agree on about half."""
    plain = splits.normalized(splits.scaled(splits.train.x))
    mirrored_in = []
    for seed in (0, 1):
        seen = torch.cat([x for x, _, _ in batches(tiny.config(data__hflip=True, seed=seed), splits)])
        straight, mirrored = (
            ((seen[:, None] - known[None]).flatten(2).abs().amax(2) < 1e-5).any(1) for known in (plain, plain.flip(-1))
        )
        assert bool((straight | mirrored).all())
        mirrored_in.append(mirrored)
    assert all(80 < int(some.sum()) < 160 for some in mirrored_in)  # 120, within 5 standard deviations
    assert 80 < int((mirrored_in[0] == mirrored_in[1]).sum()) < 160
    assert 17 < int((mirrored_in[0][:80] == mirrored_in[0][80:160]).sum()) < 63


def test_training_does_not_use_torchs_global_generator(splits):
    config = tiny.config(data__hflip=True, model__attn_drop_rate=0.2)
    torch.manual_seed(1)
    first = rows(config, splits)
    state = torch.get_rng_state()
    torch.manual_seed(2)
    assert rows(config, splits) == first
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)  # training leaves its state unchanged


def test_variants_with_the_same_seed_have_the_same_batches_and_dropout(splits):
    changes = {"data__hflip": True, "model__mlp_drop_rate": 0.1, "train__epochs": 1}
    ours, theirs = (batches(tiny.config(model__pos_embed=kind, **changes), splits) for kind in ("none", "rope-2d"))
    assert all(
        torch.equal(a, b) for mine, yours in zip(ours, theirs, strict=True) for a, b in zip(mine, yours, strict=True)
    )
