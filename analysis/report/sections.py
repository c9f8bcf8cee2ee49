"""What stands in a report and in which order: the words around tables and figures. No markup, no file, no statistics."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import yaml

from analysis import formatting
from analysis.figures.study_figures import all_plots
from analysis.figures.style import Plot
from analysis.report import cells, factor_tables, published, tables
from analysis.report.audit import audit_warnings
from analysis.report.headline import answer
from analysis.report.render import Table
from analysis.results import ALPHA, Results
from analysis.sources.settings import PLACES
from analysis.sources.study import ENDED, METRICS, Study, not_held_fixed

SLOW = 2.0  # times the median of its like, from which on a run's time is worth a warning


@dataclass(frozen=True)
class Item:
    """One thing in a section; `kind` says which of the fields it is: table, plot, facts or code."""

    kind: str
    table: Table | None = None
    plot: Plot | None = None
    facts: tuple[tuple[str, str], ...] = ()
    heading: str = ""
    text: str = ""


@dataclass(frozen=True)
class Section:
    """A section; `id` is its anchor."""

    id: str
    heading: str
    items: list[Item] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """All that a report says. `runs`: the tables of its appendix; `attached`: tables that are only written as files."""

    title: str
    description: str
    summary: str
    answer: tuple[str, ...]
    warnings: list[str]
    sections: list[Section]
    plots: list[Plot]
    runs: list[Table] = field(default_factory=list)
    troubles: list[tuple[str, str]] = field(default_factory=list)
    attached: list[Table] = field(default_factory=list)
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    linked: bool = False
    """whether the runs' records lie where the tables of runs point"""


def document(results: Results, inside: Section | None = None, out: Path | None = None) -> Document:
    """The report of one study; `inside` is what was seen in its models (see `inside_section`), `out` its folder."""
    study, plots = results.study, all_plots(results)
    said = sections(results, {plot.name: plot for plot in plots})
    if inside is not None:
        said.insert([section.id for section in said].index("metrics"), inside)
        plots += [item.plot for item in inside.items if item.plot is not None]
    shown = {item.table.name for section in said for item in section.items if item.table is not None}
    pairs = tables.pairs_table(results)
    linked = study.folder is not None and (out is None or out.absolute().parent == study.folder.absolute())
    return Document(
        title=title(study),
        description=study.description,
        summary=summary(results),
        answer=answer(results),
        warnings=warnings(results),
        sections=said,
        plots=plots,
        runs=[tables.runs_table(results, variant, linked) for variant in results.variants],
        linked=linked,
        troubles=sorted(study.troubles.items()),
        attached=[pairs] if pairs is not None and pairs.name not in shown else [],
        frames={"runs": study.runs, "curves": study.curves},
    )


def sections(results: Results, plots: dict[str, Plot]) -> list[Section]:
    """Every section but the list of runs, in the order of reading; those with nothing to say are left out."""
    found = [
        Section("result", "Result", [_table(tables.variants_table(results)), *_plots(plots, "accuracy")]),
        Section("claims", "Published claims", _tables(published.table8(results), tables.claims_table(results))),
        _differences(results, plots),
        _factors(results, plots),
        Section("curves", "Learning curves", _plots(plots, "curves")),
        Section("cost", "Cost", [*_plots(plots, "cost"), _table(tables.cost_table(results))]),
        Section(
            "metrics", "Every metric", [_table(tables.metrics_table(results)), _table(tables.spread_table(results))]
        ),
        methods(results),
        provenance(results.study),
        reproduce(results.study),
    ]
    return [section for section in found if section.items or section.paragraphs]


