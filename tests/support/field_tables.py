"""Tables as the programs of the field write them, each with the outcome that `vit-report` should have.

    python tests/support/field_tables.py [WORD]      the tables whose name holds WORD

A table is right (verdict, difference and interval by scipy), refused (exit 2, one line with these words), or not
tested for a reason that is said. It prints one line for a table and a total, and what the program said where the
outcome is another. The outcomes were written before the tables were tried.
"""

import contextlib
import gzip
import importlib.util
import io
import json
import os
import shlex
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from scipy import stats

from analysis.main import body
from experiments.errors import UserError

A, B = [90.1, 90.3, 90.6, 89.9, 90.2], [91.2, 90.8, 91.9, 91.1, 91.0]  # accuracies in percent
FA, FB = [0.901, 0.903, 0.906, 0.899, 0.902], [0.912, 0.908, 0.919, 0.911, 0.910]
LA, LB = [0.52, 0.55, 0.51, 0.54, 0.53], [0.42, 0.47, 0.43, 0.41, 0.44]  # losses
ACC, FRACTION, LOSS = ({"sgd": a, "adam": b} for a, b in [(A, B), (FA, FB), (LA, LB)])


@dataclass
class Right:
    """The pair `b` - `a`, with values by seed, and words that JSON, notes and page hold (`says`) or do not hold."""

    verdict: str
    values: dict[str, list[float]]
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    unpaired: bool = False
    level: float | None = 0.95  # None: only the difference, as there are more pairs

    def wrong(self, out: str, said: str) -> str:
        data = json.loads(out)
        (a, x), (b, y) = self.values.items()
        difference = float(np.mean(y) - np.mean(x)) if self.unpaired else float(np.subtract(y, x).mean())
        for study in data.get("datasets", {"": data}).values():
            pair = _pair(study, b, a)
            if pair is None:
                return f"no pair {b} - {a}"
            if _same(study["baseline"]) != _same(a):
                return f"the baseline is {study['baseline']}, not the first in the file"
            if pair["verdict"] != self.verdict or not np.isclose(pair["value"], difference, rtol=1e-6):
                return f"{pair['verdict']} {pair['value']}, expected {self.verdict} {difference}"
            if self.level:
                test = stats.ttest_ind(y, x, equal_var=False) if self.unpaired else stats.ttest_rel(y, x)
                ends = test.confidence_interval(self.level)
                if not np.allclose([pair["low"], pair["high"]], [ends.low, ends.high], rtol=1e-6):
                    return f"{pair['low']} to {pair['high']}, expected {ends.low} to {ends.high}"
        missing = [word for word in self.says if word not in said] + [f"no {w}" for w in self.never if w in said]
        return f"it is not said: {missing}" if missing else ""


@dataclass
class NotTested:
    """No pair of `a` and `b` is tested, and these words are said."""

    pair: tuple[str, str] = ("sgd", "adam")
    says: tuple[str, ...] = ()

    def wrong(self, out: str, said: str) -> str:
        pair = _pair(json.loads(out), *self.pair)
        if pair is not None and (pair["verdict"] != "not tested" or not pair["reason"]):
            return f"{pair['verdict']} {pair['value']}, expected not tested"
        missing = [word for word in self.says if word not in said]
        return f"it is not said: {missing}" if missing else ""


@dataclass
class Refused:
    """Exit 2 with one line that holds these words."""

    says: tuple[str, ...]


@dataclass
class Written:
    """Exit 0, and the file t.tex or the output holds these words."""

    says: tuple[str, ...]


def _same(level: str) -> str:
    try:
        return str(float(level))
    except ValueError:
        return level.lower()


def _pair(study: dict[str, Any], b: str, a: str) -> dict[str, Any] | None:
    for pair in study["comparisons"]:
        sides = [_same(pair["variant"]), _same(pair["reference"])]
        if sides == [_same(b), _same(a)]:
            return pair
        if sides == [_same(a), _same(b)]:
            turned = {"better": "worse", "worse": "better"}.get(pair["verdict"], pair["verdict"])
            low, high = (None if end is None else -end for end in (pair["high"], pair["low"]))
            value = None if pair["value"] is None else -pair["value"]
            return {**pair, "value": value, "low": low, "high": high, "verdict": turned}
    return None


