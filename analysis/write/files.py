"""Write the files of a report as one folder; only a report that nobody changed is replaced."""

import hashlib
import io
import json
import os
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape
from matplotlib.colors import to_hex

from analysis.figures import matplotlib, style
from analysis.figures.style import Plot
from analysis.words import plain, without_math
from analysis.write import pages
from analysis.write.document import Document
from analysis.write.table import as_csv
from experiments.errors import printable, writing
from experiments.files import check_replaceable, read_bytes, read_json, temporary_folder

MANIFEST = "manifest.json"
REM = 7.4  # of the page for an inch of a figure: text of 10 points is as large as the page's
PAGE_COLOURS: dict[Any, str] = {"text.color": "ink", "figure.facecolor": "paper", "grid.color": "band"}
"""A setting of figures -> the colour of the style sheet that takes its place."""
METADATA = {
    "svg": ("Creator", "Date", "Format", "Type"),
    "png": ("Software",),
    "pdf": ("Creator", "CreationDate", "Producer"),
}
"""What Matplotlib notes in a file unless it is told not to: its version, and the time."""


def make(document: Document, kinds: Iterable[str] = ()) -> dict[str, bytes]:
    """Return every file, name -> bytes; the same for the same records. `kinds` of figures beside SVG: "png", "pdf"."""
    drawn = {plot.name: saved(plot, "svg") for plot in document.plots}
    figures = {plot.name: inline(drawn[plot.name], plot) for plot in document.plots if not plot.beside}
    shown = document.as_shown()
    tables = {table.name: table.csv() for table in document.tables}
    tables |= {name: as_csv(frame) for name, frame in document.frames.items()}
    files = {
        "report.html": pages.page(shown, figures, tables).encode(),
        "report.md": pages.readme(shown).encode(),
        **{f"figures/{name}.svg": body for name, body in drawn.items()},
        **{f"figures/{plot.name}.{kind}": saved(plot, kind) for plot in document.plots for kind in kinds},
    }
    return files | {f"tables/{name}.csv": text.encode() for name, text in tables.items()}


def saved(plot: Plot, kind: str) -> bytes:
    """Return the figure as a file of its own; `kind`: "svg", "png" or "pdf"."""
    body, metadata = io.BytesIO(), dict.fromkeys(METADATA[kind])
    with style.style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the SVG shows such names all the same
        plot.figure.savefig(body, format=kind, metadata=metadata, transparent=True)
    plot.figure.set_layout_engine("none")  # another format has the same layout
    return _shown(body.getvalue().decode()).encode() if kind == "svg" else body.getvalue()


def _shown(svg: str) -> str:
    """A drawing without what cannot be printed in its texts, such as an escape: XML and HTML allow it nowhere.

    Its clip paths are numbered: Matplotlib's names of them follow the last digits of floats.
    """
    for number, name in enumerate(dict.fromkeys(re.findall(r"url\(#(p[0-9a-f]{10})\)", svg))):
        svg = svg.replace(name, f"clip-{number}")
    return re.sub(r"[^\n -~]", lambda match: printable(match[0]), svg)


def inline(svg: bytes, plot: Plot) -> Markup:
    """Return a figure for the page: it scales, has the page's colours, unique ids, tips and an alternative text."""
    body = svg.decode()
    body = re.sub(r"<metadata>.*?</metadata>", "", body[body.index("<svg") :], flags=re.DOTALL)
    body = re.sub(r' id="([^"]*)"', lambda match: f' id="{plot.name}-{match[1]}"{_data(plot, match[1])}', body)
    body = re.sub(r'(?<="#)|(?<=url\(#)', f"{plot.name}-", body)
    with style.style():
        for setting, name in PAGE_COLOURS.items():
            body = body.replace(to_hex(matplotlib.rcParams[setting]), f"var(--{name})")
    opening, rest = body.split(">", 1)
    box = " ".join(re.findall(r'viewBox="[^"]*"', opening))
    alt = plain(f"{plot.caption} {plot.alt or 'The values are in the tables.'}")
    wide = f"max-width:{REM * plot.figure.get_figwidth():.3g}rem"
    named = f'{box} style="{wide}" role="img" aria-label="{escape(alt)}"'
    return Markup(f'<svg {named} xmlns:xlink="http://www.w3.org/1999/xlink">{rest}')


def _data(plot: Plot, artist: str) -> str:
    """What the script reads from an artist: the number of its variant, and the tips of its marks."""
    variant, tips = re.match(r"v(\d+)-", artist), plot.figure.tips.get(artist)
    texts = json.dumps(
        [plain(without_math(tip) if style.NEEDED["text.parse_math"] else tip) for tip in tips or ()], ensure_ascii=False
    )
    return (f' data-variant="{variant[1]}"' if variant else "") + (f' data-tips="{escape(texts)}"' if tips else "")


def write(files: dict[str, bytes], folder: Path) -> Path:
    """Write the report in place of an unchanged older one and return the path of the page, see `check_unchanged`."""
    folder = Path(folder)
    check_unchanged(folder)
    digests = {name: hashlib.sha256(body).hexdigest() for name, body in sorted(files.items())}
    manifest = json.dumps({"made by": "vit-report", "files": digests}, indent=1) + "\n"
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(folder) as temporary:
            new = temporary / "new"
            for name, body in {**files, MANIFEST: manifest.encode()}.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).write_bytes(body)
            if folder.exists():
                os.replace(folder, temporary / "old")
            os.replace(new, folder)  # there is never half a report
    return folder / "report.html"


def check_unchanged(folder: Path) -> None:
    """Raise `UserError` unless the folder is absent, empty, or holds a report that nobody changed."""
    digests = _digests(folder / MANIFEST)

    def objection(path: Path) -> str:
        name = path.relative_to(folder).as_posix()
        if name not in {MANIFEST if digests else "", *digests}:
            return "was not written by vit-report, which replaces the whole folder"
        changed = name != MANIFEST and hashlib.sha256(read_bytes(path)).hexdigest() != digests[name]
        return "was changed since vit-report wrote it" if changed else ""

    check_replaceable(folder, objection)


def _digests(manifest: Path) -> dict[str, str]:
    """The digests of the files of a report; none where `manifest` is not one of this program."""
    try:
        content = read_json(manifest)
        return dict(content["files"]) if content["made by"] == "vit-report" else {}
    except (ValueError, KeyError, TypeError):
        return {}
