"""One row of a study trained again, alone: its runs, as `plan` numbers them."""

from stubbed import Stubbed
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


def test_only_takes_the_name_that_the_study_file_gives_to_a_variant(tmp_path):
    study = Stubbed(tmp_path, labels={"softmax": "Softmax head"})
    status, _, err = study.run("--only", "Softmax head", "--tracking", "off")
    assert status == 0 and {run.rpartition("-s")[0] for run in study.ended()} == {"softmax"}, err
    status, _, err = study.run("--only", "Softmax haed", "--tracking", "off")
    assert status == 2 and "did you mean 'Softmax head'" in err
