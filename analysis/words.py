"""Numbers, units, counts, lists and names as text; decimals follow the width of the interval. Last: table columns."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from analysis.verdicts.estimates import LEVEL, Estimate
from experiments.errors import UserError, plural, printable
from experiments.metric import Metric

MINUS, DASH = "−", "–"
MOST_PLACES = 12
_NAMES = """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi
psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"""
GREEK = dict(zip(_NAMES.split(), "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ", strict=True))
"""LaTeX's command -> the letter"""
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def decimals(half: float, fallback: int = 2) -> int:
    """Return the decimals that show two significant digits of `half`; `fallback` where it is zero or unknown."""
    if not math.isfinite(half) or half <= 0:
        return fallback
    leading = math.floor(math.log10(float(f"{half:.1e}")))
    return min(max(1 - leading, 0), MOST_PLACES)


def shared_places(estimates: Iterable[Estimate], metric: Metric) -> int:
    """Return the decimals of a column: the median half-width has two significant digits, the smallest at least one."""
    estimates = list(estimates)
    halves = (half_width(estimate) * metric.scale for estimate in estimates)
    widths = sorted(half for half in halves if math.isfinite(half) and half > 0)
    if not widths:
        return _without_interval([estimate.value for estimate in estimates], metric)
    return max(decimals(widths[(len(widths) - 1) // 2]), decimals(widths[0]) - 1, 0)


def number(value: float, places: int, signed: bool = False) -> str:
    """Format a number with fixed decimals and a true minus sign; a dash where it is not finite."""
    if value is None or not math.isfinite(value):
        return DASH
    few = places >= 6 and 0 < abs(value) < 1e-6  # of which so many decimals are mostly zeros
    fixed = f"{',' if abs(value) >= 1e7 else ''}.{places}f"
    text = f"{value:{'+' if signed else ''}{'.3g' if few or abs(value) >= 1e15 else fixed}}"
    if value == 0 or not text.strip("+-0."):  # zero has no sign
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def half_width(estimate: Estimate) -> float:
    """Return half the width of the interval; NaN where there is none."""
    return (estimate.high - estimate.low) / 2


def with_interval(estimate: Estimate, metric: Metric, signed: bool = False, places: int | None = None) -> str:
    """Format an estimate with its interval, with `places` decimals, else with two significant digits of the half-width.

    `97.12 ± 0.43`; a `signed` difference `+0.36 [−0.45, +1.17]`; without an interval `97.12`.
    """
    half = half_width(estimate) * metric.scale
    places = _places(estimate, metric, places)
    value = number(estimate.value * metric.scale, places, signed)
    if not math.isfinite(half) or value == DASH:
        return value
    low, high = _ends(estimate.low, estimate.high, metric, places, True)
    return f"{value} [{low}, {high}]" if signed else f"{value} ± {number(half, places)}"


def limits(metric: Metric) -> tuple[float, float]:
    """Return the smallest and largest value of a metric, in the data's units."""
    return 0.0 if metric.is_share or metric.is_loss else -math.inf, 1.0 if metric.is_share else math.inf


def value(shown: Estimate | float, metric: Metric, places: int | None = None) -> str:
    """Format one value or a mean, with `places` decimals or rounded by its interval: `72.4 %`."""
    estimate = shown if isinstance(shown, Estimate) else Estimate(shown, math.nan, math.nan, 1)
    return number(estimate.value * metric.scale, _places(estimate, metric, places)) + (" %" if metric.is_share else "")


def p_value(p: float) -> str:
    """Format a p-value: `0.032`, `< 0.001`; a dash where nothing was tested."""
    if not math.isfinite(p):
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def setting(value: Any) -> str:
    """Format the value of a setting: `0.001`, `adamw`."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def count(value: float) -> str:
    """Format a count: `12,345`; a dash where it is unknown."""
    return DASH if value is None or not math.isfinite(value) else f"{round(value):,}"


def magnitude(value: float) -> str:
    """Format a number with three significant digits and an SI prefix: `1.23 M`; a dash where it is unknown."""
    if value is None or not math.isfinite(value):
        return DASH
    rounded = float(f"{value:.3g}")
    size, prefix = next((item for item in PREFIXES if abs(rounded) >= item[0]), (1, ""))
    return f"{rounded / size:.3g} {prefix}".rstrip()


def places_range(places: Sequence[int] | None) -> str:
    """Format the first and last possible rank: `1 to 3`, or `2` where they are equal; empty without any."""
    return " to ".join(dict.fromkeys(map(str, places or ())))


def percent(share: float) -> str:
    """Format a rate or a level: `5 %`."""
    return f"{100 * share:.3g} %"


CONFIDENCE = percent(LEVEL)  # the confidence level of intervals, for labels


def capital(text: str) -> str:
    """Return text that starts with a capital letter, as a sentence does."""
    return text[:1].upper() + text[1:]


def titled(metric: Metric) -> str:
    """Return the label of a metric at the start of a sentence. The name of a user's column keeps its case."""
    return metric.label if metric.is_column or metric.is_renamed else capital(metric.label)


def seeds(counts: Iterable[int], unit: str = "seed") -> str:
    """Format how many seeds estimates are from: `5 seeds`, or `4 to 5 seeds` where they differ; `unit`: of a policy."""
    distinct = set(counts)
    return plural(max(distinct), unit) if len(distinct) == 1 else f"{min(distinct)} to {max(distinct)} {unit}s"


def margin(value: float | None, metric: Metric) -> str:
    """Format an equivalence margin in the unit of a difference: `1 point`; a dash where there is none."""
    return DASH if value is None else metric.size(value)


def article(noun: str) -> str:
    """Put the indefinite article before a noun: `a test accuracy`, `an error`, `an 8-shot accuracy`."""
    return f"a{'n' * (noun[:1].lower() in 'aeio8')} {noun}"


def listing(words: Sequence[object], last: str = "and") -> str:
    """Join words: `a`, `a and b`, `a, b and c`."""
    *first, end = map(str, words) if words else [""]
    return f"{', '.join(first)} {last} {end}" if first else end


def quoted(variant: str) -> str:
    """Return a variant's name, in quotation marks if it has commas or spaces, or reads as the word "none"."""
    return f"“{variant}”" if "," in variant or " " in variant or variant == "none" else variant


def names(variants: Iterable[str]) -> str:
    """Join the names of variants, each in quotation marks if it has commas or spaces."""
    return listing(list(map(quoted, variants)))


def factor_name(factor: str, names: Mapping[str, str]) -> str:
    """Return a factor's name in `names`, else the factor without sections, linked settings joined by "+"."""
    if factor in names:
        return plain(names[factor])
    return " + ".join(path.rpartition(".")[2] for path in factor.split("+"))


@cache
def level_name(factor: str, level: str) -> str:
    """Return a level as text that is clear by itself: `rope-2d`, but `depth = 2` and `share = true`."""
    try:
        float(level)
    except ValueError:
        is_kind = level == "none" and factor == "pos_embed"
        return f"{factor} = {level}" if level in ("true", "false", "none") and not is_kind else level
    return f"{factor} = {level}"


def plain(text: Any) -> str:
    """Return text that a page or a file can show: white space is one space, what cannot be printed U+FFFD."""
    return printable(" ".join(str(text).split()))


def math_parts(text: str) -> list[str]:
    """Text and the math between two "$", in turn. A single or an empty "$" is a dollar, as `\\$` is."""
    parts = re.split(r"(?<!\\)\$", text)
    if len(parts) % 2 == 0 or "" in parts[1::2]:
        parts = ["$".join(parts)]
    return [part if at % 2 else part.replace(r"\$", "$") for at, part in enumerate(parts)]


def checked_math(text: str, field: str) -> str:
    """A name or caption of the user's, with `\\$` for each dollar. Raises `UserError` for math that does not end."""
    parts = math_parts(text)
    if len(parts) == 1 and re.search(r"(?<!\\)\$.*[\\^_{]", text):
        raise UserError(rf"{field}: {text!r} has math that does not end; write $...$, and \$ for a dollar")
    return "".join(f"${part}$" if at % 2 else part.replace("$", r"\$") for at, part in enumerate(parts))


def without_math(text: str) -> str:
    """Return math between "$" as text: `θ_1D` for `$\\theta_{1D}$`; what is neither Greek nor a font stays as typed."""

    def in_words(match: re.Match[str]) -> str:
        command = match[1] or "math"  # a brace has no command
        return GREEK.get(command, "" if command.startswith(("math", "text")) else match[0])

    parts = enumerate(math_parts(text))
    return "".join(re.sub(r"\\([A-Za-z]+)|[{}]", in_words, part) if at % 2 else part for at, part in parts)


def points(diff: Estimate, metric: Metric, signed: bool = False, places: int | None = None) -> str:
    """Format the size of a difference: `23.6 points`; `+23.6 points` if signed."""
    return points_range([diff], metric, signed, places)


def points_range(diffs: Sequence[Estimate], metric: Metric, signed: bool = False, places: int | None = None) -> str:
    """Format the sizes of several differences: `22.5 to 23.6 points`; `−0.2 to +1.3 points` if signed."""
    size: Callable[[float], float] = float if signed else abs
    low, *_, high = sorted((*diffs, *diffs), key=lambda diff: size(diff.value))
    places = min(_places(low, metric, places), _places(high, metric, places))
    ends = dict.fromkeys(number(size(diff.value) * metric.scale, places, signed) for diff in (low, high))
    text = " to ".join(ends)
    return text + (" point" if metric.is_share and text.lstrip("+" + MINUS) == "1" else metric.points)


def interval(diff: Estimate, metric: Metric, signed: bool = False, places: int | None = None) -> str:
    """Format the interval of the size of a difference, of the difference itself if signed: `95 % CI 20.2 to 27.0`."""
    if not math.isfinite(half_width(diff)):
        return "no interval"
    ends = (diff.low, diff.high) if signed or diff.value >= 0 else (-diff.high, -diff.low)
    low, high = _ends(*ends, metric, _places(diff, metric, places))
    return f"{CONFIDENCE} CI {low} to {high}"


def _ends(low: float, high: float, metric: Metric, places: int, signed: bool = False) -> list[str]:
    """The ends of an interval, with as many decimals as show on which side of zero they are: the verdict is read so."""
    ends = low * metric.scale, high * metric.scale
    more = range(places, MOST_PLACES)
    seen = [next((n for n in more if round(end, n) or not math.isfinite(end)), places) for end in ends]
    return [number(end, n, signed) for end, n in zip(ends, seen)]


def _places(estimate: Estimate, metric: Metric, places: int | None = None) -> int:
    """The decimals of an estimate: `places`, or of one that is shown alone, by its interval."""
    if places is not None:
        return places
    return decimals(half_width(estimate) * metric.scale, _without_interval([estimate.value], metric))


def _without_interval(values: Iterable[float], metric: Metric) -> int:
    """The decimals of values without an interval: more than the usual number where these show the largest as zero."""
    usual = 2 if metric.is_share else 4
    largest = max((abs(value) * metric.scale for value in values if math.isfinite(value)), default=0.0)
    return usual if round(largest, usual) else decimals(largest, usual)


Format = Callable[[Sequence[Any]], list[str]]
"""The values of a column -> their texts: some columns share a number of decimals."""


def each(show: Callable[[Any], str]) -> Format:
    """Every value by itself."""
    return lambda values: list(map(show, values))


def numbers(places: int = 2, scale: float = 1.0, signed: bool = False) -> Format:
    """`0.71`: a fixed number of decimals."""
    return each(lambda value: number(value * scale, places, signed))


def intervals(metric: Metric, signed: bool = False) -> Format:
    """Estimates as `with_interval` shows them. A column shares its decimals."""

    def shown(estimates: Sequence[Estimate]) -> list[str]:
        places = shared_places(estimates, metric)
        return [with_interval(estimate, metric, signed, places) for estimate in estimates]

    return shown


def deviations(metric: Metric) -> Format:
    """Means with the standard deviation of the runs, pairs of numbers: `97.1 ± 0.4`. A column shares its decimals."""

    def shown(pairs: Sequence[tuple[float, float]]) -> list[str]:
        estimates = [Estimate(mean, mean - sd, mean + sd, 0) for mean, sd in pairs]
        places = shared_places(estimates, metric)
        means, sds = ([number(value * metric.scale, places) for value in values] for values in zip(*pairs))
        return [mean if sd == DASH else f"{mean} ± {sd}" for mean, sd in zip(means, sds)]

    return shown


def is_unknown(value: Any) -> bool:
    """Whether a value is missing: None or NaN."""
    return value is None or value != value


def _text(value: Any) -> str:
    return "" if is_unknown(value) else str(value)


def verdict(value: Any) -> str:
    """A verdict as a reader sees it; code and files say "not shown"."""
    return _text(value).replace("not shown", "undecided")


texts = each(_text)
"""The text as it is, aligned to the left; empty where there is none."""
verdicts = each(verdict)
digits = each(_text)
"""The same, aligned to the right."""
counts = each(count)
p_values = each(p_value)
