"""The style of all figures: colours and fonts; and what a figure of a report is. No data and no files."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import matplotlib
from matplotlib.axes import Axes as Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

from experiments.errors import UserError

INK, PAPER, FAINT, BAND = "#1b1f24", "#fdfefe", "#8b929c", "#e9ecf0"
"""Colours that the page replaces with its own, for light and dark mode. Data uses none of them except FAINT."""

PALETTE = ["#1f86cc", "#c17f06", "#029e73", "#d55e00", "#c069ad", "#b07c42", "#2a97cc", "#7d8590"]
"""Seaborn's "colorblind" palette, with more contrast to white and black where needed."""

MARKERS = "osD^vP*X"  # one for each colour of the palette

VERDICTS = {
    "better": ("#1f86cc", "^"),
    "worse": ("#d55e00", "v"),
    "equivalent": ("#029e73", "s"),
    "both at the ceiling": (FAINT, "s"),
    "not shown": (FAINT, "o"),
    "not tested": (FAINT, "x"),
    "shown": (INK, "D"),
    "baseline": (INK, "D"),
}
"""verdict, or whether an effect is shown -> its colour and marker; tables show the same markers"""

WIDTH = 4.6
"""Inches. Text of 10 points is about 10 px high on a phone, and as large as the page's text on a wide screen."""

STYLE: dict[Any, Any] = {  # where the user's settings have Matplotlib's defaults
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": BAND,
    "axes.titlesize": "medium",
    "axes.titleweight": "bold",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # TrueType; journals refuse fonts of type 3
}
NEEDED: dict[Any, Any] = {  # whatever the user's settings are
    "svg.fonttype": "none",
    "svg.hashsalt": "vit-report",
    "text.parse_math": False,
    "text.usetex": False,
}


@contextmanager
def style() -> Iterator[None]:
    """Apply the style to figures that are made or saved inside; settings outside do not change."""
    users, usual = matplotlib.rcParams, matplotlib.rcParamsDefault
    with matplotlib.rc_context({name: ours for name, ours in STYLE.items() if users[name] == usual[name]} | NEEDED):
        yield


def ink() -> str:
    """Return the colour of text in a figure that is being drawn."""
    return to_hex(matplotlib.rcParams["text.color"])


def palette() -> list[str]:
    """Return a colour for each marker: the user's cycle of colours, if there is one, then ours."""
    cycle = matplotlib.rcParams["axes.prop_cycle"]
    is_usual = cycle == matplotlib.rcParamsDefault["axes.prop_cycle"]
    users = [] if is_usual else list(map(to_hex, cycle.by_key().get("color", [])))
    return [*users, *PALETTE[len(users) :]][: len(MARKERS)]


def use_math(names: Iterable[str]) -> None:
    """Read names between "$" as math in all further figures, if there are such names. Raises `UserError` for others."""
    names = [name for name in names if "$" in name]
    NEEDED["text.parse_math"] = bool(names)
    if others := [name for name in names if not is_math(name)]:
        raise UserError(f"labels: {others[0]!r} is not allowed: expected math as Matplotlib reads it")


@cache
def is_math(text: str) -> bool:
    """Whether Matplotlib reads a text with math between "$"."""
    try:
        MathTextParser("agg").parse(text)
    except (ValueError, RecursionError):
        return False
    return True


class Drawing(Figure):
    """A figure; sizes are in inches. `tips`: artist -> what the page shows at its marks."""

    def __init__(self, height: float, width: float = WIDTH, **options: Any) -> None:
        super().__init__(**{**options, "figsize": (width, height), "layout": "constrained"})
        self.tips: dict[str, tuple[str, ...]] = {}


@dataclass(frozen=True)
class Plot:
    """A figure with the name of its file and its caption. It is drawn when it is needed, since that takes time.

    `alt`: its alternative text, where no table holds it. `beside`: whether it is only a file beside the page, which
    shows a table with bars. The ids of artists that belong to the variant with
    index i start with "vi-".
    """

    name: str
    draw: Callable[[], Drawing]
    caption: str
    alt: str = ""
    beside: bool = False

    @cached_property
    def figure(self) -> Drawing:
        """The drawing."""
        return self.draw()
