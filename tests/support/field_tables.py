"""Tables as the programs of the field write them, each with the outcome that `vit-report` should have.

    python tests/support/field_tables.py [WORD]      the tables whose name holds WORD

Rules on single cells, columns and flags are tested in tests/analysis/runs/test_table.py.

A table is right (verdict, difference and interval by scipy), refused (exit 2, one line with these words), or not
tested for a reason that is said. One line a table and a total; where the outcome is another, what the program said.
"""

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
import traceback
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from analysis.main import body
from experiments.errors import UserError

Values = dict[str, list[Any]]
A, B = [90.1, 90.3, 90.6, 89.9, 90.2], [91.2, 90.8, 91.9, 91.1, 91.0]  # accuracies in percent
FA, FB = [0.901, 0.903, 0.906, 0.899, 0.902], [0.912, 0.908, 0.919, 0.911, 0.910]
LA, LB = [0.52, 0.55, 0.51, 0.54, 0.53], [0.42, 0.47, 0.43, 0.41, 0.44]  # losses
ACC, FRACTION, LOSS = ({"sgd": a, "adam": b} for a, b in [(A, B), (FA, FB), (LA, LB)])
LEFT_OUT = {name: [*values[:3], values[4]] for name, values in ACC.items()}  # without seed 3


class Case(NamedTuple):
    """A table, the flags of its user, and what should come: the second of `values` minus the first, by seed."""

    kind: str
    name: str
    text: str | bytes
    flags: str
    says: tuple[str, ...]
    values: Values = ACC
    verdict: str = "not tested"
    level: float | None = 0.95  # of the interval; None: only the difference is checked
    unpaired: bool = False
    file: str = "t.csv"

    def wrong(self, study: dict[str, Any]) -> str:
        """What is wrong in the JSON of a study; "" if nothing is."""
        (a, x), (b, y) = self.values.items()
        pairs = {(_same(pair["variant"]), _same(pair["reference"])): pair for pair in study["comparisons"]}
        pair = pairs.get((_same(b), _same(a)))
        if pair is None:
            return f"no pair of {b} and the baseline {a}: {[*pairs]}"
        if pair["verdict"] != self.verdict:
            return f"{pair['verdict']} ({pair['value']}), expected {self.verdict}"
        if self.verdict == "not tested":
            return "" if pair["reason"] else "no reason is given"
        test = stats.ttest_ind(y, x, equal_var=False) if self.unpaired else stats.ttest_rel(y, x)
        ends = test.confidence_interval(self.level or 0.95)
        expected = [np.mean(y) - np.mean(x), *([ends.low, ends.high] if self.level else [])]
        got = [pair["value"], pair["low"], pair["high"]][: len(expected)]
        return "" if np.allclose(got, expected, rtol=1e-6) else f"{got}, expected {expected}"


CASES: list[Case] = []


def right(name: str, text: str | bytes, flags: str = "", values: Values = ACC, *says: str, **more: Any) -> None:
    CASES.append(Case("right", name, text, flags, says, values, **{"verdict": "better", **more}))


def untested(name: str, text: str, flags: str, *says: str, **more: Any) -> None:
    CASES.append(Case("right", name, text, flags, says, **more))


def refused(name: str, text: str | bytes, flags: str, *says: str, **more: Any) -> None:
    CASES.append(Case("refused", name, text, flags, says, **more))


def _same(level: str) -> str:
    try:
        return str(float(level))
    except ValueError:
        return level.lower()


def grid(header: str, row: str, data: Values = ACC, first_seed: int = 0) -> str:
    """A line (or lines) for each run: $m its method, $s its seed, $v its value, $i its number."""
    runs = [(method, seed, value) for method, values in data.items() for seed, value in enumerate(values, first_seed)]
    lines = [Template(row).substitute(m=m, s=s, v=v, i=i) for i, (m, s, v) in enumerate(runs)]
    return "\n".join([header, *lines] if header else lines) + "\n"


def plain(metric: str, data: Values = ACC) -> str:
    return grid(f"method,seed,{metric}", "$m,$s,$v", data)


def swapped(text: str, *parts: str) -> str:
    """The text with some of its parts (old, new, old, new ...) in another form."""
    for old, new in zip(parts[::2], parts[1::2]):
        assert old in text, old
        text = text.replace(old, new)
    return text


