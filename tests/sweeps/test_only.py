"""One row of a study trained again, alone: its runs, as `plan` numbers them."""

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
