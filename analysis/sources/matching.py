"""Whether variants with the same name in two studies are the same, and in which settings they differ otherwise."""

from collections.abc import Collection, Iterable, Sequence

from analysis.sources.by_dataset import DATASET, datasets_of
from analysis.sources.runs_table import RunsTable
from analysis.sources.settings import level_text
from analysis.sources.source_run import IMAGES
from experiments.config import LOCATIONS, locations
from experiments.data.catalogue import DATASETS
from experiments.errors import UserError


def check_alike(studies: Sequence[RunsTable]) -> None:
    """Raise `UserError` where a study differs from the first one in its metric, variants or baseline."""
    one = studies[0]
    for other in studies[1:]:
        both = f"across: {one.name} ({datasets_of(one)[0]}) and {other.name} ({datasets_of(other)[0]})"
        if one.metric != other.metric:
            raise UserError(f"{both} have different metrics: {one.metric} and {other.metric}")
        for a, b in ((one, other), (other, one)):
            if only := [variant for variant in a.variants if variant not in b.variants]:
                named = ", ".join(map(repr, only[:6])) + (f" and {len(only) - 6} more" if len(only) > 6 else "")
                raise UserError(f"{both} have different variants: {named} only on {datasets_of(a)[0]}")
        if one.baseline != other.baseline:
            raise UserError(f"{both} have different baselines: {one.baseline!r} and {other.baseline!r}")
        check_same_levels("across", one, other, one.variants, ignored=(DATASET,))


def check_same_levels(
    command: str, one: RunsTable, other: RunsTable, variants: Iterable[str], ignored: Collection[str] = ()
) -> None:
    """Raise `UserError` where a variant of both studies has another level of a factor in one than in the other.

    `command` begins the message. `ignored`: settings that may differ. A setting that is not recorded is not compared.
    """
    for variant in variants:
        levels = [_settings(study, variant) for study in (one, other)]
        for path in dict.fromkeys([*one.varied, *other.varied]):
            if path not in ignored and all(path in own for own in levels) and levels[0][path] != levels[1][path]:
                raise UserError(
                    f"{command}: the variant {variant!r} has {path} = {levels[0][path]} in one study ({one.name}) and "
                    f"{levels[1][path]} in the other ({other.name}); variants are matched by their names, so these "
                    "studies cannot be compared"
                )


def differing_settings(one: RunsTable, other: RunsTable, variants: Iterable[str]) -> list[tuple[str, str, str]]:
    """What differs for a variant of both studies besides the factors: (path, in `one`, in `other`).

    These are settings, the numbers of images and the digest of their files. What differs between variants has its
    values in the order of the variants. What is not recorded is not compared.
    """
    names = {name for study in (one, other) for name in datasets_of(study)} & DATASETS.keys()
    places = {"seed"} | set(LOCATIONS).intersection(*map(locations, names))  # where files are is no difference
    differing: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for variant in variants:
        a, b = (_settings(study, variant) for study in (one, other))
        for path in a:
            if path in b and path not in {*one.varied, *other.varied, *places} and a[path] != b[path]:
                values = differing.setdefault(path, ({}, {}))
                values[0][a[path]] = values[1][b[path]] = None
    return [(path, ", ".join(a), ", ".join(b)) for path, (a, b) in differing.items()]


def _settings(study: RunsTable, variant: str) -> dict[str, str]:
    """The recorded settings and images of a variant as text; one that differs between its runs is left out."""
    runs = study.runs[study.runs["variant"] == variant]
    paths = [path for path in runs if "." in str(path) or path in (*IMAGES, "image_files")]
    texts = {str(path): {level_text(cell) for cell in runs[path].dropna()} for path in paths}
    return {path: values.pop() for path, values in texts.items() if len(values) == 1}
