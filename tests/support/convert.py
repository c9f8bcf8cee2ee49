"""Write exports of an earlier format anew, in place: `python tests/support/convert.py FOLDER`.

It takes what the code of 4bf284bf exports (digests in study.json, JSON in cells), and what that of 5882561a exports
(the study file as it was read, and what each run had stated when it started). What an export does not write, such as
test_hits.npz, stays.
"""

import csv
import hashlib
import io
import json
import sys
from collections import Counter
from pathlib import Path

from experiments.config import changed_settings, completed
from experiments.files import canonical
from experiments.study import Study

OLDER = {"init_from", "init_weights"}  # settings of older records, of which no export has another value than none
BY_VALUE = ("metric", "margin", "baseline", "seeds")
STATED = {f"planned_{name}" for name in (*BY_VALUE, "fields")}
KEPT = (
    "description",
    "tuned",
    "base",
    "factors",
    "extra",
    "baseline",
    "metric",
    "margin",
    "looks",
    "variance",
    "family",
)


def cell(text):
    """A cell without JSON: a text has no quotes, true and false are in lower case."""
    if text.startswith('"'):
        return json.loads(text)
    return "" if text == "null" else text.lower() if text in ("True", "False") else text


def table(file, read):
    """The rows of a table as dicts."""
    head, *lines = csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))
    return head, [dict(zip(head, map(read, line), strict=True)) for line in lines]


def write(file, head, rows):
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerows([head, *([row[name] for name in head] for row in rows)])
    file.write_bytes(written.getvalue().encode())


def text(value):
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def earlier_states(tree, rows):
    """What the ended runs had stated that the study does not state now: a state for each combination."""
    stated = {key: tree[key] for key in KEPT if tree.get(key) not in (None, "", [], {})}
    stated["base"] = changed_settings(tree["base"])
    now = {key: hashlib.sha256(canonical(value)).hexdigest()[:12] for key, value in stated.items()}
    states = Counter()
    for row in rows:
        if row["status"] in ("finished", "diverged", "pruned"):
            then = dict(part.split("=") for part in (row.get("planned_fields") or "").split())
            fields = {name for name in {*then, *now} - {*BY_VALUE} if then and then.get(name) != now.get(name)}
            changed = {}
            for name in BY_VALUE:
                before = row.get(f"planned_{name}")
                if before and before != text(tree[name]):
                    changed[name] = [int(n) for n in before.split(", ")] if name == "seeds" else before
            changed |= dict.fromkeys(sorted(fields))
            states[json.dumps(changed)] += bool(changed)
    found = [{"runs": n, "stated": json.loads(changed)} for changed, n in states.items() if n]
    return sorted(found, key=lambda state: -len(state["stated"]))


def study(tree, rows):
    """study.json of a study as it is now."""
    file = tree.pop("study", {})
    states = earlier_states(tree, rows)
    exported = {"troubles": tree["export"]["troubles"], "looks": tree.pop("export").get("looks") or []}
    tree = {("tuning" if key == "tuned" else "sources" if key == "reuse" else key): tree[key] for key in tree}
    named = {key: file[key] for key in ("names", "labels") if file.get(key)}
    written = {**tree, "schema": 2, **named, **({"earlier": states} if states else {})}
    return {**Study.parse(written, tree["name"]).tree(), "export": exported}


def convert(folder):
    path = folder / "study.json"
    tree = json.loads(path.read_text(encoding="utf-8"))
    if tree["schema"] != 1:
        return
    tree["base"] = completed(tree["base"])
    read = cell if tree["export"]["schema"] == 1 else str
    for name in ("runs.csv", "curves.csv"):
        head, rows = table(folder / name, read)
        assert all(not row[column] for row in rows for column in OLDER & {*head})
        if name == "runs.csv":
            written = study(tree, rows)
        write(folder / name, [column for column in head if column not in OLDER | STATED], rows)
    path.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(folder)


if __name__ == "__main__":
    for found in sorted(Path(sys.argv[1]).rglob("study.json")):
        convert(found.parent)