def inside_section(results: Results, skip_unreadable: bool = False) -> Section | None:
    """Figures from checkpoints, and why some could not be had; None where the runs left none. Imports torch where they
    did.
    """
    from analysis.figures.inspect import look
    from analysis.figures.model_figures import inside_plots
    from analysis.figures.study_figures import coloured

    if results.study.folder is None:
        return None
    looks, troubles = look(results.study, coloured(results), skip_unreadable)
    plots = inside_plots(looks, {results.best, results.study.baseline})
    said = (
        ["One finished run of each variant, the one with the lowest seed: an illustration, not a measurement."]
        if looks
        else []
    )
    said += [f"Without {trouble}." for trouble in troubles[:3]] + (
        [f"And without {len(troubles) - 3} more."] if len(troubles) > 3 else []
    )
    return Section("inside", "Inside the models", [Item("plot", plot=plot) for plot in plots], said)


def title(study: Study) -> str:
    """The report's title."""
    return (
        f"{study.name}: {study.metric.label} by "
        f"{formatting.listing([factor_tables.factor_name(factor) for factor in study.factors])}"
    )


def summary(results: Results) -> str:
    """What the study is, in a line."""
    study = results.study
    seeds = study.runs.loc[study.runs["status"] != "unplanned", "seed"].nunique()
    data = study.base.get("data.name") if "data.name" not in _moved(study) else None
    parts = [
        f"{len(results.variants)} variant{'s' * (len(results.variants) != 1)} × {seeds} seed{'s' * (seeds != 1)}",
        *([f"on {data}"] if data else []),
        f"baseline {study.baseline}",
        f"a difference within ±{cells.margin_text(results)} would not matter",
        *cells.foot(results)[0].split(". ")[:1],
    ]
    return ", ".join(parts[:2]) + "; " + "; ".join(parts[2:]).rstrip(".") + "."


def warnings(results: Results) -> list[str]:
    """What a reader must know before believing a number."""
    study, found = results.study, list(results.study.plan.get("notes", []))
    for path, values in not_held_fixed(study).items():
        found.append(
            f"{path} was not held fixed: {formatting.listing(values[:6])}. It is no factor of the study, so a difference "
            "may come from it."
        )
    found += audit_warnings(results)
    ended = study.of(*ENDED)
    if len(commits := ended["commit"].dropna().unique()) > 1:
        found.append(f"The runs were made by {len(commits)} different commits; see Provenance.")
    if ended["dirty"].eq(True).any():
        found.append("Some runs were made from code with uncommitted changes; see Provenance.")
    if len(machines := ended["hardware"].dropna().unique()) > 1:
        found.append(
            f"The runs were made on {len(machines)} kinds of hardware; see Provenance, and compare times only within a seed."
        )
    slow = results.cost["slowest"].dropna()
    if not slow.empty and slow.max() > SLOW:
        found.append(
            f"Times are uneven: a run of {slow.idxmax()} took {slow.max():.1f} times the median of its like, so the machine "
            "had other work to do. Accuracies do not depend on that."
        )
    planned = len(study.runs) - len(study.of("unplanned"))
    for status, what in (
        ("diverged", "diverged"),
        ("unreadable", "could not be read and were skipped"),
        ("pruned", "were stopped early for their results"),
    ):
        if lost := len(study.of(status)):
            biased = ", so they look better than they are" if status == "pruned" else ""
            found.append(f"{lost} of {planned} runs {what}; means are of the others{biased}.")
    return found