acc = plain("acc")
row = "$m,$s,0,49,0.91,\n$m,$s,0,49,,0.8\n$m,$s,1,99,0.61,\n$m,$s,1,99,,$v"
log = grid("method,seed,epoch,step,train_loss,val_loss", row, LOSS)
nan, cut = "adam,3,1,99,,0.41", "adam,4,1,99,0.61,\nadam,4,1,99,,0.44\n"
right("Lightning, last epoch", log, "--metric val_loss --last epoch", LOSS, "Not used: step, train_loss")
right("Lightning, last step", log, "--metric val_loss --last step", LOSS)
refused("Lightning, epochs without a flag", log, "--metric val_loss", "epoch", "step")
ended = {"sgd": LA, "adam": [*LB[:4], 0.8]}
more: dict[str, Any] = {"verdict": "not shown"}
right("Lightning, ended early", swapped(log, cut, ""), "--metric val_loss --last epoch", ended, "adam", "earl", **more)
untested("Lightning, NaN", swapped(log, nan, nan[:-4] + "nan"), "--metric val_loss --last epoch", "seed!=3")
keras = grid("method;seed;epoch;val_accuracy", "$m;$s;0;0.6\n$m;$s;1;$v", FRACTION)
refused("Keras, semicolons", keras, "--metric val_accuracy --last epoch", "method;seed")
right("Keras, commas", keras.replace(";", ","), "--metric val_accuracy --last epoch", FRACTION)
train = '{"model": "$m", "seed": $s, "step": 2, "epoch": 1.0, "loss": 0.9, "learning_rate": 5e-05}\n'
row = train + '{"model": "$m", "seed": $s, "step": 2, "epoch": 1.0, "eval_accuracy": $v, "eval_runtime": 1.$i}'
more = {"file": "t.jsonl"}
right("Hugging Face, log_history", grid("", row, FRACTION), "--metric eval_accuracy --last step", FRACTION, **more)
refused("Hugging Face, trainer_state", '{"log_history": []}', "--metric loss", ".json", file="trainer_state.json")
right("nested JSON", grid("", '{"c": {"m": "$m", "seed": $s}, "acc": $v}'), "--metric acc --seed c.seed", **more)
row = '{"method": "$m", "seed": $s, "epoch": 0, "loss": 0.8}\n{"method": "$m", "seed": $s, "epoch": 1, "loss": $v}'
untested("JSON lines, NaN", swapped(grid("", row, LOSS), "0.41", "NaN"), "--last epoch --metric loss", **more)
refused("JSON lines, cut", '{"method": "sgd", "seed": 0, "acc": 0.1}\n{"met', "--metric acc", "t.jsonl", **more)

