"""What is asked: the flags of `vit-report` and the arguments of Python are the same fields, with the same checks."""

import pandas as pd
import pytest
from commands import refusal

import analysis
from analysis.options import ReportOptions, add_flags
from experiments.cli import Parser

FRAME = pd.DataFrame({"m": list("aabb"), "lr": [1, 2, 1, 2], "seed": [0, 0, 0, 0], "acc": [1.0, 2.0, 3.0, 4.0]})


def by_flags(*words):
    parser = Parser("vit-report")
    add_flags(parser, "report")
    return ReportOptions.of_flags(parser.parse_args(words), "")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), {}),
        (("--metric", "acc", "--factor", "m", "--factor", "lr"), {"metric": "acc", "factor": ["m", "lr"]}),
        (("--factor", "0", "--seed", "1", "--baseline", "2"), {"factor": 0, "seed": 1, "baseline": 2}),
        (("--where", "a=1", "--where", "b=x"), {"where": {"a": 1, "b": "x"}}),
        (("--failed", "State!=finished"), {"failed": "State!=finished"}),
        (("--margin", "0.5", "--lower-is-better"), {"margin": 0.5, "lower_is_better": True}),
        (("--unpaired",), {"unpaired": True}),
        (("--last", "epoch", "--mean-over", "fold"), {"last": "epoch", "mean_over": "fold"}),
        (("--variance", "shared"), {"variance": "shared", "margin": None}),
        (("--family", "baseline", "--dataset", "d", "--skip_unreadable"), {"family": "baseline", "dataset": "d"}),
    ],
)
def test_the_shell_and_python_ask_the_same(words, asked):
    one, other = (
        by_flags(*words),
        ReportOptions.of(**asked, **({"skip_unreadable": True} if "--dataset" in words else {})),
    )
    assert one == other and one.given == other.given


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"factors": "m"}, "factors: no such argument; did you mean 'factor'?"),
        ({"out": "x"}, "out: no such argument; allowed: metric, baseline, skip_unreadable, factor, seed, unpaired, "),
        ({"metric": ["acc"]}, "metric: ['acc'] is not allowed: expected one text"),
        ({"margin": True}, "margin: True is not allowed: expected a number"),
        ({"margin": float("nan")}, "margin: nan is not allowed: expected a number above 0"),
        ({"lower_is_better": "no"}, "lower_is_better: 'no' is not allowed: input should be a valid boolean"),
        ({"variance": "pooled"}, "variance: 'pooled' is not allowed: input should be 'shared' or 'paired'"),
        ({"variance": "paired", "unpaired": True}, "unpaired: is not allowed with variance"),
    ],
)
def test_an_argument_that_is_not_allowed_is_one_line_that_names_it(asked, said):
    assert said in refusal(analysis.compare, FRAME, **{"metric": "acc", **asked})


def test_the_help_of_python_has_every_argument():
    assert "margin: smaller differences count as equal" in analysis.read.__doc__
    assert "--" not in "".join(line for line in analysis.read.__doc__.splitlines() if "skip_unreadable" in line)
