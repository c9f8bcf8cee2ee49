"""Figures as files and as SVG in the page. The same figure gives the same bytes."""

from __future__ import annotations

import io
import json
import re
import warnings

from markupsafe import Markup, escape

from analysis.figures import style
from analysis.figures.style import BAND, INK, PAPER, Plot
from analysis.formatting import plain

METADATA = {"svg": {"Date": None, "Creator": None, "Format": None, "Type": None}, "png": {"Software": None}}


def saved(plot: Plot, kind: str) -> bytes:
    """Return the figure as a file of its own; `kind`: "svg" or "png"."""
    body = io.BytesIO()
    with style.style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the SVG shows such names all the same
        plot.figure.savefig(body, format=kind, metadata=METADATA[kind])
    plot.figure.set_layout_engine("none")  # another format has the same layout
    return body.getvalue()


def inline(svg: bytes, plot: Plot) -> Markup:
    """Return a figure for the page: it scales, follows the page's colours, has unique ids, tips and an alternative text."""
    body = svg.decode()
    body = re.sub(r"<metadata>.*?</metadata>", "", body[body.index("<svg") :], flags=re.DOTALL)
    body = re.sub(r' id="([^"]*)"', lambda match: f' id="{plot.name}-{match[1]}"{_data(plot, match[1])}', body)
    body = re.sub(r'(?<="#)|(?<=url\(#)', f"{plot.name}-", body)
    for colour, name in ((INK, "ink"), (PAPER, "paper"), (BAND, "band")):
        body = body.replace(colour, f"var(--{name})")
    opening, rest = body.split(">", 1)
    box = " ".join(re.findall(r'viewBox="[^"]*"', opening))
    named = f'{box} role="img" aria-label="{escape(plain(plot.alt))}"'
    return Markup(f'<svg {named} xmlns:xlink="http://www.w3.org/1999/xlink">{rest}')


def _data(plot: Plot, artist: str) -> str:
    """What the script reads from an artist: the number of its variant, and the tips of its marks."""
    variant, tips = re.match(r"v(\d+)-", artist), plot.figure.tips.get(artist)
    texts = json.dumps([plain(tip) for tip in tips or ()], ensure_ascii=False)
    return (f' data-variant="{variant[1]}"' if variant else "") + (f' data-tips="{escape(texts)}"' if tips else "")
