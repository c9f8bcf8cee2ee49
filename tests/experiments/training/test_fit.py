"""The schedule against torch's, evaluation, and what depends on the seed."""

from collections.abc import Iterator

import pytest
import tiny
import torch
import torch.nn.functional as F
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR

from experiments.config import RunConfig
from experiments.data import loading
from experiments.training.fit import evaluate, fit
from experiments.training.optimizer import learning_rate
from experiments.training.tables import epoch_tables
from experiments.training.trainer import Solo, initial_model

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def splits():
    return loading.load(tiny.config())


def rows(config: RunConfig, splits: loading.Splits) -> list[dict[str, float]]:
    return [row for (row,) in fit(Solo([config], 10, CPU), splits)]


def torch_schedule(config: RunConfig, steps_per_epoch: int) -> Iterator[float]:
    """The same schedule, built from torch's schedulers."""
    total = config.train.epochs * steps_per_epoch
    warmup = round(config.optim.warmup_epochs * steps_per_epoch)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=config.optim.lr)
    rise = LinearLR(optimizer, 1 / max(warmup, 1), 1.0, max(warmup - 1, 1)) if warmup else None
    fall = (
        CosineAnnealingLR(optimizer, total - warmup, config.optim.min_lr)
        if total > warmup
        else ConstantLR(optimizer, 1.0)
    )
    schedule = SequentialLR(optimizer, [rise, fall], [warmup]) if rise else fall
    for _ in range(total):
        yield optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()


@pytest.mark.filterwarnings("ignore:.*epoch parameter in .scheduler.step:UserWarning")
@pytest.mark.parametrize("lowest", [0, 1e-5])
@pytest.mark.parametrize(
    ("epochs", "warmup", "steps"), [(5, 0, 7), (5, 1, 7), (5, 2.5, 4), (3, 1, 1), (10, 2, 21), (3, 5, 4)]
)
def test_warm_up_and_cosine_equal_torchs(epochs, warmup, steps, lowest):
    config = tiny.config(train__epochs=epochs, optim__warmup_epochs=warmup, optim__lr=0.01, optim__min_lr=lowest)
    ours = [learning_rate(config, step, steps) for step in range(epochs * steps)]
    assert ours == pytest.approx(list(torch_schedule(config, steps)), rel=1e-9, abs=1e-12)


def test_a_constant_schedule_has_no_warm_up():
    assert all(learning_rate(tiny.config(optim__schedule="constant"), step, 2) == 5e-3 for step in range(6))


def test_rows_have_the_learning_rate_of_the_last_step(splits):
    config = tiny.config()  # 80 images in batches of 32: 3 steps an epoch
    assert [row["lr"] for row in rows(config, splits)] == [learning_rate(config, step, 3) for step in (2, 5, 8)]


def test_evaluation_is_the_mean_over_images_for_any_batch_size(splits, monkeypatch):
    config = tiny.config(model__mlp_drop_rate=0.5, train__label_smoothing=0.3, train__precision="float64")
    trainer = Solo([config], 10, CPU)
    with torch.no_grad():
        scores = initial_model(config, 10).eval()(splits.normalized(splits.scaled(splits.test.x, torch.float64)))
    expected = float(F.cross_entropy(scores, splits.test.y)), float((scores.argmax(1) == splits.test.y).double().mean())
    for size in (1000, 7):
        monkeypatch.setattr("experiments.training.trainer.EVAL_BATCH", size)
        (found,) = evaluate(trainer, splits, splits.test)
        assert (found.loss, found.accuracy) == pytest.approx(expected, rel=1e-9)


def test_everything_random_depends_on_the_seed_only(splits):
    changes = {"data__hflip": True, "model__mlp_drop_rate": 0.1}
    same, again, other = (tiny.config(seed=seed, **changes) for seed in (0, 0, 1))
    assert rows(same, splits) == rows(again, splits)
    first, second = (initial_model(c, 10).state_dict() for c in (same, other))
    assert all(
        not torch.equal(first[key], second[key]) for key in ("patch_embed.proj.weight", "cls_token", "pos.0.table")
    )
    one, two = (set(epoch_tables([config], 80, 0, 32).numbers["keys"].flatten().tolist()) for config in (same, other))
    assert one.isdisjoint(two)  # dropout; test_step has batches and augmentation


def test_training_does_not_use_torchs_global_generator(splits):
    config = tiny.config(data__hflip=True, model__attn_drop_rate=0.2)
    torch.manual_seed(1)
    first = rows(config, splits)
    state = torch.get_rng_state()
    torch.manual_seed(2)
    assert rows(config, splits) == first
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)  # training leaves its state unchanged