def methods(results: Results) -> Section:
    """How every number was computed."""
    study, margin = results.study, cells.margin_text(results)
    better = "lower" if study.metric.lower_is_better else "higher"
    return Section(
        "methods",
        "Methods",
        paragraphs=[
            (
                "A run is one configuration trained once with one seed; runs that differ only in their seed share a "
                f"variant. The metric is the {study.metric.label} "
                f"after the last epoch ({better} is better); no epoch is picked by its result. Means are over the runs "
                "that finished, with Student's t interval at 95 %."
            ),
            (
                f"Each variant is compared with {study.baseline} seed by seed, over the seeds that both have: the mean of "
                "the differences with Student's t interval at 95 %. "
                "The paired t test's p is adjusted over the family of comparisons by Holm's method. Equivalence is "
                f"tested by two one-sided t tests at the margin of ±{margin} that "
                "the study states before its runs, Holm-adjusted likewise."
            ),
            f'The verdict is "equivalent" where equivalence is shown at {ALPHA:.0%}; else "better" or "worse" where a difference is shown; else "not enough evidence". '
            'The last is never to be read as "no difference".'.replace("5%", "5 %"),
            (
                "Runs that diverged or were pruned have no final value: they are listed and counted, and in no mean. "
                "P(better) is the share of seeds on which the variant beats the other, a tie counting half. The smallest "
                "detectable difference and the seeds to decide are for 80 % power at the strictest level of Holm's method."
            ),
            (
                "The split of the images does not depend on the seed: intervals, tests and verdicts speak of other seeds "
                "(other initial weights, order, augmentation and dropout) on the same training and test images, not of "
                "other images."
            ),
            (
                "The interquartile mean leaves out a quarter of the runs, rounded down, at each end; its interval is Yuen's for a "
                "trimmed mean. A study of several factors is fitted by ordinary least squares "
                "with sum-to-zero contrasts, all two-way interactions and seeds as blocks."
            ),
            (
                "Parameters and fixed values are the model's own; FLOPs are of one image's forward pass by PyTorch's "
                "counter, a multiply-add being two. Device seconds are those of training, without loading."
            ),
        ],
    )


def provenance(study: Study) -> Section:
    """Code, versions, hardware, total cost, and the settings that were the same for all."""
    ended = study.of(*ENDED)
    commits = [
        f"{'not in a checkout' if pd.isna(commit) else commit} "
        f"({'uncommitted changes, ' if dirty is True else ''}{len(runs)} run{'s' * (len(runs) != 1)}, {_seeds(runs)})"
        for (commit, dirty), runs in ended.groupby(["commit", "dirty"], dropna=False, sort=True)
    ]
    wall = (ended["wall_seconds"] / ended["cohort"].fillna(1)).sum(min_count=1)  # a cohort's runs share theirs
    facts = [
        ("code", "; ".join(commits)),
        ("versions", _counted(ended["versions"])),
        ("hardware", _counted(ended["hardware"])),
        (
            "time",
            (
                f"{formatting.seconds(wall)} of run time, "
                f"{formatting.seconds(ended['device_seconds'].sum(min_count=1))} of it on the device, over {len(ended)} runs"
            ),
        ),
        (
            "made",
            f"{ended['started'].dropna().min()} to {ended['finished'].dropna().max()}"
            if ended["started"].notna().any()
            else formatting.DASH,
        ),
        ("digest of the records", digest(study)),
    ]
    held = tuple((path, _setting(value)) for path, value in study.base.items() if path not in {*_moved(study), *PLACES})
    items = [Item("facts", facts=tuple(facts))]
    return Section(
        "provenance",
        "Provenance",
        items + ([Item("facts", heading="Settings that all runs share", facts=held)] if held else []),
    )


def reproduce(study: Study) -> Section:
    """The commands that make the runs and this report again."""
    commits = study.of(*ENDED)["commit"].dropna().unique()
    lines = [f"git checkout {commits[0]}"] if len(commits) == 1 else []
    if len(commits) > 1:
        lines.append("# of several commits: check out each for the seeds that Provenance names")
    lines += [_with_all_seeds(study)] if study.command else []
    if source := study.plan.get("source"):  # a mirror says neither what to compare nor where a report goes
        words = [source, "--metric", study.metric, "--baseline", study.baseline, "--out", "report"]
    else:
        words = [f"{_out(study.command)}/{study.name}"]
    lines.append(f"vit-report {shlex.join(words)}")
    return Section("reproduce", "Reproduce", [Item("code", text="\n".join(lines)), *_definition(study)])


def _definition(study: Study) -> list[Item]:
    """The user's own file of the study, as the sweep read it."""
    words = _words(study.command)
    file = next((word for word in words if word.endswith((".yaml", ".yml"))), None)
    if file is None or "study" not in study.plan:
        return []
    text = yaml.safe_dump(study.plan["study"], sort_keys=False, allow_unicode=True)
    return [Item("code", text=f"# {file}, as the sweep read it\n{text.rstrip()}")]


