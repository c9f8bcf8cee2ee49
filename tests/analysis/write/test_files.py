"""The files of a report: one safe page with working links, the same bytes every time, replaced as a whole."""

import json
import re
import shlex
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from shown import contrast
from synthetic import write_study

from analysis.figures.style import VERDICTS, Drawing, Plot
from analysis.findings import analyze
from analysis.report import study_document
from analysis.runs.folder import read_folder
from analysis.write import files as write
from analysis.write import pages
from analysis.write.document import Code, Document, Section, Warn
from analysis.write.table import Column, Table
from experiments.errors import UserError

HOSTILE = '</title><img src=x onerror="alert(1)"><script>alert(2)</script>'
MARKS = {"strong_open", "strong_close", "link_open", "link_close", "image", "softbreak"}
"""What report.md may hold beside text: bold means, the link to a long table, figures."""
VOID = {"meta", "link", "br", "img", "input", "hr"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: chromium)")
FIRST = """<script>
addEventListener("load", () => {
  const bottom = (selector) => document.querySelector(selector).getBoundingClientRect().bottom;
  const beyond = [...document.querySelectorAll("main *, header *")].filter((part) => part.getBoundingClientRect().right > innerWidth + 1 && !part.closest(".box, pre, nav"));
  const rows = [...document.querySelectorAll("#table-variants tbody .bar")];
  const colours = (selector, name) => [...document.querySelectorAll(selector)].map((part) => getComputedStyle(part)[name]);
  document.body.dataset.probe = JSON.stringify({wide: document.documentElement.scrollWidth - innerWidth, beyond: beyond.map((part) => part.outerHTML.slice(0, 80)),
    answer: bottom(".headline p"), forest: bottom("#table-variants"), bars: rows.filter((row) => row.offsetWidth > 100 && row.querySelector("svg").getBoundingClientRect().height > 20).length,
    paper: getComputedStyle(document.body).backgroundColor,
    marks: [...new Set([...colours(".bar line", "stroke"), ...colours(".bar .run", "fill"), ...colours(".bar svg", "color")])]});
});</script></body>"""
PROBE = """<script>
const shown = (selector) => [...document.querySelectorAll(selector)].filter((part) => part.offsetHeight);
const hide = () => {
  const figure = document.querySelector("#figure-curves"), name = figure.querySelector(".switch[data-variant='1']");
  name.dispatchEvent(new MouseEvent("click"));
  return [...figure.querySelectorAll("[data-variant]")].filter((part) => getComputedStyle(part).visibility === "hidden")
    .map((part) => part.dataset.variant);
};
addEventListener("load", () => {
  const table = document.querySelector("#table-variants"), head = table.tHead.rows[0].cells[2];
  head.querySelector("button").click();
  const column = [...table.tBodies[0].rows].map((row) => row.cells[0].textContent.trim());
  document.body.dataset.probe = JSON.stringify({wide: document.documentElement.scrollWidth - innerWidth, column,
    drawn: [...document.querySelectorAll("figure svg")].filter((svg) => svg.getBoundingClientRect().height > 50).length,
    sideways: [...document.querySelectorAll("figure")].filter((f) => f.scrollWidth > f.clientWidth).length,
    heads: Math.max(...[...document.querySelectorAll("th")].map((th) => th.innerHTML.split("<br>").length)),
    cut: shown("td.verdict, td.long").filter((cell) => cell.getBoundingClientRect().right > cell.closest(".box").getBoundingClientRect().right + 1).length,
    hints: shown("main .hint").filter((hint) => hint.textContent.startsWith("Scroll")).length,
    scrolling: shown(".box").filter((box) => box.scrollWidth > box.clientWidth + 1).length,
    shadows: getComputedStyle(document.querySelector("nav ol")).backgroundAttachment, hidden: hide()});
});</script></body>"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return analyze(read_folder(write_study(tmp_path_factory.mktemp("study"))))


@pytest.fixture(scope="module")
def files(results):
    return write.make(study_document(results), ["png", "pdf"])


@pytest.fixture
def page(files):
    return Page(files["report.html"].decode())


class Page(HTMLParser):
    """What a browser would see: ids, links, addresses, tags, text."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.hrefs, self.tags, self.text, self.open = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append((tag, given))
        self.ids += [given["id"]] if "id" in given else []
        self.hrefs += [given["href"]] if tag == "a" else []
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_well_formed_and_loads_nothing(page):
    assert page.open == []  # every tag is closed, in order
    for tag, given in page.tags:
        assert "src" not in given or given["src"].startswith("data:")
        if tag in ("link", "use", "image"):
            assert (given.get("href") or given.get("xlink:href")).startswith(("data:", "#"))
    assert not any(part in "".join(page.text) for part in ("@import", "url(http", "fetch("))
    drawings = [given for tag, given in page.tags if tag == "svg" and "viewbox" in given]
    assert len(drawings) == 1 and all(given["role"] == "img" and len(given["aria-label"]) > 40 for given in drawings)


