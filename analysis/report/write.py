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
from collections.abc import Iterator
from contextlib import contextmanager
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
SHORT_HEAD = 12  # characters of the head of a column that stay on one line
TEMPLATES = Path(__file__).parent / "templates"
SVG_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def make(document: Document, refresh: int | None = None, png: bool = False) -> dict[str, bytes]:
    """Return every file of the report: name -> bytes.

    `refresh`: seconds after which the page reloads itself. `png`: whether the figures are also written as PNG.
    """
    with style.style():
        drawn = {plot.name: svg(plot) for plot in document.plots}
        pictures = {
            plot.name: _saved(plot, format="png", metadata={"Software": None}) for plot in document.plots if png
        }
    inline = {plot.name: inline_svg(drawn[plot.name], plot) for plot in document.plots}
    shown = document.with_notes_once()
    files = {"report.html": _page(shown, inline, refresh).encode(), "report.md": _markdown(shown).encode()}
    for table in document.tables:
        files[f"tables/{table.name}.csv"] = render.to_csv(table).encode()
        files[f"tables/{table.name}.tex"] = render.to_latex(table).encode()
    for name, frame in document.frames.items():
        files[f"tables/{name}.csv"] = frame.to_csv(index=False, lineterminator="\n").encode()
    files |= {f"figures/{name}.svg": body.encode() for name, body in drawn.items()}
    files |= {f"figures/{name}.png": body for name, body in pictures.items()}
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
    try:
        _check_replaceable(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be read: {error.strerror}") from error


def _check_replaceable(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise UserError(f"{folder}: is not a folder, so no report can be written there; move it, or give another --out")
    found = {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()
    }
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
    try:
        os.replace(folder, aside / "report")
        try:
            os.replace(new, folder)
        except OSError:
            os.replace(aside / "report", folder)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _page(document: Document, figures: dict[str, Markup], refresh: int | None) -> str:
    environment = _environment(autoescape=True)
    environment.filters["drawn"] = lambda plot: figures[plot.name]
    environment.filters["lines"] = _two_lines
    shown = {file.removeprefix("tables/") for file in (f"{table.name}.csv" for table in document.tables)}
    environment.tests["a_file"] = lambda table: f"{table.name}.csv" in shown
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
            unfolded=document.runs is not None and len(document.runs.rows) <= FOLDED,
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


def _two_lines(text: str) -> list[str]:
    """Split the head of a column into at most two lines of similar length."""
    words = render.plain(text).split(" ")
    if len(" ".join(words)) <= SHORT_HEAD or len(words) == 1:
        return [" ".join(words)]
    splits = [(" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words))]
    return list(min(splits, key=lambda lines: max(map(len, lines))))


def inline_svg(svg: str, plot: Plot) -> Markup:
    """Return a figure for the page: it scales, follows the page's colours, has unique ids, tips and an alternative text."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r' id="([^"]*)"', lambda found: f' id="{plot.name}-{found[1]}"{_data(plot, found[1])}', body)
    body = re.sub(r'(?<="#)|(?<=url\(#)', f"{plot.name}-", body)
    for colour, name in ((INK, "ink"), (PAPER, "paper"), (BAND, "band")):
        body = body.replace(colour, f"var(--{name})")
    opening, rest = body.split(">", 1)
    box = " ".join(re.findall(r'viewBox="[^"]*"', opening))
    named = f'{box} role="img" aria-label="{escape(render.plain(plot.alt))}"'
    return Markup(f'<svg {named} xmlns:xlink="http://www.w3.org/1999/xlink">') + Markup(rest)


def _data(plot: Plot, gid: str) -> str:
    """What the script reads from an artist: the number of its variant, and the tips of its marks."""
    variant = re.match(r"v(\d+)-", gid)
    tips = plot.figure.tips.get(gid)
    return (f' data-variant="{variant[1]}"' if variant else "") + (
        f' data-tips="{escape(json.dumps([render.plain(tip) for tip in tips], ensure_ascii=False))}"' if tips else ""
    )


def svg(plot: Plot) -> str:
    """Return the figure as a file of its own."""
    return _saved(plot, format="svg", metadata=SVG_METADATA).decode()


def _saved(plot: Plot, **options: Any) -> bytes:
    body = io.BytesIO()
    with _without_glyph_warnings():
        plot.figure.savefig(body, **options)
    plot.figure.set_layout_engine("none")  # another format has the same layout
    return body.getvalue()


@contextmanager
def _without_glyph_warnings() -> Iterator[None]:
    """A name may be in a script that the font lacks; the SVG shows it all the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _fence(text: str) -> str:
    """A code block whose fence is longer than any fence in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{render.plain_lines(text)}\n{fence}"