head, flags = "Name,State,Created,Runtime,method,seed,val_acc", "--metric val_acc --factor method"
wandb = grid(head, "misty-sun-$i,finished,2024-05-01T10:0$i:00.000Z,6$i,$m,$s,$v")
crash = swapped(wandb, "n-8,finished", "n-8,crashed", ",91.1", ",55.0")
right("W&B export, all finished", wandb, flags, ACC, "Not used: Name, Created, Runtime")
refused("W&B export, a crash without a flag", crash, flags, "State", "crashed")
untested("W&B export, --failed", crash, f"{flags} --failed State=crashed", "seed!=3", "Runtime")
right("W&B export, --where", crash, f"{flags} --where State=finished", LEFT_OUT, "Runtime")
refused("W&B export, --failed of no row", crash, f"{flags} --failed State=Crashed", "crashed, finished")
refused("W&B export, all running", wandb.replace("finished", "running"), flags, "State", "running")
rerun = crash + "misty-sun-10,finished,2024-05-02T10:00:00.000Z,70,adam,3,91.1\n"
right("W&B export, a run again", rerun, f"{flags} --where State=finished")
chart = "Step,sgd-0 - val_loss,sgd-0 - val_loss__MIN,adam-0 - val_loss\n1,0.9,0.9,0.8\n2,0.7,0.7,0.5\n"
refused("W&B chart export (wide)", chart, "--metric 'adam-0 - val_loss'", "Step")
head = "number,value,datetime_start,duration,params_lr,params_seed,state"
row = "$i,$v,2024-05-01 10:00:0$i,0 days 00:01:00.00$i,$m,$s,COMPLETE"
optuna = swapped(grid(head, row, {"0.01": A, "0.001": B}), "0.001,3,COMPLETE", "0.001,3,PRUNED")
flags = "--metric value --factor params_lr --seed params_seed"
refused("Optuna, README's flags", optuna, f"{flags} --where state=COMPLETE", "value")
flags += " --higher-is-better"
refused("Optuna, PRUNED without a flag", optuna, flags, "state", "PRUNED")
rates = dict(zip(["0.01", "0.001"], LEFT_OUT.values()))
right("Optuna, the first level is higher", optuna, f"{flags} --where state=COMPLETE", rates, "duration")
head, flags = "loss,timestamp,done,pid,config/lr,config/seed", "--metric loss --factor config/lr --seed config/seed"
ray = grid(head, "$v,17145$i,True,41$i,$m,$s", rates := {"0.01": LA, "0.001": LB})
refused("Ray Tune, done without a flag", swapped(ray, "171458,True", "171458,False"), flags, "done")
four = {name: [*values[:3], values[4]] for name, values in rates.items()}
right("Ray Tune, --where", swapped(ray, "171458,True", "171458,False"), f"{flags} --where done=True", four, "pid")
right("Ray Tune, all done", ray, flags, rates, "Not used: timestamp, pid")
refused("Ray Tune, none is done", ray.replace("True", "False"), flags, "done")
head, flags = "run_id,status,metrics.acc,params.method,params.seed", "--factor params.method --seed params.seed"
mlflow = grid(head, "c0ffee$i,FINISHED,$v,$m,$s")
right("MLflow, all FINISHED", mlflow, flags, ACC, "Not used: run_id")
lost = swapped(mlflow, "8,FINISHED,91.1", "8,FAILED,")
refused("MLflow, FAILED without a flag", lost, flags, "status", "FAILED")
untested("MLflow, --failed", lost, f"{flags} --failed status=FAILED", "params.seed!=3")
board = grid("run,method,Wall time,Step,Value", "$m/$s,$m,1714.$i,1,50\n$m/$s,$m,1715.$i,2,$v")
flags = "--metric Value --higher-is-better --factor method --last Step"
refused("TensorBoard, no seed", board, flags, "run, method, Wall time, Step, Value", "unpaired")
right("TensorBoard, --unpaired", board, f"{flags} --seed run --unpaired", ACC, "Wall time", unpaired=True)

refused("wide", "seed,sgd,adam\n0,90.1,91.2\n1,90.3,90.8\n2,90.6,91.9\n", "", "sgd", "adam")
long = grid("method,seed,metric,value", "$m,$s,acc,$v\n$m,$s,loss,0.$i")
refused("long", long, "--metric value --factor method --higher-is-better", "metric")
right("long, --where", long, "--metric value --factor method --higher-is-better --where metric=acc")
items: Values = {"sgd": [1] * 100 + [0] * 100, "adam": [1] * 117 + [0] * 83}
right("items of 0 and 1", plain("correct", items), "--metric correct --higher-is-better", items)
passed: Values = {"sgd": [False] * 9 + [True], "adam": [True] * 9 + [False]}
bits: Values = {"sgd": [0] * 9 + [1], "adam": [1] * 9 + [0]}
right("true and false", plain("passed", passed), "--metric passed --higher-is-better", bits)
refused("summary rows", acc + "sgd,Mean,90.22\nadam,Mean,91.2\nsgd,Std,0.26\nadam,Std,0.42\n", "", "Mean")
tasks = grid("dataset,method,seed,acc", "mnist,$m,$s,$v\nsvhn,$m,$s,$v")
right("datasets of equal values", tasks, "--factor method --dataset dataset", level=0.975)
refused("datasets without a flag", tasks, "--factor method", "dataset")
right("across two files", acc, "--metric acc", level=0.975, file="across")
right("failed, the advice", swapped(acc.replace(",91.1", ","), ",3,", ",3.0,"), "--where seed!=3.0", LEFT_OUT)
right("seeds named run_0", grid("method,run,acc", "$m,run_$s,$v"), "--seed run")
untested("every run failed", plain("acc", {"sgd": [""] * 3, "adam": [""] * 3}), "--metric acc")
folds = grid("method,seed,fold,acc", "$m,$s,0,$v\n$m,$s,1,80")
half = {name: [(value + 80) / 2 for value in values] for name, values in ACC.items()}
right("folds, --mean-over", folds, "--metric acc --mean-over fold", half)
apart = grid("method,seed,acc", "$m,$s,$v", {"sgd": A}) + grid("", "$m,$s,$v", {"adam": B}, 5)
right("--unpaired", apart, "--metric acc --unpaired", unpaired=True)
for a, b in {"ViT, klein": "Größe β, 视觉", "$5 GPU": "$10 GPU", "NA": "None", "2024-02-01": "2024-01-01"}.items():
    right(f"names: {a}", plain("acc", {f'"{a}"': A, f'"{b}"': B}), "--metric acc --factor method", {a: A, b: B})