def test_every_link_within_the_page_has_a_target_and_ids_are_unique(page):
    assert len(page.ids) == len(set(page.ids))
    inner = {href[1:] for href in page.hrefs if href.startswith("#")}
    assert inner <= set(page.ids) and {"result", "differences", "methods", "runs", "runs-v2"} <= inner
    drawings = [given for tag, given in page.tags if tag == "use"]
    assert drawings and all(given["xlink:href"][1:] in page.ids for given in drawings)


def test_a_page_that_is_sent_alone_has_its_tables_and_no_link_to_a_file(tmp_path):
    folder = write_study(tmp_path, seeds=3)
    page = write.write(write.make(study_document(analyze(read_folder(folder)))), folder / "report")
    outer = [href for href in Page(page.read_text()).hrefs if not href.startswith("#")]
    assert all(href.startswith(("data:", "https://")) for href in outer)
    for name in ("variants", "pairs", "runs"):
        text = (page.parent / "tables" / f"{name}.csv").read_text()
        assert text in [unquote(href.partition(",")[2]) for href in outer if href.startswith("data:text/csv")]
    assert (page.parent / "tables/differences.csv").is_file()


def test_tables_mark_a_verdict_as_figures_do(files):
    style, _ = files["report.html"].decode().split("</style>", 1)
    rules = re.findall(r'([^{}]*){ --sign: "(.)', style)
    signs = {word.strip().removeprefix("td."): sign for words, sign in rules for word in words.split(",")}
    drawn = {verdict: marker for verdict, (_, marker) in VERDICTS.items() if marker != "D"}
    as_text = {"^": "▲", "v": "▼", "s": "■", "o": "●", "x": "×"}
    assert {word: signs[word.replace(" ", "-")] for word in drawn} == {word: as_text[drawn[word]] for word in drawn}


def test_a_note_is_shown_at_its_first_table_and_warnings_are_one_line_that_opens():
    tables = [Table(name, "Caption.", [{"a": "b"}], (Column("a", "a"),), notes=("A note.",)) for name in "xy"]
    warnings, empty = [Warn("A.", "More.", "code"), Warn("B.", topic="plan", changes=True)], Section("empty", "Nothing")
    document = Document("t", "", "s", (), warnings, [Section("result", "Results", tables), empty]).as_shown()
    page = pages.page(document, {}, {table.name: table.csv() for table in document.tables})
    assert page.count("A note.") == pages.readme(document).count("A note.") == 1
    (box,) = re.findall(r'<details class="notes warnings changing">.*?</details>', page, re.DOTALL)
    assert "<summary>2 notes: plan, code (1 can change a verdict)</summary>" in box
    assert "<li>A. More.</li>" in box and '<li class="changes">B. </li>' in box
    assert "Nothing" not in page and "Nothing" not in pages.readme(document)


def test_values_under_the_pointer_are_those_of_the_records(results, page):
    shown = {text for _, given in page.tags if "data-tips" in given for text in json.loads(given["data-tips"])}
    for variant in results.variants.names:
        for seed, value in results.means.values[variant].items():
            assert f"seed {seed}: {100 * value:.2f} %" in page.text  # at a dot of the table
    curves = results.study.curves.query("variant == 'learned-1d' and epoch == 4")
    last = curves["val/acc"].mean()
    assert f"learned-1d, epoch 4: {100 * last:.2f} %" in shown


