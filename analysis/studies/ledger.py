"""The ledger: what the studies of a folder say about published claims."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis import words
from analysis.claims.literature import published_claims
from analysis.findings import Findings, analyze
from analysis.findings.columns import verdict_mark
from analysis.questions.claims import claim_fields, source, study_claims, training
from analysis.runs.read import explore
from analysis.runs.runs import Runs
from analysis.write.document import Section, present
from analysis.write.table import Column, Key, Table, Value
from experiments.config import DEFAULTS, LOCATIONS, plain
from experiments.metric import PERMUTED

DECIDED = ("holds here", "does not hold here")
OUTCOMES = {"holds here": "yes", "does not hold here": "no", "undecided here": "?"}
"""outcome -> how the matrix says it"""
ALL_OUTCOMES = (*OUTCOMES, "not tested", "not comparable")
FIELDS = ("id", "statement", "quote", "source", *ALL_OUTCOMES, "groups")
OWN = (
    Column("claim", "id", key=True),
    Column("statement", "statement"),
    *(Column(outcome, f"in {outcome}", words.counts) for outcome in OUTCOMES),
    Column("groups", "groups", words.counts),
)
CLAIMS = (*OWN, Column("source", source, detail=True))
TESTS = (
    Column("claim", "id", key=True),
    Column("study", "study"),
    Column("metric", "metric"),
    Column("setting", "setting"),
    Column("outcome", "verdict", mark=lambda row: verdict_mark(row["verdict"])),
    Column("evidence", "evidence"),
    Column("n", "n", words.counts),
)
MATRIX_CAPTION = "Does a claim hold in a study? A click on yes, no or ? (undecided) shows why."
CLAIMS_CAPTION = (
    "Published claims, and in how many studies each holds, does not hold or is undecided. Groups: of all studies with "
    "an outcome, how many share no run."
)
OWN_CAPTION = "Our own questions, which no source states in this form."
NOTES = (
    "The outcomes are those of the report of each study, which states its intervals: `vit-report STUDY`, with "
    "`--metric METRIC` for an accuracy at another image size.",
    "Holds here: the interval of every pair of variants that the claim is about lies on the side that it says. Does "
    "not hold here: that of at least one pair lies on the other side. Undecided here: neither.",
    f"Intervals hold for all pairs of the study together ({words.CONFIDENCE}), at the level of a planned look; with "
    "`family: baseline`, for those with the baseline. Studies that were looked at without a plan have a lower level.",
    "One rate for all: it need not be the best one for each variant. Where it was chosen for one of them, that one is "
    "favoured.",
    "“Much lower” and “clearly better” mean by more than the margin of the study (1 point), “little” means within it.",
    "The statements are ours, read off the text or the table of a source, which need not claim them as a rule. The "
    "sources use other models, data or training: “does not hold here” concerns the statement as a rule, in the setting "
    "of the study, not the measurement of its source.",
    "Not comparable: the study cannot decide the claim, for the reason given. On larger images, “holds here” needs "
    "both kinds of the pair to be clearly better than none, “does not hold here” only the second: then the first may "
    "have lost what the model learned. These are the test images enlarged, with no more detail. Accuracies at other "
    "image sizes are exploratory, and those of one study are not independent.",
)


def ledger_rows(findings: Findings) -> list[dict[str, Any]]:
    """What a study says about each claim, by its metric and on other test images."""
    study, rows = findings.study, list[dict[str, Any]]()
    for metric in dict.fromkeys([study.metric, *study.metrics]):
        larger = metric.img_size and metric.base == study.metric
        if metric == study.metric or larger or (metric == PERMUTED and study.metric == "test/acc"):
            asked = explore(study, metric, None)
            for result in study_claims(findings if asked is study else analyze(asked)):
                one, decisive = result.estimate, result.decisive
                numbers = {"value": one.value, "adjusted_low": one.low, "adjusted_high": one.high}
                tested = {"relation": decisive.relation, "bound": decisive.bound, "metric": str(metric)}
                rows.append(claim_fields(result) | numbers | tested)
    return [{**row, "setting": training(study)} for row in rows]


def ledger_section(
    rows: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[str]], links: Mapping[str, str]
) -> list[Section]:
    """The section on all claims, in their order; none without rows.

    `groups`: see `independent_groups`. `links`: study -> address of its report, or "".
    """
    if not rows:
        return []
    order = [claim.id for claim in published_claims()]
    frame = pd.DataFrame(sorted(rows, key=lambda row: order.index(row["id"])), dtype=object)
    claims = frame.drop_duplicates("id")[["id", "statement", "quote", "source"]]
    for outcome in ALL_OUTCOMES:
        decided = frame[frame["verdict"] == outcome]
        claims[outcome] = [_by_setting(decided[decided["id"] == id]) for id in claims["id"]]
        claims[f"in {outcome}"] = [decided.loc[decided["id"] == id, "study"].nunique() for id in claims["id"]]
    group = {study: place for place, studies in enumerate(groups) for study in studies}
    claims["groups"] = [frame.loc[frame["id"] == id, "study"].map(group).nunique() for id in claims["id"]]
    published, fields = claims["source"] != "", dict[Key, Value]({name: name for name in FIELDS})
    sourced, own, tests = (of.to_dict("records") for of in (claims[published], claims[~published], frame))
    key, study, *others = TESTS
    shown = (key, replace(study, link=lambda row: links[row["study"]]), *others)
    by_study = "The tests behind each outcome, by study and metric."
    tested = Table("claim_tests", by_study, tests, shown, notes=NOTES, folded=True, group=_anchor)
    matrix = _matrix(frame)
    items = present(
        matrix,
        Table("claims", CLAIMS_CAPTION, sourced, CLAIMS, fields, group=_claim),
        Table("own", OWN_CAPTION, own, OWN, fields, group=_claim) if own else None,
        tested,
    )
    families, decided = len(frame[["study", "metric"]].drop_duplicates()), int(frame["verdict"].isin(DECIDED).sum())
    said, *shared = _counted(frame, claims[published], group, groups)
    rest = (
        f"Outcomes “holds here” and “does not hold here”: {decided}. Each study has 5 % of its own: nothing is "
        f"adjusted over the {families} pairs of a study and a metric on this page, so some outcomes can be false."
    )
    yes, no = (int((claims.loc[published, outcome] != "").sum()) for outcome in DECIDED)
    title = f"{int(published.sum())} published claims: {yes} hold in a study here, {no} do not hold in one"
    frames = {"matrix": matrix.data}
    return [Section("claims", "Published claims", items, [*shared, rest], [said], frames=frames, title=title)]


def _matrix(frame: pd.DataFrame) -> Table:
    """A row for each claim, a column for each study; of several metrics, what is decided."""
    cells: dict[str, dict[str, Any]] = {}
    for test in frame[frame["verdict"].isin(OUTCOMES)].to_dict("records"):
        known = cells.setdefault(test["id"], {})
        if test["study"] not in known or known[test["study"]]["verdict"] not in DECIDED:
            known[test["study"]] = test
    studies = dict.fromkeys(study for known in cells.values() for study in known)

    def column(study: str) -> Column:
        def part(show: Callable[[dict[str, Any]], str]) -> Callable[[str], str]:
            return lambda claim: show(cells[claim][study]) if study in cells[claim] else ""

        outcome, mark = part(lambda test: OUTCOMES[test["verdict"]]), part(lambda test: verdict_mark(test["verdict"]))
        return Column(study, outcome, link=part(lambda test: f"#{_anchor(test)}"), mark=mark, field=study)

    columns = (
        Column("claim", str, key=True, field="claim", link=lambda claim: f"#{_claim({'id': claim})}"),
        *map(column, studies),
    )
    return Table("matrix", MATRIX_CAPTION, list(cells), columns, {c.field: c.value for c in columns}, listing=True)


def _claim(row: Mapping[str, Any]) -> str:
    return f"claim-{row['id']}"


def _anchor(test: Mapping[str, Any]) -> str:
    """The place of the tests of a claim in a study. A hash, since the name of the study is the user's text."""
    return f"test-{test['id']}-{zlib.crc32(test['study'].encode()):08x}"


