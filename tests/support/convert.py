"""Write exports of an earlier format anew, in place: `python tests/support/convert.py FOLDER`.

It takes what the code of 4bf284bf exports: digests in study.json, and JSON in cells. What an export does not write,
such as test_hits.npz, stays.
"""

import csv
import io
import json
import sys
from pathlib import Path

from analysis.runs.source_run import COLUMNS
from experiments.config import DEFAULTS, completed
from experiments.metric import is_metric

OLDER = {"init_from", "init_weights"}  # settings of older records, of which no export has another value than none


def cell(text):
    """A cell without JSON: a text has no quotes, true and false are in lower case."""
    if text.startswith('"'):
        return json.loads(text)
    return "" if text == "null" else text.lower() if text in ("True", "False") else text


def table(body):
    head, *rows = csv.reader(io.StringIO(body, newline=""))
    assert all(not row[head.index(name)] for row in rows for name in OLDER & {*head})
    kept = [place for place, name in enumerate(head) if name not in OLDER]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerows(
        [head[place] for place in kept] if row is head else [cell(row[place]) for place in kept]
        for row in (head, *rows)
    )
    return written.getvalue()


def convert(folder):
    path = folder / "study.json"
    tree = json.loads(path.read_text(encoding="utf-8"))
    if tree["export"].get("schema") != 1:
        return
    tree["base"] = completed(tree["base"])
    stated = {"schema": 2, "troubles": tree["export"]["troubles"], "looks": tree["export"].get("looks") or []}
    path.write_text(json.dumps({**tree, "export": stated}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name in ("runs.csv", "curves.csv"):
        file = folder / name
        file.write_bytes(table(file.read_bytes().decode()).encode())
    known = {*COLUMNS, *DEFAULTS, "digest"}
    head = next(csv.reader(io.StringIO((folder / "runs.csv").read_text(encoding="utf-8"))))
    print(folder, [name for name in head if name not in known and not is_metric(name)])


if __name__ == "__main__":
    for found in sorted(Path(sys.argv[1]).rglob("study.json")):
        convert(found.parent)
