"""What reports call the variants of a study."""

from synthetic import results_of

BASE = {"model.mlp": "plain", "model.layer_scale": None, "model.pool": "cls"}
CHANGES = {
    "mlp=swiglu, layer_scale=0.1": {"model.mlp": "swiglu", "model.layer_scale": 0.1},
    "pool=gap": {"model.pool": "gap"},
}


def test_where_each_variant_changes_one_thing_its_name_says_only_what_differs_from_the_base(tmp_path):
    baseline = "mlp=plain, layer_scale=none, pool=cls"
    findings = results_of(
        tmp_path,
        accuracy={baseline: 0.7, **dict.fromkeys(CHANGES, 0.8)},
        factors={path: [level] for path, level in BASE.items()},
        extra=list(CHANGES.values()),
        levels=lambda variant: {**BASE, **CHANGES.get(variant, {})},
        baseline=baseline,
    )
    assert findings.variants.brief == {name: name for name in (baseline, *CHANGES)}
    assert findings.variants.levels is None and findings.factors.skipped_reason == ""
