"""The style of all figures: colours, fonts and size; and what a figure of a report is. No data and no files."""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes as Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

from experiments.errors import UserError
from experiments.files import reading

INK, PAPER, FAINT, BAND = "#1b1f24", "#fdfefe", "#8b929c", "#e9ecf0"
"""Colours that the page replaces with its own, for light and dark mode. Data uses none of them except FAINT."""

PALETTE = ["#1f86cc", "#c17f06", "#029e73", "#d55e00", "#c069ad", "#b07c42", "#2a97cc", "#7d8590"]
"""Seaborn's "colorblind" palette, with more contrast to white and black where needed; `use_file` replaces it."""

MARKERS = "osD^vP*X"  # one for each colour of the palette

VERDICTS = {
    "better": ("#1f86cc", "^"),
    "worse": ("#d55e00", "v"),
    "equivalent": ("#029e73", "s"),
    "equal on all seeds": ("#029e73", "o"),
    "both at the ceiling": (FAINT, "s"),
    "both near chance": (FAINT, "s"),
    "not shown": (FAINT, "o"),
    "not tested": (FAINT, "x"),
    "shown": (INK, "D"),
    "baseline": (INK, "D"),
}
"""verdict, or whether an effect is shown -> its colour and marker; tables show the same markers"""

WIDTH = 4.6
"""Inches. Text of 10 points is about 10 px high on a phone, and as large as the page's text on a wide screen."""

TEXT = 10.0  # points
OURS = ("figure.constrained_layout.use", "svg.fonttype", "svg.hashsalt", "text.parse_math")  # the page needs them
STYLE: dict[Any, Any] = {
    "font.sans-serif": ["DejaVu Sans"],
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": BAND,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.title_fontsize": 9,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType; journals refuse fonts of type 3
    "svg.hashsalt": "vit-report",
    "figure.constrained_layout.use": True,
    "image.composite_image": False,
}


SIZES = ("axes.titlesize", "legend.fontsize", "legend.title_fontsize")


class Drawing(Figure):
    """A figure; of the width that all have, unless one is given. `tips`: artist -> what the page shows at its marks."""

    def __init__(self, height: float, width: float | None = None) -> None:
        usual = STYLE.get("figure.figsize", (WIDTH,))[0]
        super().__init__(figsize=(usual, height * usual / WIDTH) if width is None else (width, height))
        self.tips: dict[str, tuple[str, ...]] = {}

    def _repr_png_(self) -> bytes:  # what a notebook shows
        body = io.BytesIO()
        self.savefig(body, format="png")
        return body.getvalue()


def use_file(file: Path) -> None:
    """Draw further figures in the style of a file as for Matplotlib; heights follow its width. Raises `UserError`."""
    with reading(file):
        try:
            given = matplotlib.rc_params_from_file(file, fail_on_error=True, use_default_template=False)
        except (ValueError, KeyError, UnicodeDecodeError) as error:
            raise UserError(f"--style: {file}: {str(error).splitlines()[0]}") from error
    if given.get("text.usetex"):
        problem = "text.usetex: True is not allowed: figures are drawn without LaTeX; set it to False"
        raise UserError(f"--style: {file}: {problem}")
    scale = given.get("font.size", TEXT) / TEXT
    STYLE.update({name: scale * STYLE[name] for name in SIZES})
    STYLE.update({name: value for name, value in given.items() if name not in OURS})
    if colours := given["axes.prop_cycle"].by_key().get("color") if "axes.prop_cycle" in given else None:
        PALETTE[: min(len(colours), len(MARKERS))] = [to_hex(colour) for colour in colours[: len(MARKERS)]]


def use_math(names: Iterable[str]) -> None:
    """Read names between "$" as math in all further figures, if there are such names. Raises `UserError` for others."""
    names = [name for name in names if "$" in name]
    STYLE["text.parse_math"] = bool(names)
    for name in names:
        if not is_math(name):
            raise UserError(f"labels: {name!r} is not allowed: expected math as Matplotlib reads it")


@cache
def is_math(text: str) -> bool:
    """Whether Matplotlib reads a text with math between "$"."""
    try:
        MathTextParser("agg").parse(text)
    except (ValueError, RecursionError):
        return False
    return True


def text_size(size: float) -> float:
    """A size of text in a figure that is being drawn, which follows the user's."""
    return size * float(matplotlib.rcParams["font.size"]) / TEXT


def fitting(width: float) -> dict[Any, Any]:
    """Smaller sizes of text for a figure of fewer inches than `WIDTH`; none where the user's style has its own."""
    scale = 1.0 if "font.size" in STYLE else min(1.0, width / WIDTH)
    return {} if scale == 1 else {"font.size": scale * TEXT} | {name: scale * STYLE[name] for name in SIZES}


@dataclass(frozen=True)
class Plot:
    """A figure with the name of its file and its caption. It is drawn when it is needed, since that takes time.

    `alt`: its alternative text, where no table holds it. `beside`: whether it is only a file beside the page, which
    shows a table with bars. The ids of artists that belong to the variant with index i
    start with "vi-".
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

    def drawn_on(self, ax: Any) -> Any:
        return self.draw(ax)


@contextmanager
def style() -> Iterator[None]:
    """Apply the style to figures that are made or saved inside; settings outside do not change."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield
