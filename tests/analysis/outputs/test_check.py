"""Runs of equal ids in two studies are compared metric by metric."""

from synthetic import write_study


def test_what_differs_is_named_with_its_largest_size_and_the_status_is_1(tmp_path, vit_report):
    seeds = {"seeds": 3, "spread": 0}
    first = write_study(tmp_path / "first", accuracy={"none": 0.5, "cpe": 0.9, "relative": 0.8}, **seeds)
    again = write_study(tmp_path / "again", accuracy={"none": 0.5, "cpe": 0.875}, **seeds)
    status, out, _ = vit_report("check", first, again)
    assert status == 1 and out.startswith("6 runs of equal ids in both, ")
    assert "\ntest/acc: 3 of 6 equal; largest difference 2.5 points (v1-s0)\n" in out
    assert vit_report("check", first, first)[:2] == (0, "9 runs of equal ids in both, 6 metrics: all equal\n")


def test_studies_without_a_run_in_common_and_one_alone_are_refused(tmp_path, refused):
    one, two = (write_study(tmp_path / kind, accuracy={kind: 0.5}, seeds=2) for kind in ("cpe", "none"))
    assert "has the run id of one of" in refused("check", one, two)
    assert "check: 1 study: expected two" in refused("check", one)
