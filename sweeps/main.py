"""`vit-sweep`: list the studies, show the grid of a study, train its runs. It parses and prints; imports come late."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from experiments.cli import Parser, add_settings, folder, positive, run_command, settings
from experiments.errors import UserError
from experiments.metric import Metric
from experiments.runs.tracking import MODES, Tracking

if TYPE_CHECKING:
    from sweeps.plan import Plan
    from sweeps.worker import WorkerConfig

PROG = "vit-sweep"
COMMANDS = ("list", "show", "run", "init")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point. Exit status: 0; 1 if runs failed in every attempt; 2 for bad input; 130 on Ctrl-C."""
    run_command(_body, PROG, argv, resumes=True)


def _parser() -> Parser:
    parser = Parser(PROG, description="Train every variant of a study with several seeds.")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}", parser_class=Parser
    )
    commands.add_parser("list", help="list the built-in studies", description="List the built-in studies.")
    shown = "Show the factors, the variants and the number of finished runs of a study."
    usage = f"{PROG} {{}} STUDY|FILE.yaml [--preset NAME] [--seeds N] [--out DIR] [--SETTING VALUE ...]"
    show = commands.add_parser(
        "show", help="show the grid of a study and what is done", description=shown, usage=usage.format("show")
    )
    trained = "Train a study. Run the same command again to resume."
    run = commands.add_parser(
        "run", help="train a study, or resume it", description=trained, usage=f"{usage.format('run')} [options]"
    )
    started = "Print a commented example of a study file, with every field: vit-sweep init > study.yaml."
    commands.add_parser("init", help="print an example of a study file", description=started)
    for command in (show, run):
        _add_study_arguments(command)
    _add_run_arguments(run)
    for command in (show, run):
        add_settings(command, hidden=["seed"])  # a study has `seeds`
    return parser


def _add_study_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "study", metavar="STUDY|FILE.yaml", help="a built-in study; a preset; or a YAML file with `name` and `factors`"
    )
    command.add_argument(
        "--preset", metavar="NAME", help="preset that the study starts from (default: the study's, else digits)"
    )
    command.add_argument(
        "--seeds",
        type=_seeds,
        metavar="N",
        help="a number N for the seeds 0 to N-1, or a list such as 0,3,7 (default: the study's, else 5)",
    )
    command.add_argument(
        "--out", metavar="DIR", type=folder, default="runs", help="parent folder of the study's folder (default: runs)"
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="set a setting for all variants, as the flags below do; PATH+PATH=[VALUE, VALUE] sets several",
    )


def _add_run_arguments(run: argparse.ArgumentParser) -> None:
    run.add_argument("--dry-run", action="store_true", help="show the grid and an estimate of the time; train nothing")
    workers = run.add_mutually_exclusive_group()
    workers.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="number of workers (default: one per GPU; without a GPU, one per CPU core)",
    )
    workers.add_argument(
        "--workers-per-gpu",
        type=positive,
        metavar="N",
        help="number of workers on each GPU; they share its memory (default: 1)",
    )
    run.add_argument(
        "--cohort",
        type=_cohort,
        metavar="N|auto",
        help="number of runs of a variant that a worker trains together, stacked into one model; auto: on a GPU the fastest "
        "number, by a short measurement; on a CPU 1. Runs interrupted together resume together (default: auto)",
    )
    run.add_argument(
        "--device",
        default="auto",
        help="auto, cpu, cuda (every GPU) or one GPU such as cuda:1; auto: every GPU, else the CPU (default: auto)",
    )
    run.add_argument(
        "--tracking",
        choices=MODES,
        default="auto",
        help="W&B mode; auto: online if an API key is configured, else offline (default: auto)",
    )


def _seeds(text: str) -> int | list[int]:
    parts = text.split(",")
    if parts[-1] == "" and len(parts) > 1:
        parts.pop()  # "3," is the list of one seed
    if not all(part.strip().isdecimal() and len(part) < 20 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: expected a number from 1, or a list such as 0,3,7")
    numbers = [int(part) for part in parts]
    from sweeps.study import check_seeds

    try:
        return check_seeds(numbers if "," in text else numbers[0])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _cohort(text: str) -> int | None:
    return None if text == "auto" else positive(text)


def _body(argv: Sequence[str]) -> int:
    _suggest_command(argv)
    arguments = _parser().parse_args(argv)
    if arguments.command == "list":
        return _list()
    if arguments.command == "init":
        print(Path(__file__).with_name("example.yaml").read_text(encoding="utf-8"), end="")
        return 0
    from sweeps.study_folder import with_known_names

    plan = _plan(arguments)
    study_dir = Path(arguments.out) / plan.study.name
    plan = with_known_names(plan, study_dir)
    if arguments.command == "show":
        _show(plan, study_dir)
        return 0
    return _run(plan, study_dir, arguments, shlex.join([PROG, *argv]))


def _suggest_command(argv: Sequence[str]) -> None:
    """Raise `UserError` with a hint where the name of a study is given without a command."""
    if argv and argv[0] not in COMMANDS and not argv[0].startswith("-"):
        from sweeps.builtin import is_study

        if is_study(argv[0]):
            raise UserError(f"{argv[0]!r} is a study, not a command; did you mean: {PROG} run {shlex.quote(argv[0])}?")


def _list() -> int:
    from sweeps.builtin import STUDIES

    width = max(map(len, STUDIES))
    for study in STUDIES.values():
        print(f"{study.name:{width}}  {sum(1 for _ in study.variants()):2} variants  {study.description}")
    print("Each preset is also a study, with one variant; `vit-train presets` lists the presets.")
    return 0


def _plan(arguments: argparse.Namespace) -> Plan:
    from sweeps.builtin import load_study
    from sweeps.plan import make_plan
    from sweeps.study import parse_study

    study = load_study(arguments.study)
    if study.name == study.base and arguments.preset not in (None, study.base):
        raise UserError(f"--preset: {arguments.preset!r} is not allowed: the study is the preset {study.base}")
    if arguments.seeds is not None:
        study = parse_study({**study.model_dump(), "seeds": arguments.seeds}, "--seeds")
    changes = {path: value for text in arguments.set for path, value in _assignments(text).items()}
    return make_plan(study, arguments.preset, {**changes, **settings(arguments)})


def _assignments(text: str) -> dict[str, Any]:
    """The settings of one --set: PATH=VALUE, or PATH+PATH=[VALUE, VALUE]."""
    import yaml

    path, equals, value = text.partition("=")
    if not equals or not path:
        raise UserError(f"--set: {text!r} is not allowed: expected PATH=VALUE, such as train.epochs=5")
    paths = path.split("+")
    if len(paths) == 1 and not value.lstrip().startswith("["):
        return {path: value}
    try:
        values = yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"--set: {path}: {value!r} is not a valid list") from error
    if len(paths) == 1:
        raise UserError(
            f"--set: {path}: {value!r} is not allowed: expected a single value; to compare values, make it a factor of a study"
        )
    if not isinstance(values, list) or len(values) != len(paths):
        raise UserError(f"--set: {path}: {value!r} is not allowed: expected a list of {len(paths)} values")
    return dict(zip(paths, values, strict=True))


def _show(plan: Plan, study_dir: Path) -> None:
    """Print the grid and what is done."""
    from experiments.runs.record import is_finished
    from sweeps.study import format_level

    changes = "".join(f", {path}={format_level(value)}" for path, value in plan.base_changes().items())
    print(f"{plan.study.name}: {plan.study.description}".rstrip(": "))
    print(f"base      preset {plan.preset}{changes}")
    for factor, levels in plan.factors.items():
        texts = [", ".join(map(format_level, level)) if "+" in factor else format_level(level) for level in levels]
        print(f"factor    {factor}: {' | '.join(texts)}")
    print(f"baseline  {plan.baseline}")
    print(f"metric    {plan.study.metric}, equivalence margin {_margin(plan)}")
    if plan.study.looks:
        print(f"looks     tests at {', '.join(map(str, plan.study.looks))} seeds")
    done: dict[str, list[bool]] = {}
    for run in plan.runs:
        done.setdefault(run.variant, []).append(is_finished(study_dir / run.name))
    width = max(map(len, [*done, "variant"]))
    print(f"\n{'variant':{width}}  seeds  done")
    for variant, flags in done.items():
        print(f"{variant:{width}}  {len(flags):5}  {sum(flags):4}")
    print(f"\n{_count(plan.runs, 'run')}, {sum(map(sum, done.values()))} done, in {study_dir}")


def _run(plan: Plan, study_dir: Path, arguments: argparse.Namespace, command: str) -> int:
    from experiments.runs.source import warn_of_uncommitted_plugins
    from sweeps.study_folder import LOG
    from sweeps.worker import worker_configs

    configs = worker_configs(
        plan.study.name,
        study_dir / LOG,
        device=arguments.device,
        tracking=arguments.tracking,
        workers=arguments.workers,
        workers_per_gpu=arguments.workers_per_gpu,
    )
    if arguments.dry_run:
        return _dry_run(plan, study_dir, configs)
    from sweeps.pool import run_sweep

    warn_of_uncommitted_plugins((run.config for run in plan.runs), PROG)
    intro = [_start_line(plan, study_dir, configs), Tracking(arguments.tracking, plan.study.name).notice(study_dir)]
    state = run_sweep(plan, study_dir, command, configs, arguments.cohort, intro)
    return _report(plan, study_dir, state.failed)


def _start_line(plan: Plan, study_dir: Path, configs: list[WorkerConfig]) -> str:
    """What the sweep is about to do, with the time that it takes if finished records tell it."""
    from experiments.runs.record import is_finished
    from sweeps.estimate import estimate
    from sweeps.progress import format_duration

    left = [run for run in plan.runs if not is_finished(study_dir / run.name)]
    found = estimate(left, study_dir.parent, configs, measure=False) if left else None
    variants = len({run.variant for run in plan.runs})
    parts = [
        f"{_count(range(variants), 'variant')} x {_count({run.seed for run in plan.runs}, 'seed')}, "
        f"{_count(left, 'run')} to train with {_count(configs, 'worker')} on {' and '.join(dict.fromkeys(_device_text(config) for config in configs))}",
        f"metric {plan.study.metric}, equivalence margin {_margin(plan)}",
        *([f"about {format_duration(found.seconds)}, based on {found.source}"] if found else []),
    ]
    return f"{plan.study.name}: {'; '.join(parts)}"


def _device_text(config: WorkerConfig) -> str:
    return "the CPU" if config.device == "auto" else config.device  # without a GPU, `auto` stays `auto`


def _margin(plan: Plan) -> str:
    """The margin as a reader means it: "1 point" of accuracy, or a loss."""
    metric = Metric(plan.study.metric)
    shown = f"{plan.study.margin * metric.scale:g}"
    return shown + (metric.points.removesuffix("s") if shown == "1" else metric.points)


def _dry_run(plan: Plan, study_dir: Path, configs: list[WorkerConfig]) -> int:
    """Print the grid and an estimate of the time. Writes nothing."""
    from experiments.runs.record import is_finished
    from sweeps.estimate import estimate
    from sweeps.progress import format_duration
    from sweeps.study_folder import merged_entries

    merged_entries(plan, study_dir)  # refuses the folder of another study
    left = [run for run in plan.runs if not is_finished(study_dir / run.name)]
    found = estimate(left, study_dir.parent, configs) if left else None
    _show(plan, study_dir)
    if left:
        time = f"about {format_duration(found.seconds)}, based on {found.source}" if found else "not known"
        print(f"Estimated time for {_count(left, 'run')} with {_count(configs, 'worker')}: {time}")
    return 0


def _count(things: Collection[Any], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _report(plan: Plan, study_dir: Path, failed: dict[str, str]) -> int:
    """Print what was trained, where it is, and the next command."""
    from collections import Counter

    from experiments.runs.record import read_summary
    from sweeps.outcome import outcome_lines
    from sweeps.study_folder import ERROR

    statuses = Counter(read_summary(study_dir / run.name)["status"] for run in plan.runs if run.name not in failed)
    counts = [f"{count} {status}" for status, count in statuses.items()] + [f"{len(failed)} failed"] * bool(failed)
    print(f"{_count(plan.runs, 'run')}: {', '.join(counts)}")
    for line in outcome_lines(plan, study_dir):
        print(line)
    for name, reason in failed.items():
        print(f"failed: {name}: {reason} (see {study_dir / name / ERROR})")
    print(f"study: {study_dir}")
    print(f"next: vit-report {shlex.quote(str(study_dir))}")
    return 1 if failed else 0


if __name__ == "__main__":
    main()