def _with_all_seeds(study: Study) -> str:
    """The sweep's command, with the seeds that all commands together have planned: the last one may have named fewer."""
    planned = study.plan.get("seeds", [])
    told = ",".join(map(str, planned)) + "," * (len(planned) == 1)
    if planned == list(range(len(planned))):
        told = str(len(planned))
    words = _words(study.command)
    found = _option(words, "--seeds")
    if not planned or found is None:
        return study.command
    place, given = found
    words[place] = words[place].removesuffix(given) + told
    return shlex.join(words)


def _option(words: list[str], flag: str) -> tuple[int, str] | None:
    """The place of an option's value among a command's words, and the value: `--out DIR` or `--out=DIR`."""
    for place, word in enumerate(words):
        if word == flag and words[place + 1 :]:
            return place + 1, words[place + 1]
        if word.startswith(f"{flag}="):
            return place, word.removeprefix(f"{flag}=")
    return None


def _words(command: str | None) -> list[str]:
    try:
        return shlex.split(command or "")
    except ValueError:  # not a shell's line, since it is the user's text
        return []


def _seeds(runs: pd.DataFrame) -> str:
    """`seeds 0 to 4`."""
    seeds = sorted(set(runs["seed"]))
    whole = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    told = f"{seeds[0]} to {seeds[-1]}" if whole else formatting.listing([str(seed) for seed in seeds])
    return f"seed{'s' * (len(seeds) != 1)} {told}"


def digest(study: Study) -> str:
    """One digest for all records: SHA-256 of the runs' digests, sorted; a mirror has none, and there it is of how each
    run stands. Two reports with the same one show the same records.
    """
    known = sorted(study.runs["digest"].dropna())
    if not known:
        known = sorted(study.runs[["run", "status", *METRICS]].to_csv(index=False).splitlines())
    return hashlib.sha256("\n".join(known).encode()).hexdigest()


def _differences(results: Results, plots: dict[str, Plot]) -> Section:
    if not results.others:
        return Section("differences", "Differences")
    items = [*_plots(plots, "differences"), _table(tables.comparisons_table(results))]
    pairs = tables.pairs_table(results)
    if pairs and len(pairs.rows) <= tables.MOST_PAIR_ROWS:
        items.append(_table(pairs))
    return Section("differences", "Differences to the baseline", items)


def _factors(results: Results, plots: dict[str, Plot]) -> Section:
    items = [*_plots(plots, "interaction"), *_tables(*factor_tables.factor_tables(results))]
    said = [f"No linear model could be fitted: {results.factorial_trouble}"] if results.factorial_trouble else []
    return Section("factors", "Factors and interactions", items, said)


def _table(table: Table) -> Item:
    return Item("table", table=table)


def _tables(*given: Table | None) -> list[Item]:
    return [_table(table) for table in given if table is not None]


def _plots(plots: dict[str, Plot], *names: str) -> list[Item]:
    return [Item("plot", plot=plots[name]) for name in names if name in plots]


def _moved(study: Study) -> set[str]:
    """Settings that are not the same for all runs."""
    return {path for factor in study.factors for path in factor.split("+")} | set(not_held_fixed(study))


def _setting(value: object) -> str:
    return "not set" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _counted(column) -> str:
    """Each value with how many runs have it, the most frequent first."""
    counts = sorted(column.fillna("").value_counts().items(), key=lambda item: (-item[1], item[0]))
    return (
        "; ".join(value if len(counts) == 1 else f"{value} ({count} runs)" for value, count in counts if value)
        or formatting.DASH
    )


def _out(command: str | None) -> str:
    """The --out of the sweep's command, so that no path of this machine stands in the report."""
    found = _option(_words(command), "--out")
    return found[1].rstrip("/") if found else "runs"