def test_what_cannot_be_printed_is_in_no_figure():
    """As in the name of a metric. XML allows few of these characters."""

    def draw() -> Drawing:
        drawing = Drawing(1)
        drawing.text(0, 0, "a\x1b[2J\u202e\x0c\ufffeé")
        return drawing

    svg = write.saved(Plot("name", draw, "caption"), "svg").decode()
    assert ">a\ufffd[2J\ufffd \ufffdé<" in ElementTree.canonicalize(svg)


def test_names_are_the_text_that_a_browser_and_a_markdown_parser_read(tmp_path, files):
    names = ["pos_embed", "__x__", "a*b", "[x](y)", "`q`", "<b>", "&lt;", HOSTILE]
    folder = write_study(
        tmp_path,
        accuracy={name: 0.6 + 0.05 * place for place, name in enumerate(names)},
        factors={f"model.{HOSTILE}": names},
        levels=lambda v: {"model.act": v},
        seeds=3,
        description=" ".join(names),
        command=f"vit-sweep run {shlex.quote(' '.join(names))} ```",
    )
    made = write.make(study_document(analyze(read_folder(folder))))
    page = Page(made["report.html"].decode())
    assert [tag for tag, _ in page.tags if tag in ("script", "img")] == ["script"]
    assert not any(name.startswith("on") for _, given in page.tags for name in given)
    assert any(HOSTILE in text for text in page.text) and not any(HOSTILE in name for name in made)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(made["report.md"].decode())
    inline = [token.children for token in tokens if token.type == "inline"]
    shown = ["".join(child.content for child in children) for children in inline]
    children = [child for children in inline for child in children]
    assert set(names) <= set(shown)
    assert {child.type for child in children} <= {*MARKS, "text", "text_special"}
    links = [child.attrs["href"] for child in children if child.type == "link_open"]
    assert links == ["tables/pairs.csv", "tables/runs.csv"]
    fenced = "".join(token.content for token in tokens if token.type == "fence")  # the study file has the names
    assert all(name in fenced for name in names) and not any(token.type == "html_block" for token in tokens)
    ordinary = files["report.md"].decode()
    assert not re.search(r"\\[\[_]", ordinary) and "pos_embed" in ordinary


def test_the_same_records_give_the_same_bytes_on_another_day(files, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")  # for matplotlib and fontTools
    again = analyze(read_folder(write_study(tmp_path / "somewhere" / "else")))
    assert files == write.make(study_document(again), ["png", "pdf"])
    kinds = {"tables/variants.csv", "tables/runs.csv", "figures/forest.svg"}
    assert {"report.html", "report.md", "figures/forest.png", "figures/forest.pdf", *kinds} <= set(files)
    assert not any(name.endswith((".png", ".pdf")) for name in write.make(study_document(again)))


def test_an_older_report_is_replaced_as_a_whole(tmp_path):
    write.write({"report.html": b"old", "tables/gone.csv": b"x"}, tmp_path / "report")
    write.write({"report.html": b"new"}, tmp_path / "report")
    assert (tmp_path / "report" / "report.html").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["manifest.json", "report.html"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "notes.txt").write_text("mine"), "notes.txt: was not written by vit-report"),
        (lambda folder: (folder / "images").symlink_to(folder), "images: was not written by vit-report"),
        (lambda folder: (folder / "report.md").write_text("my notes"), "report.md: was changed since vit-report wrote"),
        (lambda folder: (folder / "manifest.json").unlink(), "report.html: was not written by vit-report"),
        (lambda folder: folder.rename(folder.parent / "a") and folder.write_text("a"), "report: is not a folder"),
        (lambda folder: folder.rename(folder.parent / "a") and folder.symlink_to("a"), "report: is not a folder"),
    ],
)
def test_what_a_user_wrote_is_never_replaced(change, said, tmp_path):
    write.write({"report.html": b"old", "report.md": b"old"}, tmp_path / "report")
    change(tmp_path / "report")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    with pytest.raises(UserError, match=said):
        write.write({"report.html": b"new", "report.md": b"new"}, tmp_path / "report")
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_replacing_a_report_changes_nothing_behind_a_link_in_it(tmp_path):
    (tmp_path / "mine").write_text("secret")
    (tmp_path / "mine").chmod(0o400)
    write.write({"figures/a": b"secret"}, tmp_path / "report")
    (tmp_path / "report" / "figures" / "a").unlink()
    (tmp_path / "report" / "figures" / "a").symlink_to(tmp_path / "mine")
    (tmp_path / "report" / "figures").chmod(0o555)
    write.write({"b": b"new"}, tmp_path / "report")
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o400
    assert (tmp_path / "report" / "b").read_bytes() == b"new"
    for left in tmp_path.glob(".report-*/old/figures"):  # for root, nothing is left
        left.chmod(0o755)


