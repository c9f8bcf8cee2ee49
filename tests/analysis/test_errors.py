"""Bad input for `vit-report`: one line that names the field, the value and what is allowed, status 2, and no file."""

import re

import pytest
from synthetic import write_study

POSITIONS = "analysis/reference/digits/positions"
TABLE = "method,seed,acc\n" + "".join(
    f"{m},{s},{acc + s}\n" for m, acc in {"old": 90, "new": 95, "new wide": 90}.items() for s in range(3)
)
DATA = "method,seed,data,acc\n" + "".join(
    f"{m},{s},{d},0.9{s}{len(d)}\n" for m in "ab" for s in range(3) for d in ("x", "yy")
)
ACC = ("--metric", "acc", "--factor", "method")
RUNS, GATE = ("runs.csv", *ACC), ("runs.csv", *ACC, "--margin", "2", "--gate")

BAD = [
    (("--json",), "error: the following arguments are required: STUDY\n"),
    (("nowhere",), "nowhere: does not exist"),
    (("x" * 300,), "expected the path of a folder"),
    (("nowhere", "--table", "x.docx"), "--table: 'x.docx' is not allowed: expected a file that ends with .tex, .md, "),
    (("nowhere", "--columns", "n"), "--columns: is allowed only with --table"),
    (("nowhere", "--table", "x.md", "--figures", "pdf"), "--figures: is not allowed with --table, which"),
    (("nowhere", "--figures", "jpg"), "--figures: invalid choice: 'jpg' (choose from 'png', 'pdf')"),
    (("nowhere", "--watch"), "--watch: no such flag"),
    (("export", "a", "b", "--out", "c"), "--out: no such flag"),
    (("across",), "required: STUDY"),
    (("a", "b"), "unrecognized arguments: b"),
    (("empty",), "study.json"),
    *(  # as from a shell variable that is not set: it would mean the current folder
        (words, "is not allowed: expected the path of a folder")
        for words in ([""], ["runs", "--out", ""], ["across", "", "b"], ["export", "runs", " "])
    ),
    # flags that mean nothing together
    *(
        (("nowhere", one, *more), f"{more[0]}: is not allowed with {one[:6].rstrip(chr(61))}")
        for one, *more in (
            *(["--json", *flags] for flags in (["--rename", "a=b"], ["--models"], ["--open"])),
            ["--table=t.md", "--models"],
            ["--table=t.md", "--json"],
        )
    ),
    ((*GATE, "new better than old", "--json"), "--gate: is not allowed with --json"),
    (("study", "--wandb", "--metric", "val/acc"), "--wandb: shows the planned comparison; --metric and"),
    (("POSITIONS", "--wandb"), "has no study folder; give the folder of a study that vit-sweep trained"),
    *((("POSITIONS", flag, *value), f"{flag[2:].replace('-', '_')}: is for a table of runs, such as runs.csv") for
      flag, *value in (["--factor", "method"], ["--seed", "s"], ["--margin", "0.5"], ["--lower-is-better"])),
    # names and values
    ((*GATE, "new > old"), "--gate: 'new > old' is not allowed: expected A better than B, A worse than B or"),
    ((*GATE, "new wide better than old"), "--gate: 'new wide better than old' is not allowed: expected"),
    ((*GATE, "newer better than old"), "--gate: 'newer' is not a variant; did you mean 'new'"),
    ((*GATE, "new better than new"), "--gate: 'new' and 'new' are not compared"),
    (("data.csv", *ACC, "--gate", "a better than b", "--dataset", "data"), "--gate: is for one dataset, not for x, yy"),
    (("study", "--rename", "learned=x"), "begins with no variant, metric or dataset; did you mean 'learned-2d'"),
    (("study", "--rename", "sinusoidal=none"), "--rename: two variants would have the same name: none, none"),
    (("study", "--rename", "sinusoidal"), "--rename: 'sinusoidal' is not allowed: expected NAME=VALUE"),
    (("study", "--rename", r"none=$\nothing$"), r"labels: '$\\nothing$' is not allowed: expected math"),
    # files
    *(
        ((typed, *ACC), f"{typed}: does not exist; did you mean {meant!r}?")
        for typed, meant in {"runs.cvs": "runs.csv", "Empty": "empty", "emtpy": "empty"}.items()
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of a user; no command may change it."""
    folder = tmp_path_factory.mktemp("user")
    for name, text in {"runs.csv": TABLE, "data.csv": DATA}.items():
        (folder / name).write_text(text)
    write_study(folder, "study", seeds=2)
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize(
    ("words", "said"), BAD, ids=lambda value: (value if isinstance(value, str) else " ".join(value))[:60]
)
def test_bad_input_is_one_line_and_leaves_nothing(words, said, folder, refused, request, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    line = refused(*(word.replace("POSITIONS", str(request.config.rootpath / POSITIONS)) for word in words))
    assert re.match("vit-report( [a-z]+)?: error: ", line) and said in line
    assert sorted(folder.rglob("*")) == before
