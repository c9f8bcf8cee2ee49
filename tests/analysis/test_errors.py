"""Bad input for `vit-report`: one line that names the field, the value and what is allowed, status 2, and no file."""

import re

import pytest
from synthetic import write_study

POSITIONS = "analysis/reference/digits/positions"
TABLE = "method,seed,acc\nold,0,90\nold,1,91\nold,2,90.5\nnew,0,95\nnew,1,96\nnew,2,95.5\nnew wide,0,90\n"
STATES = "method,seed,State,acc\na,0,finished,81\na,1,crashed,82\nb,0,finished,83\nb,1,finished,90\n"
DATA = "method,seed,data,acc\n" + "".join(
    f"{m},{s},{d},0.9{s}{len(d)}\n" for m in "ab" for s in range(3) for d in ("x", "yy")
)
BARE = "method,acc\na,1\na,2\nb,3\nb,4\n"
PLAN = "{name: p, factors: {method: [old, new]}, metric: acc, seeds: 3, margin: 0.5}"
ACC = ("--metric", "acc", "--factor", "method")
RUNS, GATE = ("runs.csv", *ACC), ("runs.csv", *ACC, "--margin", "2", "--gate")
PLANNED = ("runs.csv", "--plan", "plan.yaml")

BAD = [
    (("--json",), "error: the following arguments are required: STUDY\n"),
    (("nowhere",), "nowhere: no such folder"),
    (("x" * 300,), "expected the path of a folder"),
    (("nowhere", "--table", "x.docx"), "--table: 'x.docx' is not allowed: expected a file that ends with .tex, .md, "),
    (("nowhere", "--columns", "n"), "--columns: is allowed only with --table"),
    (("nowhere", "--caption", ""), "--caption: is allowed only with --table"),
    (("nowhere", "--table", "x.md", "--label", "a"), "--label: 'a' is not allowed: only a .tex file with a caption"),
    (("nowhere", "--table", "x.tex", "--label", "a}"), "--label: 'a}' is not allowed: expected letters, digits"),
    (("nowhere", "--table", "x.md", "--figures", "pdf"), "--table: writes only the table; it is not allowed with "),
    (("nowhere", "--figures", "jpg"), "--figures: invalid choice: 'jpg' (choose from 'png', 'pdf')"),
    (("nowhere", "--watch"), "--watch: no such flag"),
    (("./compare",), "./compare: no such folder"),
    (("export", "a", "b", "--out", "c"), "--out: no such flag"),
    (("across",), "required: STUDY"),
    (("across", "a", "b"), "a: no such folder"),
    (("a", "b"), "b: is a second study; vit-report across A B C"),
    (("export", "nowhere", "b"), "nowhere: no such folder"),
    (("--compare", "a", "b"), "--compare: no such flag"),
    (("a", "--metric", "b", "--metric=c"), "--metric: is given 2 times; it takes one value"),
    (("--frobnicate", "x"), "--frobnicate"),
    (("empty",), "study.json"),
    *(  # as from a shell variable that is not set: it would mean the current folder
        (words, "is not allowed: expected the path of a folder")
        for words in ([""], ["runs", "--out", ""], ["across", "", "b"], ["export", "runs", " "])
    ),
    # flags that mean nothing together
    *(
        (("nowhere", one, *more), f"it is not allowed with {more[0]}")
        for one, *more in (
            *(["--json", *flags] for flags in (["--rename", "a=b"], ["--style", "x"], ["--models"], ["--open"])),
            *(["--table=t.md", *flags] for flags in (["--style", "x"], ["--models"], ["--figure", "f.pdf"])),
            *(["--figure=f.pdf", *flags] for flags in (["--out", "x"], ["--json"], ["--spread", "sd"])),
        )
    ),
    ((*GATE, "new better than old", "--json"), "--gate: prints one line; it is not allowed with --json"),
    ((*GATE, "new better than old", "--target", "0.94"), "it is not allowed with --target"),
    (("study", "--wandb", "--metric", "val/acc"), "--wandb: shows the planned comparison; it is not allowed with "),
    (("export", "study", "there", "--wandb"), "--wandb: no such flag"),
    (("study", "--width", "3.33"), "--width: is allowed only with --figure"),
    (("study", "--figure", "f.gif"), "--figure: 'f.gif' is not allowed: expected a file that ends with .pdf, .svg"),
    (("study", "--project", "mine"), "--project: is allowed only with --wandb"),
    (("study", "--wandb", "--project", "a/b"), "--project: 'a/b' is not allowed"),
    (("POSITIONS", "--wandb"), "has no study folder; give the folder of a study that vit-sweep trained"),
    *(((*PLANNED, flag, *value), f"{flag}: is not allowed with a plan") for flag, *value in (
        ["--margin", "0.1"], ["--family", "baseline"], ["--higher-is-better"], ["--baseline", "a"])),
    ((*PLANNED, "--by", "0.01"), "by: is not allowed with a plan"),
    ((*PLANNED, "--chance", "0"), "chance: is not allowed with a plan"),
    *((("POSITIONS", flag, *value), f"{flag[2:].replace('-', '_')}: is for a table of runs, such as runs.csv") for
      flag, *value in (["--factor", "method"], ["--seed", "s"], ["--margin", "0.5"], ["--lower-is-better"])),
    # names and values
    ((*GATE, "new > old"), "--gate: 'new > old' is not allowed: expected A better than B, A worse than B or"),
    ((*GATE, "new wide better than old"), "--gate: 'new wide better than old' is not allowed: expected"),
    ((*GATE, "'new better than old"), '--gate: "\'new better than old" is not allowed: expected'),
    ((*GATE, "newer better than old"), "--gate: 'newer' is not a variant; did you mean 'new'"),
    ((*GATE, "new better than new"), "--gate: 'new' and 'new' are not compared"),
    ((*GATE, "new better than 'new wide'", "--family", "baseline", "--baseline", "old"), "are not compared"),
    ((*RUNS, "--target", "inf"), "--target: 'inf' is not allowed"),
    (("data.csv", *ACC, "--target", "94", "--where", "data=x"), "--target: 94 is not allowed: acc is from 0 to 1"),
    (("data.csv", *ACC, "--target", "0.9", "--dataset", "data"), "--target: is for one dataset, not for x, yy"),
    (("data.csv", *ACC, "--by", "0.2", "--where", "data=x"), "by: 0.2 is not allowed: acc is from 0 to 1, so this is"),
    (("study", "--rename", "learned=x"), "begins with no variant, metric or dataset; did you mean 'learned-2d'"),
    (("study", "--rename", "sinusoidal=none"), "--rename: two variants would have the same name: none, none"),
    (("study", "--rename", "sinusoidal"), "--rename: 'sinusoidal' is not allowed: expected OLD=NEW"),
    (("study", "--rename", r"none=$\nothing$"), r"labels: '$\\nothing$' is not allowed: expected math"),
    *((("nowhere", "--style", f"{n}.mplstyle"), f"{n}.mplstyle: text.usetex: True is not allowed")
      for n in range(3)),
    # conditions and files
    *(
        (("states.csv", *ACC, "--where", condition), f"{condition!r}: no row of csv:states.csv has it: {said}")
        for condition, said in {
            "State": "expected COLUMN=VALUE, of: crashed, finished",
            "Stat=finished": "did you mean 'State'? expected COLUMN",
            "State=done": "expected COLUMN=VALUE, of: crashed, finished",
            "State!=done": "expected COLUMN=VALUE, of: crashed, finished",
        }.items()
    ),
    *(
        ((typed, *ACC), f"{typed}: no such folder; did you mean {meant!r}?")
        for typed, meant in {"runs.cvs": "runs.csv", "empti": "empty", "Empty": "empty", "emtpy": "empty"}.items()
    ),
    (("none.csv", *ACC), "none.csv: cannot be read: No such file or directory\n"),
    # runs without seeds
    (("bare.csv", *ACC), "has no column 'seed' (the seed, by which runs are paired); its columns: method, acc; for"),
    (("bare.csv", *ACC), "--unpaired, in Python variance='unpaired'"),
    (("bare.csv", *ACC, "--unpaired", "--seed", "s"), "seed: 's' is not allowed with unpaired runs, of which no"),
    (("bare.csv", *ACC, "--unpaired", "--variance", "paired"), "--variance: 'paired' is not allowed with unpaired"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of a user; no command may change it."""
    folder = tmp_path_factory.mktemp("user")
    texts = {"runs.csv": TABLE, "states.csv": STATES, "data.csv": DATA, "bare.csv": BARE, "plan.yaml": PLAN}
    styles = ("text.usetex: True", "text.usetex : true  # SciencePlots", "font.size: 8\ntext.usetex: 1")
    for name, text in {**texts, **{f"{n}.mplstyle": style + "\n" for n, style in enumerate(styles)}}.items():
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
