"""One row of a study trained again, alone: its runs, as `plan` numbers them."""

import pytest
from study_file import read_study


def test_only_trains_the_runs_of_a_variant_and_plan_names_what_is_left(stubbed):
    words = ("run", stubbed.study, "--out", stubbed.folder, "--only", "softmax", "--tracking", "off")
    status, out, err = stubbed(*words)
    assert status == 0 and "2 variants x 3 seeds, 3 runs to train" in out, err
    assert {run.rpartition("-s")[0] for run in stubbed.ended()} == {"softmax"} and stubbed.ended().total() == 3
    command = f"vit-sweep run {stubbed.study} --out {stubbed.folder} --tracking off"
    assert read_study(stubbed.dir)["command"] == command  # the report prints it
    status, out, _ = stubbed("plan", stubbed.study, "--out", stubbed.folder)
    assert out.splitlines()[-3:] == ["0: logits, seed 0", "2: logits, seed 1", "4: logits, seed 2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "sofmax"), "--only: 'sofmax' is not a variant of tiny; did you mean 'softmax'? allowed: logits, "),
        (("--only", "softmax", "--until-decided"), "--only: is not allowed with --until-decided"),
    ],
)
def test_only_of_what_cannot_be_trained_alone_is_refused(words, said, stubbed):
    status, _, err = stubbed("run", stubbed.study, "--out", stubbed.folder, *words)
    assert status == 2 and said in err and err.count("\n") == 1 and not stubbed.dir.exists()
