"""Write the files of a report: page, Markdown, tables and figures.

All files are made in memory and moved into place as one folder. The same records give the same bytes. Only a folder
that this program wrote, and that nobody changed, is replaced.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from analysis.figures import style
from analysis.figures.style import BAND, INK, PAPER, Plot
from analysis.report import render
from analysis.report.document import Code, Document, Facts
from experiments.errors import UserError

MANIFEST = "manifest.json"
FOLDED = 200  # runs from which the list of runs is folded
TEMPLATES = Path(__file__).parent / "templates"
SVG_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def make(document: Document, refresh: int | None = None) -> dict[str, bytes]:
    """Return every file of the report: name -> bytes. `refresh`: seconds after which the page reloads itself."""
    with style.style():
        drawn = {plot.name: _drawn(plot) for plot in document.plots}
    svgs = {name: svg for name, (svg, _) in drawn.items()}
    files = {"report.html": _page(document, svgs, refresh).encode(), "report.md": _markdown(document).encode()}
    for table in document.tables:
        files[f"tables/{table.name}.csv"] = render.to_csv(table).encode()
        files[f"tables/{table.name}.tex"] = render.to_latex(table).encode()
    for name, frame in document.frames.items():
        files[f"tables/{name}.csv"] = frame.to_csv(index=False, lineterminator="\n").encode()
    for name, (svg, png) in drawn.items():
        files[f"figures/{name}.svg"], files[f"figures/{name}.png"] = svg.encode(), png
    return files


def write(files: dict[str, bytes], folder: Path) -> Path:
    """Write the report and replace an older one; returns the path of the page.

    Raises `UserError` if the folder holds anything else than an unchanged report.
    """
    folder = Path(folder)
    check_replaceable(folder)
    digests = {name: hashlib.sha256(body).hexdigest() for name, body in sorted(files.items())}
    files = {**files, MANIFEST: (json.dumps({"made by": "vit-report", "files": digests}, indent=1) + "\n").encode()}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-new-"))
    except OSError as error:
        raise UserError(f"{folder.parent}: cannot be written: {error.strerror}") from error
    try:
        for name, body in files.items():
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_bytes(body)
        new.chmod(0o755)
        _swap(new, folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder / "report.html"


def check_replaceable(folder: Path) -> None:
    """Raise `UserError` unless the folder is absent, empty, or holds a report that nobody changed."""
    if not folder.exists():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise UserError(f"{folder}: is not a folder, so no report can be written there; move it, or give another --out")
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        own = dict(manifest["files"]) if manifest["made by"] == "vit-report" else {}
    except (OSError, ValueError, KeyError, TypeError):
        own = {}
    found -= {MANIFEST} if own else set()
    if foreign := sorted(found - own.keys()):
        raise UserError(
            f"{folder / foreign[0]}: was not written by vit-report, which replaces the whole folder; move it, or give "
            "another --out"
        )
    for name in sorted(found):
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != own[name]:
            raise UserError(f"{folder / name}: was changed since vit-report wrote it; move it, or give another --out")


def _swap(new: Path, folder: Path) -> None:
    """Move the old folder aside, the new one into place, and delete the old one: there is never half a report."""
    if not folder.exists():
        os.replace(new, folder)
        return
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-old-"))
    os.replace(folder, aside / "report")
    try:
        os.replace(new, folder)
    except OSError:
        os.replace(aside / "report", folder)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _page(document: Document, svgs: dict[str, str], refresh: int | None) -> str:
    environment = _environment(autoescape=True)
    environment.filters["drawn"] = lambda plot: inline_svg(svgs[plot.name], plot)
    environment.filters["plainlines"] = render.plain_lines
    environment.filters["sortable"] = lambda value: (
        "" if value is None or math.isnan(value) else repr(float(value)).replace("inf", "Infinity")
    )
    return (
        environment.get_template("report.html.j2")
        .render(
            document=document,
            contents=[(section.id, section.heading) for section in document.sections]
            + ([("runs", "Runs")] if document.runs else []),
            unfolded=sum(len(table.rows) for table in document.runs) <= FOLDED,
            refresh=refresh,
            css=Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
            js=Markup((TEMPLATES / "page.js").read_text(encoding="utf-8")),
        )
        .lstrip()
    )


def _markdown(document: Document) -> str:
    environment = _environment(autoescape=False)  # every text is escaped by `md` instead
    environment.filters["md"] = lambda text: render.markdown(text, starts_line=True)
    environment.filters["md_inline"] = render.markdown
    environment.filters["md_table"] = render.to_markdown
    environment.filters["fence"] = _fence
    return environment.get_template("report.md.j2").render(document=document)


def _environment(autoescape: bool) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["plain"] = render.plain
    for kind in (render.Table, Plot, Facts, Code):  # `item is table`
        environment.tests[kind.__name__.lower()] = lambda item, kind=kind: isinstance(item, kind)
    return environment


def inline_svg(svg: str, plot: Plot) -> Markup:
    """Return a figure for the page: it scales, follows the page's colours, has unique ids and an alternative text."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'(?<= id=")|(?<="#)|(?<=url\(#)', f"{plot.name}-", body)
    for colour, name in ((INK, "ink"), (PAPER, "paper"), (BAND, "band")):
        body = body.replace(colour, f"var(--{name})")
    opening, rest = body.split(">", 1)
    box = " ".join(re.findall(r'viewBox="[^"]*"', opening))
    return Markup(
        f'<svg {box} role="img" aria-label="{escape(render.plain(plot.alt))}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    ) + Markup(rest)


def _drawn(plot: Plot) -> tuple[str, bytes]:
    """The figure as SVG and as PNG, with the same layout."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing from font"
        )  # a name in a script the font lacks; the SVG shows it
        plot.figure.draw_without_rendering()
        plot.figure.set_layout_engine("none")
        return _saved(plot, format="svg", metadata=SVG_METADATA).decode(), _saved(
            plot, format="png", metadata={"Software": None}
        )


def _saved(plot: Plot, **options: Any) -> bytes:
    body = io.BytesIO()
    plot.figure.savefig(body, **options)
    return body.getvalue()


def _fence(text: str) -> str:
    """A code block whose fence is longer than any fence in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{render.plain_lines(text)}\n{fence}"