def test_a_folder_that_cannot_be_moved_leaves_nothing_behind(tmp_path, monkeypatch):
    """A mount point cannot be moved; neither can the current folder under its name `.`."""
    (tmp_path / "report").mkdir()
    monkeypatch.chdir(tmp_path / "report")
    with pytest.raises(UserError, match="cannot be written"):
        write.write({"report.html": b"new"}, Path("."))
    assert [path.name for path in tmp_path.rglob("*")] == ["report"]


def probed(html, probe, path, width=500, dark=False):
    """What a script sees in the page, in a window of this width; also what the browser logs."""
    (path / "page.html").write_text(html.replace("</body>", probe))
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking disable-component-update"
    command = [
        CHROMIUM,
        *(f"--{flag}" for flag in flags.split()),
        *["--blink-settings=preferredColorScheme=0"] * dark,
        f"--user-data-dir={path / 'profile'}",
        f"--window-size={width},900",
        "--enable-logging=stderr",
        "--dump-dom",
        f"file://{path / 'page.html'}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    (body,) = [given for tag, given in Page(done.stdout).tags if tag == "body"]
    return json.loads(body["data-probe"]), done.stderr


@needs_chromium
def test_in_a_browser_it_fits_a_phone_sorts_and_shows_every_figure(files, tmp_path):
    seen, logged = probed(files["report.html"].decode(), PROBE, tmp_path)
    assert seen["wide"] <= 0 and seen["drawn"] == 1 and seen["sideways"] == 0 and seen["heads"] <= 2
    assert seen["hidden"] and set(seen["hidden"]) == {"1"}
    assert seen["column"] == ["none", "learned-1d", "learned-2d", "sinusoidal"]  # by accuracy, lowest first
    assert (
        seen["cut"] == 0 and seen["hints"] == seen["scrolling"] > 0
    )  # verdicts are visible, and a line says what scrolls
    assert seen["shadows"].split(", ") == ["local", "local", "scroll", "scroll"]  # the contents show that they scroll
    assert "CONSOLE" not in logged


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """The page of a study of eight variants."""
    kinds = ("none", "sinusoidal", "learned-1d", "learned-2d", "relative", "rope-2d", "cpe", "sincos-2d")
    accuracy = {kind: 0.7 + place / 100 for place, kind in enumerate(kinds)}
    findings = analyze(read_folder(write_study(tmp_path_factory.mktemp("eight"), accuracy=accuracy)))
    return write.make(study_document(findings))["report.html"].decode()


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [500, 1280, 1920])
def test_in_a_browser_the_answer_and_the_forest_plot_of_eight_variants_come_first(width, dark, eight, tmp_path):
    seen, logged = probed(eight, FIRST, tmp_path, width, dark)
    assert seen["wide"] <= 0 and seen["beyond"] == [] and seen["bars"] == 8 and "CONSOLE" not in logged
    assert seen["answer"] < seen["forest"] and (seen["forest"] < 900 or width < 1280)
    paper, *marks = ([int(part) / 255 for part in re.findall(r"\d+", x)[:3]] for x in (seen["paper"], *seen["marks"]))
    assert all(contrast(paper, mark) >= 3 for mark in marks) and len(marks) > 3


def test_code_keeps_its_spaces_and_tabs_since_readers_copy_it():
    """The source of a plug-in decides the run ids."""
    text = 'def add(self, x):  # [B, T]\n    return "a    b"\t# tab\n\n    # \x1b[0m'
    document = Document("t", "", "s", (), [], [Section("reproduce", "Reproduce", [Code(text)])])
    expected = text.replace("\x1b", "\ufffd")
    (token,) = [token for token in MarkdownIt().parse(pages.readme(document)) if token.type in ("fence", "code_block")]
    assert token.content.rstrip("\n") == expected
