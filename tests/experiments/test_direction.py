"""Which values are better is read from arrows and whole words of a name; what no arrow says is noted."""

import pytest

from experiments.direction import direction


@pytest.mark.parametrize(
    ("name", "lower", "noted"),
    [
        *[(name, True, True) for name in ("val_loss", "FIDScore", "eval/WER", "top1_err", "rmse (m)", "FPR95", "nll")],
        *[(name, True, False) for name in ("FID ↓", "Acc↓", "time ⬇")],
        *[
            (name, False, False)
            for name in ("acc", "mAP50", "nDCG@10", "loss ↑", "test_accuracy", "rougeL.f1", "AUROC")
        ],
        *[(name, False, True) for name in ("confidence", "restore", "werk", "lossless", "images_per_second", "x")],
        *[(name, False, True) for name in ("attack_success_rate", "reward_variance", "score_std", "acc_delta")],
        *[(name, True, True) for name in ("accuracy_drop", "time_ms", "bits_per_byte", "forgetting")],
        *[(name, False, True) for name in ("neg_mean_squared_error", "loss_reduction", "error_gain")],
    ],
)
def test_the_direction_of_a_name(name, lower, noted):
    found, notes = direction(name, None)
    way = "--higher-is-better, in Python higher_is_better=True" if lower else "--lower-is-better, in Python"
    assert found == lower and [way in note for note in notes] == [True] * noted


def test_the_user_decides():
    assert direction("loss", False) == (False, []) and direction("FID ↓", False) == (False, [])
    assert direction("acc", True) == (True, [])