def grid(header: str, row: str, data: dict[str, list[Any]] = ACC, first_seed: int = 0) -> str:
    """A line (or lines) for each run: $m its method, $s its seed, $v its value, $i its number."""
    runs = [(method, seed, value) for method, values in data.items() for seed, value in enumerate(values, first_seed)]
    lines = [Template(row).substitute(m=m, s=s, v=v, i=i) for i, (m, s, v) in enumerate(runs)]
    return "\n".join([header, *lines] if header else lines) + "\n"


def plain(metric: str, data: dict[str, list[Any]] = ACC) -> str:
    return grid(f"method,seed,{metric}", "$m,$s,$v", data)


def swapped(text: str, *pairs: tuple[str, str]) -> str:
    """The text with some of its parts in another form."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def without(values: list[float], seed: int) -> list[float]:
    return [value for place, value in enumerate(values) if place != seed]


better, better_loss = Right("better", ACC), Right("better", LOSS)
method = "--factor method"
four = {name: without(values, 3) for name, values in ACC.items()}  # without seed 3
crashed_text = "seed!=3"

lightning = grid(
    "method,seed,epoch,step,train_loss,val_loss",
    "$m,$s,0,49,0.91,\n$m,$s,0,49,,0.8\n$m,$s,1,99,0.61,\n$m,$s,1,99,,$v",
    LOSS,
)
cut = swapped(lightning, ("adam,4,1,99,0.61,\nadam,4,1,99,,0.44\n", ""))
keras = grid("method;seed;epoch;accuracy;val_accuracy", "$m;$s;0;0.5;0.6\n$m;$s;1;0.95;$v", FRACTION)
hugging = grid(
    "",
    '{"model": "$m", "seed": $s, "step": 10, "epoch": 1.0, "loss": 0.9, "learning_rate": 5e-05}\n'
    '{"model": "$m", "seed": $s, "step": 10, "epoch": 1.0, "eval_accuracy": 0.5, "eval_runtime": 1.$i}\n'
    '{"model": "$m", "seed": $s, "step": 20, "epoch": 2.0, "loss": 0.4, "learning_rate": 0.0}\n'
    '{"model": "$m", "seed": $s, "step": 20, "epoch": 2.0, "eval_accuracy": $v, "eval_runtime": 1.$i}',
    FRACTION,
)
wandb_all = grid(
    '"Name","State","Created","Runtime","method","seed","val/acc"',
    '"misty-sun-$i","finished","2024-05-01T10:0$i:00.000Z","6$i","$m","$s","$v"',
)
wandb = swapped(wandb_all, ('n-8","finished"', 'n-8","crashed"'), ('"91.1"', '"55.0"'))
chart = '"Step","sgd-0 - val_loss","sgd-0 - val_loss__MIN","adam-0 - val_loss"\n1,0.9,0.9,0.8\n2,0.7,0.7,0.5\n'
optuna_all = grid(
    "number,value,datetime_start,datetime_complete,duration,params_lr,params_seed,state",
    "$i,$v,2024-05-01 10:00:0$i,2024-05-01 10:01:0$i,0 days 00:01:00.00$i,$m,$s,COMPLETE",
    {"0.01": A, "0.001": B},
)
optuna = swapped(optuna_all, ("0.001,3,COMPLETE", "0.001,3,PRUNED"))
optuna_flags = "--metric value --factor params_lr --seed params_seed"
ray_all = grid(
    "loss,timestamp,done,training_iteration,trial_id,date,time_total_s,pid,config/lr,config/seed,logdir",
    "$v,17145$i,True,10,3f_0000$i,2024-05-01_10-00-0$i,12.$i,41$i,$m,$s,3f_0000$i",
    {"0.01": LA, "0.001": LB},
)
ray = swapped(ray_all, ("0.41,171458,True", "0.41,171458,False"))
ray_flags = "--metric loss --factor config/lr --seed config/seed"
mlflow_all = grid(
    "run_id,experiment_id,status,start_time,metrics.acc,params.method,params.seed,tags.mlflow.runName",
    "c0ffee$i,1,FINISHED,2024-05-01 10:00:0$i,$v,$m,$s,calm-cat-$i",
)
mlflow = swapped(mlflow_all, ("8,1,FINISHED", "8,1,FAILED"), (",91.1,", ",,"))
mlflow_flags = "--metric metrics.acc --factor params.method --seed params.seed"
board = grid("run,Wall time,Step,Value", "$m/$s,1714.$i,1,50\n$m/$s,1715.$i,2,$v")
long = grid("method,seed,metric,value", "$m,$s,acc,$v\n$m,$s,loss,0.$i")
items = {"sgd": [1] * 100 + [0] * 100, "adam": [1] * 117 + [0] * 83}
passed = {"sgd": [0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0], "adam": [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1]}
words = {name: [["false", "true"][value] for value in values] for name, values in passed.items()}
summary = plain("acc") + "sgd,Mean,90.22\nadam,Mean,91.2\nsgd,Std,0.26\nadam,Std,0.42\n"
data_twice = grid("dataset,method,seed,acc", "mnist,$m,$s,$v\nsvhn,$m,$s,$v")
diverged = grid("method,seed,acc,diverged", "$m,$s,$v,False").replace("adam,3,91.1,False", "adam,3,91.1,True")
folds = grid("method,seed,fold,acc", "$m,$s,0,$v\n$m,$s,1,80")
half = {name: [(value + 80) / 2 for value in values] for name, values in ACC.items()}
apart = grid("method,seed,acc", "$m,$s,$v", {"sgd": A}) + grid("", "$m,$s,$v", {"adam": B}, 5)
two_scales = plain("acc", {"sgd": FA, "adam": B})
three = plain("acc", {**ACC, "lion": [90.0, 90.4, 90.5, 90.1, 90.3]})
nested = grid("", '{"config": {"method": "$m", "seed": $s}, "acc": $v}')
table8 = grid("depth,head,seed,acc", "2,logits,$s,$v\n4,logits,$s,9$v\n2,softmax,$s,80.$s\n4,softmax,$s,81.$s", {"": A})
dollars = {"$5 GPU": A, "$10 GPU": B}
lines = [line + "\n" for line in plain("acc").splitlines()]

CASES: list[tuple[str, str, str, str | bytes, Any]] = [
    # name, file, flags, text, outcome
    ("README", "t.csv", "", plain("acc"), better),
    ("Lightning, last epoch", "t.csv", "--metric val_loss --last epoch", lightning, better_loss),
    ("Lightning, last step", "t.csv", "--metric val_loss --last step", lightning, better_loss),
    ("Lightning, epochs without a flag", "t.csv", "--metric val_loss", lightning, Refused(("epoch", "step"))),
    (
        "Lightning, a run that ended early",
        "t.csv",
        "--metric val_loss --last epoch",
        cut,
        Right("not shown", {"sgd": LA, "adam": [*LB[:4], 0.8]}, ("adam", "earlier")),
    ),
    (
        "Lightning, NaN at the end",
        "t.csv",
        "--metric val_loss --last epoch",
        swapped(lightning, ("adam,3,1,99,,0.41", "adam,3,1,99,,nan")),
        NotTested(says=(crashed_text,)),
    ),
    ("Keras, semicolons", "t.csv", "--metric val_accuracy --last epoch", keras, Refused(("method;seed",))),
    (
        "Keras, commas",
        "t.csv",
        "--metric val_accuracy --last epoch",
        keras.replace(";", ","),
        Right("better", FRACTION),
    ),
    (
        "Hugging Face, log_history as JSON lines",
        "t.jsonl",
        "--metric eval_accuracy --last step",
        hugging,
        Right("better", FRACTION, ("eval_runtime", "learning_rate", "loss", "epoch")),
    ),
    (
        "Hugging Face, trainer_state.json",
        "t.json",
        "--metric loss",
        '{"log_history": [], "epoch": 3}',
        Refused((".json",)),
    ),
    ("W&B export, a crash without a flag", "t.csv", f"--metric val/acc {method}", wandb, Refused(("State", "crashed"))),
    (
        "W&B export, --failed",
        "t.csv",
        f"--metric val/acc {method} --failed State=crashed",
        wandb,
        NotTested(says=(crashed_text, "Runtime")),
    ),
    (
        "W&B export, --where",
        "t.csv",
        f"--metric val/acc {method} --where State=finished",
        wandb,
        Right("better", four, ("Runtime",)),
    ),
    (
        "W&B export, --failed of no row",
        "t.csv",
        f"--metric val/acc {method} --failed State=oops",
        wandb,
        Refused(("oops",)),
    ),
    (
        "W&B export, all finished",
        "t.csv",
        f"--metric val/acc {method}",
        wandb_all,
        Right("better", ACC, ("Runtime", "Created", "Name")),
    ),
    ("W&B chart export (wide)", "t.csv", "--metric='adam-0 - val_loss'", chart, Refused(("Step",))),
    ("Optuna, README's flags", "t.csv", optuna_flags + " --where state=COMPLETE", optuna, Refused(("value",))),
    (
        "Optuna, PRUNED without a flag",
        "t.csv",
        optuna_flags + " --higher-is-better",
        optuna,
        Refused(("state", "PRUNED")),
    ),
    (
        "Optuna, numbers as levels, 0.01 first",
        "t.csv",
        optuna_flags + " --higher-is-better --where state=COMPLETE",
        optuna,
        Right("better", {"0.01": four["sgd"], "0.001": four["adam"]}, ("duration", "number")),
    ),
    ("Ray Tune, done without a flag", "t.csv", ray_flags, ray, Refused(("done",))),
    (
        "Ray Tune, --where done=True",
        "t.csv",
        ray_flags + " --where done=True",
        ray,
        Right("better", {"0.01": without(LA, 3), "0.001": without(LB, 3)}, ("pid", "trial_id", "time_total_s")),
    ),
    ("Ray Tune, all done", "t.csv", ray_flags, ray_all, Right("better", {"0.01": LA, "0.001": LB}, ("pid",))),
    ("MLflow, all FINISHED", "t.csv", mlflow_flags, mlflow_all, Right("better", ACC, ("run_id", "start_time"))),
    ("MLflow, FAILED without a flag", "t.csv", mlflow_flags, mlflow, Refused(("status", "FAILED"))),
    (
        "MLflow, --failed",
        "t.csv",
        mlflow_flags + " --failed status=FAILED",
        mlflow,
        NotTested(says=("params.seed!=3",)),
    ),
    ("TensorBoard, no seed", "t.csv", "--metric Value --last Step --higher-is-better", board, Refused(("run", "Step"))),
    (
        "TensorBoard, one run a variant",
        "t.csv",
        "--metric Value --last Step --higher-is-better --unpaired",
        board,
        NotTested(("sgd/0", "adam/0")),
    ),
    ("wide", "t.csv", "", "seed,sgd,adam\n0,90.1,91.2\n1,90.3,90.8\n2,90.6,91.9\n", Refused(("sgd", "adam"))),
    ("long", "t.csv", f"--metric value {method} --higher-is-better", long, Refused(("metric",))),
    ("long, --where", "t.csv", f"--metric value {method} --higher-is-better --where metric=acc", long, better),
    (
        "items of 0 and 1",
        "t.csv",
        "--metric correct --seed item --higher-is-better",
        grid("method,item,correct", "$m,$s,$v", items),
        Right("better", items),
    ),
    ("true and false", "t.csv", "--metric passed --higher-is-better", plain("passed", words), Right("better", passed)),
    ("true and false, no direction", "t.csv", "--metric passed", plain("passed", words), Refused(("passed",))),
    ("diverged without a flag", "t.csv", "--metric acc", diverged, Refused(("diverged",))),
    ("diverged, --failed", "t.csv", "--metric acc --failed diverged=True", diverged, NotTested(says=(crashed_text,))),
    ("summary rows", "t.csv", "", summary, Refused(("Mean",))),
    ("datasets of equal values", "t.csv", f"{method} --dataset dataset", data_twice, Right("better", ACC, level=0.975)),
    ("two text columns", "t.csv", "", data_twice, Refused(("dataset", "method"))),
    ("datasets without a flag", "t.csv", method, data_twice, Refused(("dataset",))),
    ("across two files", "across:t.csv", "--metric acc", plain("acc"), Right("better", ACC, level=0.975)),
    ("percent signs", "t.csv", "--metric acc", plain("acc").replace(".1\n", ".1%\n"), Refused(("90.1%",))),
    ("± in cells", "t.csv", "--metric acc", plain("acc").replace("90.6\n", "90.6±0.1\n"), Refused(("90.6±0.1",))),
    ("units", "t.csv", "--metric time", plain("time").replace("90.6\n", "90.6 s\n"), Refused(("90.6 s",))),
    ("decimal commas", "t.csv", "--metric acc", plain("acc").replace("90.6\n", '"90,6"\n'), Refused(("90,6",))),
    ("tabs", "t.tsv", "--metric acc", plain("acc").replace(",", "\t"), better),
    ("gz", "t.csv.gz", "--metric acc", gzip.compress(plain("acc").encode()), Refused((".gz", ".csv"))),
    (
        "nested JSON",
        "t.jsonl",
        "--metric acc --factor config.method --seed config.seed",
        nested,
        Refused(("config", "acc")),
    ),
    (
        "NaN",
        "t.csv",
        "--metric acc",
        plain("acc").replace("adam,3,91.1", "adam,3,NaN"),
        NotTested(says=(crashed_text,)),
    ),
    (
        "inf",
        "t.csv",
        "--metric acc",
        plain("acc").replace("adam,3,91.1", "adam,3,-inf"),
        NotTested(says=(crashed_text,)),
    ),
    (
        "empty cell",
        "t.csv",
        "--metric acc",
        plain("acc").replace("adam,3,91.1", "adam,3,"),
        NotTested(says=(crashed_text,)),
    ),
    ("empty cell, no --metric", "t.csv", "", plain("acc").replace("adam,3,91.1", "adam,3,"), NotTested()),
    ("a row twice", "t.csv", "", "".join([*lines, lines[-1]]), Refused(("adam", "4"))),
    ("folds without a flag", "t.csv", "--metric acc", folds, Refused(("fold",))),
    ("folds, --mean-over", "t.csv", "--metric acc --mean-over fold", folds, Right("better", half)),
    ("a fold is missing", "t.csv", "--metric acc --mean-over fold", folds.replace("adam,3,1,80\n", ""), NotTested()),
    ("no common seeds", "t.csv", "--metric acc", apart, NotTested(says=("seed",))),
    ("--unpaired", "t.csv", "--metric acc --unpaired", apart, Right("better", ACC, unpaired=True)),
    ("no seed column", "t.csv", "--metric acc", grid("method,acc", "$m,$v"), Refused(("method", "acc", "unpaired"))),
    ("Seed in capitals", "t.csv", "--metric acc", grid("method,Seed,acc", "$m,$s,$v"), Refused(("Seed",))),
    (
        "quoted commas, unicode",
        "t.csv",
        "--metric acc",
        plain("acc", {'"ViT, klein"': A, '"Größe β, 视觉"': B}),
        Right("better", {"ViT, klein": A, "Größe β, 视觉": B}),
    ),
    ("$ in names", "t.csv", "--metric acc", plain("acc", dollars), Right("better", dollars)),
    ("$ in LaTeX", "t.csv", "--metric acc --table t.tex", plain("acc", dollars), Written((r"\$5 GPU", r"\$10 GPU"))),
    ("levels NA and None", "t.csv", "", plain("acc", {"NA": A, "None": B}), Right("better", {"NA": A, "None": B})),
    (
        "0.001 and 1e-3",
        "t.csv",
        "--metric acc --factor lr",
        grid("lr,seed,acc", "$m,$s,$v", {"0.001": A, "0.01": B}).replace("0.001,3", "1e-3,3"),
        Refused(("0.001", "1e-3")),
    ),
    (
        "0 and 0.0",
        "t.csv",
        "--metric acc --factor drop",
        grid("drop,seed,acc", "$m,$s,$v", {"0.1": A, "0": B}).replace("\n0,3", "\n0.0,3"),
        Right("better", {"0.1": A, "0": B}),
    ),
    ("seeds 3 and 3.0", "t.csv", "", plain("acc").replace("adam,3,", "adam,3.0,"), better),
    (
        "True and true",
        "t.csv",
        "--metric acc --factor bias",
        grid("bias,seed,acc", "$m,$s,$v", {"True": A, "False": B}).replace("True,3", "true,3"),
        Right("better", {"True": A, "False": B}),
    ),
    (
        "dates",
        "t.csv",
        "--metric acc --factor date",
        grid("date,seed,acc", "$m,$s,$v", {"2024-02-01": A, "2024-01-01": B}),
        Right("better", {"2024-02-01": A, "2024-01-01": B}),
    ),
    *((f"direction of {name}", "t.csv", "", plain(name), Refused((name,))) for name in ("neg_loss", "improvement")),
    *(
        (f"direction of {name}", "t.csv", "", plain(name), Refused((name,)))
        for name in ("score_loss", "lossless_ratio")
    ),
    *((f"direction of {name}", "t.csv", "", plain(name), Refused((name,))) for name in ("1-accuracy", "-loss")),
    *((f"direction of {name}", "t.csv", "", plain(name), Right("worse", ACC)) for name in ("FID ↓", "test_error")),
    *((f"direction of {name}", "t.csv", "", plain(name), better) for name in ("mAP", "Top-1 accuracy [%]", "evalF1")),
    ("seeds named run_0", "t.csv", "--seed run", grid("method,run,acc", "$m,run_$s,$v"), better),
    ("test/acc in percent", "t.csv", "", plain("test/acc"), Right("better", ACC, ("0.98",), ("98 points", "98.0"))),
    ("two columns of numbers", "t.csv", "", grid("method,seed,acc,loss", "$m,$s,$v,0.$i"), Refused(("acc", "loss"))),
    ("--metric that is no column", "t.csv", "--metric accuracy", plain("acc"), Refused(("accuracy", "acc"))),
    ("one variant", "t.csv", "--metric acc", plain("acc", {"sgd": A}), Refused(("method",))),
    ("margin of another scale", "t.csv", "--metric acc --margin 0.5", plain("acc", FRACTION), Refused(("margin",))),
    ("margin in points", "t.csv", "--margin='0.5 points'", plain("acc", FRACTION), Right("better", FRACTION)),
    ("margin, equivalent", "t.csv", "--margin 2", plain("acc"), Right("equivalent", ACC)),
    ("two scales", "t.csv", "", two_scales, Right("better", {"sgd": FA, "adam": B}, ("scale",))),
    (
        "Excel (byte order mark, CRLF)",
        "t.csv",
        "",
        b"\xef\xbb\xbf" + plain("acc").replace("\n", "\r\n").encode(),
        better,
    ),
    ("a column twice", "t.csv", "--metric acc", grid("method,seed,acc,acc", "$m,$s,$v,0.$i"), Refused(("acc",))),
    ("a comma at the end of rows", "t.csv", "--metric acc", grid("method,seed,acc", "$m,$s,$v,"), Refused(("4",))),
    ("a longer row", "t.csv", "--metric acc", plain("acc") + "adam,5,91.0,x,y\n", Refused(("5",))),
    ("latin-1", "t.csv", "", plain("acc", {"Größe": A, "adam": B}).encode("latin-1"), Refused(("t.csv",))),
    ("an empty method", "t.csv", "--metric acc", plain("acc").replace("adam,3", ",3"), Refused(("method",))),
    ("an empty seed", "t.csv", "--metric acc", plain("acc").replace("adam,3", "adam,"), Refused(("seed",))),
    ("a header alone", "t.csv", "--metric acc", "method,seed,acc\n", Refused(("t.csv",))),
    ("an empty file", "t.csv", "--metric acc", "", Refused(("t.csv",))),
    ("three variants", "t.csv", "", three, Right("better", ACC, level=None)),
    (
        "three variants, one run failed",
        "t.csv",
        "--metric acc",
        swapped(three, ("lion,3,90.1", "lion,3,")),
        Right("better", ACC, (crashed_text,), level=None),
    ),
    ("a grid", "t.csv", "--factor depth --factor head", table8, Written(("logits", "softmax"))),
    ("--gate", "t.csv", "--gate 'adam better than sgd'", plain("acc"), Written(("adam",))),
    ("Parquet", "t.parquet", "--metric acc", b"", better),
]


def run(arguments: list[str], shell: bool) -> tuple[int, str, str]:
    """Exit status, output and error of the command; -1 for a traceback."""
    if shell:
        command = [sys.executable, "-m", "analysis.main", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        return (-1 if "Traceback" in done.stderr else done.returncode), done.stdout, done.stderr
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = body(arguments)
        except UserError as error:
            status = 2
            err.write(f"{error}\n")
        except SystemExit as error:
            status = int(error.code or 0)
        except Exception:
            status = -1
            err.write(traceback.format_exc())
    return status, out.getvalue(), err.getvalue()


def tried(number: int, name: str, flags: list[str], outcome: Any) -> tuple[str, str]:
    """What is wrong, and what the program printed, in the folder of the table."""
    files = [name.removeprefix("across:")] if ":" not in name else ["a.csv", "b.csv"]
    first = [*(["across"] if ":" in name else []), *files]
    judged = isinstance(outcome, Right | NotTested)
    status, out, err = run([*first, *flags, *(["--json"] if judged else [])], shell=number % 12 == 0)
    printed = f"exit {status}\n{out if status or not judged else ''}{err}"
    if status == -1:
        return "a traceback", printed
    if isinstance(outcome, Refused):
        if status != 2:
            return f"exit {status}, expected a refusal", f"exit {status}\n{out[-1500:]}{err}"
        missing = [word for word in outcome.says if word not in err]
        lines = len(err.strip().splitlines())
        return (f"not named: {missing}" if missing else f"{lines} lines" if lines != 1 else ""), printed
    if status != 0:
        return f"exit {status}", printed
    if isinstance(outcome, Written):
        text = out + (Path("t.tex").read_text() if Path("t.tex").exists() else "")
        text += "".join(page.read_text() for page in Path().glob("*/*.md"))
        missing = [word for word in outcome.says if word not in text]
        return (f"not written: {missing}" if missing else ""), printed
    status, answer, notes = run([*first, *flags, "--out", "page"], shell=False)
    if status != 0:
        return f"the page: exit {status}", answer + notes
    page = "".join(path.read_text() for path in Path("page").glob("*.md"))
    return outcome.wrong(out, notes + page), f"{answer}{notes}"


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    problems = 0
    start, environment = Path.cwd(), {"PYTHONPATH": str(Path.cwd())}
    os.environ.update(environment)
    cases = [(number, *case) for number, case in enumerate(CASES) if word in case[0]]
    for number, name, file, flags, text, outcome in cases:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            content = text if isinstance(text, bytes) else text.encode()
            for path in ["a.csv", "b.csv"] if ":" in file else [file]:
                Path(path).write_bytes(content)
            if file.endswith("parquet"):
                import pandas as pd

                if importlib.util.find_spec("pyarrow"):
                    pd.read_csv(io.StringIO(plain("acc"))).to_parquet(file)
                else:
                    outcome = Refused(("pyarrow",))
            wrong, printed = tried(number, file, shlex.split(flags), outcome)
            os.chdir(start)
        problems += bool(wrong)
        print(f"{'DIFFERS' if wrong else 'ok':8} {name}{f': {wrong}' if wrong else ''}", flush=True)
        if wrong:
            print(f"    vit-report {file} {flags}\n" + "".join(f"    | {line}\n" for line in printed.splitlines()))
    print(f"{len(cases)} tables, {len(cases) - problems} as written, {problems} differ")


if __name__ == "__main__":
    main()