def _counted(
    frame: pd.DataFrame, published: pd.DataFrame, group: Mapping[str, int], groups: Sequence[Sequence[str]]
) -> list[str]:
    """How many statements, sources and studies there are, and which studies share runs."""
    studies, sources = set(frame["study"]), published["source"].str.split(",").str[0].nunique()
    decided, tested = (int((published[[*which]] != "").any(axis=1).sum()) for which in (DECIDED, OUTCOMES))
    shared = [[study for study in names if study in studies] for names in groups]
    apart = len({group[study] for study in studies})
    repeats = "; ".join(words.listing(names) for names in shared if len(names) > 1)
    return [
        f"{words.plural(len(published), 'statement')} of {words.plural(sources, 'source')}, on "
        f"{words.plural(len(studies), 'study', 'studies')}: {tested} can be tested in a study here, "
        f"and {decided} hold or do not hold in one.",
        "Studies that share runs (the same settings and seeds, up to the precision) are one piece of evidence"
        + (f"; there are {apart} groups of studies that share no run" if apart > 1 else "")
        + "."
        + (f" Shared runs: {repeats}." if repeats else "")
        + " Groups can still share the order of the data and the test images.",
    ]


def _by_setting(tests: pd.DataFrame) -> str:
    """The studies of these tests: those with one setting, then that setting."""
    studies = tests.groupby("setting", sort=False)["study"].unique()
    return "; ".join(f"{words.listing([*named])} ({setting})" for setting, named in studies.items())


def independent_groups(studies: Mapping[str, Runs]) -> list[list[str]]:
    """The studies in groups. Two studies are in one group where a run of each has the same settings and the same seed.

    The precision, the compiler and what is evaluated do not count: they change the rounding, or nothing.
    """
    groups: list[tuple[list[str], set[Any]]] = []
    for name, study in studies.items():
        names, runs = [name], _runs(study)
        for group in [group for group in groups if group[1] & runs]:
            names, runs = [*group[0], *names], group[1] | runs
            groups.remove(group)
        groups.append((names, runs))
    return [names for names, _ in groups]


def computed(study: Runs) -> list[tuple[str, int, dict[str, Any]]]:
    """Variant and seed of each finished run, and what it computes: its settings that differ from the defaults."""
    finished = study.of("finished")
    ignored = {*LOCATIONS, "seed", "train.precision", "train.compile"}
    paths = [p for p in finished.columns if p in DEFAULTS and p not in ignored and not p.startswith("eval.")]
    rows = finished[paths].to_dict("records")
    changed = [{p: v for p, v in plain(row).items() if v not in (None, DEFAULTS[p])} for row in rows]
    return [*zip(finished["variant"], finished["seed"], changed, strict=True)]


def _runs(study: Runs) -> set[Any]:
    """What each finished run computes, and its seed."""
    return {(seed, frozenset((p, str(v)) for p, v in changed.items())) for _, seed, changed in computed(study)}