right("seeds 3 and 3.0", swapped(acc, "adam,3,", "adam,3.0,"))
right("margin, equivalent", acc, "--margin 2", verdict="equivalent")
right("two scales", plain("acc", {"sgd": FA, "adam": B}), "", {"sgd": FA, "adam": B}, "in percent")
right("Excel (byte order mark, CRLF)", b"\xef\xbb\xbf" + acc.replace("\n", "\r\n").encode())
right("an index of pandas", grid(",method,seed,acc", "$i,$m,$s,$v"), "--metric acc")
right("spaces after commas", acc.replace(",", ", "))
refused("latin-1", plain("acc", {"Größe": A, "adam": B}).encode("latin-1"), "", "t.csv")
three = plain("acc", {**ACC, "lion": [90.0, 90.4, 90.5, 90.1, 90.3]})
right("three variants, a failed run", swapped(three, ",90.1\nlion,4", ",\nlion,4"), "", ACC, "seed!=3", level=None)


def run(arguments: list[str]) -> tuple[int, str, str]:
    """Exit status, output and errors of the command; -1 for a traceback."""
    status, out, err = -1, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = body(arguments)
        except UserError as error:
            status = 2
            print(error, file=sys.stderr)
        except Exception:
            traceback.print_exc()
    return status, out.getvalue(), err.getvalue()


def tried(case: Case) -> tuple[str, str]:
    """What is wrong ("" if nothing is), and what the program printed, in the folder of the table."""
    files = ["across", "a.csv", "b.csv"] if case.file == "across" else [case.file]
    for file in [file for file in files if file != "across"]:
        Path(file).write_bytes(case.text if isinstance(case.text, bytes) else case.text.encode())
    arguments = [*files, *shlex.split(case.flags)]
    status, out, err = run([*arguments, "--out", "page"])
    printed = f"exit {status}\n{out}{err}"
    if status != (2 if case.kind == "refused" else 0):
        return f"exit {status}" if status >= 0 else "a traceback", printed
    if case.kind == "refused" and len(err.strip().splitlines()) != 1:
        return "not one line", printed
    pages = [path.read_text() for path in Path().glob("*/*.md")]
    said = "".join([err, *([] if case.kind == "refused" else [out, *pages])])
    if missing := [word for word in case.says if word not in " ".join(said.split())]:
        return f"not said: {missing}", printed
    if case.kind == "refused":
        return "", printed
    data = json.loads(run([*arguments, "--json"])[1])
    return next(filter(None, map(case.wrong, data.get("datasets", {"": data}).values())), ""), printed


def main() -> None:
    start = os.getcwd()
    cases = [case for case in CASES if not sys.argv[1:] or sys.argv[1] in case.name]
    differing = 0
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            wrong, printed = tried(case)
            os.chdir(start)
        differing += bool(wrong)
        print(f"{'DIFFERS' if wrong else 'ok':8}{case.name}{f': {wrong}' if wrong else ''}", flush=True)
        if wrong:
            print(
                "".join(f"    | {line}\n" for line in [f"vit-report {case.file} {case.flags}", *printed.splitlines()])
            )
    print(f"{len(cases)} tables: {len(cases) - differing} as written, {differing} differ")


if __name__ == "__main__":
    main()
