"""`vit-sweep list` and `init`: the built-in studies, an example of a study file; and the grid of one study."""

import argparse
import math
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from experiments.compared import MOST_PAIRS
from experiments.config import flatten
from experiments.errors import format_level, plural, say
from experiments.metric import Metric
from experiments.presets import preset
from experiments.runs.exports import counted
from experiments.study import Study
from sweeps.plan import FILES, load_study
from sweeps.study_folder import StudyFolder

SPREADS = (0.2, 0.5, 1)  # standard deviations of a run, in margins
EXAMPLE = Path(__file__).parents[1] / "example.yaml"


def add(commands: Any) -> None:
    """Add `list` and `init`."""
    command = commands.add_parser("list", help="list the built-in studies", description="List the built-in studies.")
    command.set_defaults(execute=list_studies)
    description = "Print a commented example of a study file, with every field: vit-sweep init > study.yaml."
    command = commands.add_parser("init", help="print an example of a study file", description=description)
    command.set_defaults(execute=print_example)


def list_studies(arguments: argparse.Namespace, _: str) -> int:
    """Print the built-in studies."""
    width = max(map(len, FILES))
    for study in map(load_study, FILES):
        count = f"{math.prod(map(len, study.factors.values())) + len(study.extra):2} variants"
        say(f"{study.name:{width}}  {count}  {study.description}", hang=width + len(count) + 4)
    say("Each preset is also a study, with one variant; `vit-train presets` lists the presets.")
    return 0


def print_example(arguments: argparse.Namespace, _: str) -> int:
    """Print the example of a study file."""
    say(*EXAMPLE.read_text(encoding="utf-8").splitlines())
    return 0


def print_plan(folder: StudyFolder) -> None:
    """Print the grid and what is done."""
    plan = folder.plan
    planned = Counter(run.variant for run in plan.runs)
    done = Counter(run.variant for run in plan.runs if run.name in folder.ended)
    usual = dict(flatten(preset(plan.preset).model_dump()))
    changed = [f", {path}={format_level(value)}" for path, value in flatten(plan.base) if value != usual.get(path)]
    say(f"{plan.name}: {plan.description}".rstrip(": "), hang=0)
    said = partial(say, hang=10)
    said(f"base      preset {plan.preset}{''.join(changed)}")
    for factor, levels in plan.factors.items():
        texts = [
            ", ".join(map(format_level, level)) if isinstance(level, list) else format_level(level) for level in levels
        ]
        said(f"factor    {factor}: {' | '.join(texts)}")
    if plan.tuning:
        trials = plural(plan.tuning.budget, "trial")
        said(f"tuned     {', '.join(plan.tuning.space)}: for each variant, by {trials}")
    said(f"baseline  {plan.baseline}")
    said(f"metric    {plan.metric}, equivalence margin {Metric(plan.metric).size(plan.margin)}")
    said(f"          {_needed_text(plan)}")
    if plan.looks:
        from analysis.verdicts.looks import ALPHA, Looks  # imports numpy

        tests = zip(plan.looks, Looks(tuple(plan.looks)).shares, strict=True)
        said(f"looks     tests at {', '.join(f'{n} (level {ALPHA * share:.2%})' for n, share in tests)} seeds")
    width = max(map(len, [*planned, "variant"]))
    say("", f"{'variant':{width}}  seeds  done")
    for variant, seeds in planned.items():
        say(f"{variant:{width}}  {seeds:5}  {done[variant]:4}")
    say("", f"{plural(len(plan.runs), 'run')}, {done.total()} done, in {folder.dir}", *counted(plan, folder.reused))


def _needed_text(plan: Study) -> str:
    """How many seeds a difference of the margin takes, at several standard deviations: four of five studies notice it
    then. The report says the same by the spread of each pair.
    """
    from analysis.verdicts.estimates import ALPHA  # imports numpy and scipy
    from analysis.verdicts.looks import Looks
    from analysis.verdicts.power import needed_seeds, planned_df

    variants = len(plan.variants)
    pairs = variants - 1 if plan.family == "baseline" or variants > MOST_PAIRS else math.comb(variants, 2)
    level = ALPHA * Looks(tuple(plan.looks)).shares[-1] / max(pairs, 1) / (2 if plan.has_grid else 1)
    n = max(len(plan.seeds), 2)
    df = planned_df(n, max(variants, 2), plan.variance)
    needed = [(math.ceil(needed_seeds(1, math.sqrt(2) * spread, n, level, df)), spread) for spread in SPREADS]
    guesses = ", ".join(f"about {seeds:,} if it is {spread:g} of the margin" for seeds, spread in needed)
    return f"seeds to notice it, by the standard deviation of the runs: {guesses}"
