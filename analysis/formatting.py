"""How numbers are written: units, and rounding that follows the width of the interval. Numbers in, text out; nothing is
computed.
"""

from __future__ import annotations

import math

from analysis.stats.estimates import Estimate

MINUS, DASH = "−", "–"


def decimals(half: float, fallback: int = 2) -> int:
    """Decimals that show two significant digits of an interval's half-width; `fallback` where there is none."""
    if not math.isfinite(half) or half <= 0:
        return fallback
    leading = math.floor(math.log10(float(f"{half:.1e}")))
    return min(max(1 - leading, 0), 6)


def number(value: float, places: int, signed: bool = False) -> str:
    """A number with fixed decimals and a true minus sign; a dash where it is not finite."""
    if value is None or not math.isfinite(value):
        return DASH
    if abs(value) >= 1e7:
        return f"{value:{'+' if signed else ''}.3g}".replace("-", MINUS)
    text = f"{value:{'+' if signed else ''}.{places}f}"
    if float(text) == 0:  # no sign on a zero: "-0.00" says nothing
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def half_width(estimate: Estimate) -> float:
    """Half the width of the interval; NaN where there is none."""
    return (estimate.high - estimate.low) / 2


def with_interval(estimate: Estimate, factor: float = 1.0, signed: bool = False, fallback: int = 2) -> str:
    """`97.12 ± 0.43`, rounded to two digits of the half-width; the value alone where there is no interval."""
    half = half_width(estimate) * factor
    places = decimals(half, fallback)
    value = number(estimate.value * factor, places, signed)
    return value if not math.isfinite(half) or value == DASH else f"{value} ± {number(half, places)}"


def bounds(estimate: Estimate, factor: float = 1.0, signed: bool = True) -> str:
    """`[−0.30, +1.21]`, rounded as `with_interval` does."""
    if not math.isfinite(half_width(estimate)):
        return DASH
    places = decimals(half_width(estimate) * factor)
    return f"[{number(estimate.low * factor, places, signed)}, {number(estimate.high * factor, places, signed)}]"


def p_value(p: float) -> str:
    """`0.032`, `< 0.001`; a dash where nothing was tested."""
    if not math.isfinite(p):
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def count(value: float) -> str:
    """`12,345`; a dash where it is not known."""
    return DASH if value is None or not math.isfinite(value) else f"{round(value):,}"


def magnitude(value: float) -> str:
    """Three significant digits with an SI prefix: `1.23 M`; a dash where it is not known."""
    if value is None or not math.isfinite(value):
        return DASH
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g} {prefix}" if abs(value) < 999.5 * size else f"{value / size:.0f} {prefix}"
    return f"{value:.3g}"


def seconds(value: float) -> str:
    """A duration as one reads it: `4.1 s`, `12 min`, `3.4 h`; a dash where it is not known."""
    if value is None or not math.isfinite(value):
        return DASH
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if value >= 2 * size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} s"


def listing(words: list[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""
