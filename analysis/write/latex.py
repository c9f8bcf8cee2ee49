"""Write a table for a paper as LaTeX. Text is escaped here; every character has a form in pdflatex or is replaced."""

import re
import textwrap
import unicodedata
from dataclasses import replace
from functools import cache, reduce

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from analysis.figures.style import is_math
from analysis.words import GREEK, digits, math_parts, plain, without_math
from analysis.write.table import SHORT_LABEL, Column, Grid, Shown, Table

HEAD = (
    r"% written by vit-report --table, which replaces the whole file; needs \usepackage{booktabs,tabularx}; "
    "a character that pdflatex has no form of is its code, {[}4E2D{]}; the CSV has the text"
)
SMALL = r"\noindent{\small\setlength{\tabcolsep}{4pt}%"  # so that the usual columns fit a page of 5.5 inches
SPACE = 8.0  # points between columns
FONT = FontProperties(family="cmr10", size=9.3)  # as wide as LaTeX's letters of 9 points
POINTS = 72.27  # of TeX in an inch
LINES = (3.33, 5.5)  # inches: one of two columns, and a page

COMMANDS = ["textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar", "dag", "dots"]
SYMBOLS = r"""\pm - \times \geq \leq \cdot \to \surd \leftarrow \uparrow \downarrow \leftrightarrow \Rightarrow \approx
\neq \sim \infty \partial \nabla \sum \prod \in \ll \gg \div \star \bullet \circ ' '' \ell \mu \Delta ^{-} ^{+} ^\circ
\mp \equiv \propto \varepsilon \vartheta \varphi"""
LETTERS = "ss ae oe o aa l AE OE O AA L i"
FORMS = {
    **{character: "\\" + character for character in "{}$&#%_"},
    **{character: "{" + character + "}" for character in "[]*"},
    **{character: rf"\{command}{{}}" for character, command in zip("\\^~<>|†…", COMMANDS, strict=True)},
    **{
        character: f"${symbol}$"
        for character, symbol in zip("±−×≥≤·→√←↑↓↔⇒≈≠∼∞∂∇∑∏∈≪≫÷★•∘′″ℓµ∆⁻⁺°∓≡∝ɛϑϕ", SYMBOLS.split(), strict=True)
    },
    **{character: f"$^{number}$" for number, character in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{character: f"$_{number}$" for number, character in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **dict(zip("“”‘’–—", ("``", "''", "`", "'", "--", "---"))),
    **{letter: rf"$\{command}$" for command, letter in GREEK.items()},
    **{letter: rf"\{command}{{}}" for letter, command in zip("ßæœøåłÆŒØÅŁı", LETTERS.split(), strict=True)},
    **{"‐": "-{}", "‑": "-{}", "„": ",,", "‚": ",", "½": "1/2", "¼": "1/4", "¾": "3/4"},
    "‡": r"\ddag{}",
    **{"▲": r"$\bigtriangleup$", "▼": r"$\bigtriangledown$", "■": r"\rule{1ex}{1ex}"},
    **{'"': r"\char34{}", "`": r"\char96{}", "'": "'{}", "-": "-{}"},  # two in a row would be a quotation mark, a dash
}
WORDS = """mathrm mathbf mathit mathcal mathbb mathsf mathtt text frac sqrt hat bar tilde vec overline left right times
pm mp cdot cdots ldots dots le leq ge geq neq approx sim to leftarrow rightarrow in ell infty partial nabla prime circ
star dagger sum prod log ln exp sin cos tan max min quad"""
CONTROL = {*WORDS.split(), *GREEK}
"""Control words that math may have. Others could read files, write them or run commands."""
TOKEN = re.compile(r"\\([A-Za-z]+)|\\[,;:! |{}]|\^(?!\^)|[A-Za-z0-9 +\-=*/().,:;|<>!?'\[\]_{}]")  # ^^5c is a backslash
FOOTNOTES = {"†": r"$^\dagger$", "‡": r"$^\ddagger$"}
ACCENTS = dict(
    zip("\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0323\u0327", r"""`'^~=u."rHvdc""")
)  # mark -> LaTeX's accent


def table(table: Table, label: str = "", caption: str | None = None) -> str:
    """Return a `table` environment for \\input, as wide as a line, without its notes.

    `caption`: the user's, with math between "$", instead of the table's; "": only the tabular.
    """
    columns, rows = table.shown()
    names = {
        cell.text for row in rows for cell, column in zip(row, columns) if column.math and {" ", "$"} & {*cell.text}
    }
    codes = {name: chr(0xE000 + i) for i, name in enumerate(sorted(names, key=len, reverse=True))}  # for private use
    forms = {code: _with_math(name) for name, code in codes.items()}

    def coded(shown: str) -> str:  # names of variants in it keep their math and are not divided
        shown = plain(shown)
        for name, code in codes.items():
            shown = shown.replace(name, code)
        return shown

    def text(shown: str) -> str:
        return "".join(forms.get(character) or _form(character) for character in shown)

    (columns, rows), inches = laid_out(table)
    heads = [_head(Grid(columns, rows), at, coded(column.label)) for at, column in enumerate(columns)]
    most = max(map(len, heads))
    caption = text(coded(table.caption)) if caption is None else _with_math(plain(caption))
    start = [r"\begin{table}", rf"\caption{{{caption}}}", rf"\label{{{label}}}"]
    lines = [
        HEAD,
        f"% needs a line of {inches:.2f} inches or more",
        *(start if caption else []),
        SMALL,
        rf"\begin{{tabularx}}{{\linewidth}}{{@{{}}{''.join(_alignments(Grid(columns, rows)))}@{{}}}}",
        r"\toprule",
        *(
            " & ".join(map(text, line)) + r" \\"
            for line in zip(*([""] * (most - len(lines)) + lines for lines in heads))
        ),
        r"\midrule",
        *(" & ".join(map(_cell, row, columns)) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabularx}}",
        *([r"\end{table}"] if caption else []),
    ]
    return "\n".join(lines) + "\n"


def laid_out(table: Table) -> tuple[Grid, float]:
    """The columns and rows as LaTeX has them, and the inches that they need: the first form that fits one of `LINES`.

    Forms: as they are; all keys in one column. Where none fits, also rows and columns in each other's place.
    """
    grid = table.shown()
    forms = [grid, *([_joined(grid)] if sum(column.key for column in grid.columns) > 1 else [])]
    needs = [(_needed(form), form) for form in forms]
    fitting = [(inches, form) for line in LINES for inches, form in needs if inches <= line]
    if not fitting and table.turns and grid.rows:
        needs.append((_needed(turned := _turned(grid)), turned))
    inches, form = fitting[0] if fitting else min(needs, key=lambda need: need[0])
    return form, inches


def _joined(grid: Grid) -> Grid:
    keys = [at for at, column in enumerate(grid.columns) if column.key]
    wanted = [at not in keys[1:] for at in range(len(grid.columns))]
    columns, rows = [*grid.columns], [[*row] for row in grid.rows]
    columns[keys[0]] = replace(columns[keys[0]], label=", ".join(columns[at].label for at in keys))
    for row in rows:
        row[keys[0]] = row[keys[0]]._replace(text=", ".join(row[at].text for at in keys))
    return Grid(columns, [tuple(row) for row in rows]).only(wanted)


def _turned(grid: Grid) -> Grid:
    heads = [Column(row[0].text, "", digits, math=grid.columns[0].math) for row in grid.rows]
    lines = [
        (Shown(column.label, "", "", None, ""), *(row[at] for row in grid.rows))
        for at, column in enumerate(grid.columns)
    ]
    return Grid([Column("", "", key=True), *heads], lines[1:])


def _words(text: str) -> list[str]:
    """The parts between which LaTeX may break a line: after the hyphens of long words, too."""
    return [part for word in text.split() for part in (re.split("(?<=-)", word) if len(word) > SHORT_LABEL else [word])]


def _width(text: str) -> float:
    """The width of a text in points, about."""
    ascii = re.sub("[^ -~]", "M", re.sub(r"[±−×<>|\\{}^_]", "+", without_math(text)))
    return sum(map(_advance, ascii))


@cache
def _advance(letter: str) -> float:
    once, often = (text_to_path.get_text_width_height_descent(f"x{letter * n}x", FONT, False)[0] for n in (1, 9))
    return float(often - once) / 8


def _widths(grid: Grid, at: int) -> tuple[float, float]:
    """The width of a column's texts, and the least: that of its longest word, if it is text."""
    cells, column = [row[at] for row in grid.rows], grid.columns[at]
    texts = [(f"{cell.text}{cell.dagger} {cell.sign}".strip(), 1.15 if cell.bold else 1.0) for cell in cells]
    natural = max((_width(text) * bold for text, bold in texts), default=0.0)
    words = (_width(word) for text, _ in texts for word in _words(text))
    return natural, natural if column.numeric else max(words, default=0.0)


def _head(grid: Grid, at: int, label: str) -> list[str]:
    """The lines of the head of a column, about as wide as what stands below."""
    longest = max((len(row[at].text) for row in grid.rows), default=0)
    most = longest if grid.columns[at].numeric else min(longest, SHORT_LABEL)
    return textwrap.wrap(label, max(most, 1), break_long_words=False, break_on_hyphens=False)


def _least(grid: Grid, at: int) -> float:
    lines = _head(grid, at, plain(without_math(grid.columns[at].label)))
    return max([_widths(grid, at)[1], *map(_width, lines)])


def _needed(grid: Grid) -> float:
    places = range(len(grid.columns))
    return (sum(_least(grid, at) for at in places) + SPACE * (len(places) - 1)) / POINTS


def _alignments(grid: Grid) -> list[str]:
    """What `tabularx` is told of each column. What is text shares the width that is left, by the longest words."""
    places = [at for at, column in enumerate(grid.columns) if not column.numeric]
    flexible = [at for at in places if _widths(grid, at)[0] > _least(grid, at)] or places[:1] or [0]
    shares = {at: _least(grid, at) for at in flexible}
    each = sum(shares.values()) / len(shares)
    parts = {at: rf">{{\hsize={share / each:.3f}\hsize\raggedright\arraybackslash}}X" for at, share in shares.items()}
    return [parts.get(at) or ("r" if column.numeric else "l") for at, column in enumerate(grid.columns)]


def _cell(cell: Shown, column: Column) -> str:
    text = (_with_math if column.math else _without_math)(plain(cell.text))
    text += f" {escaped(cell.sign)}" if cell.sign else ""
    return (rf"\textbf{{{text}}}" if cell.bold else text) + FOOTNOTES.get(cell.dagger, "")


def escaped(text: str) -> str:
    """Return text that LaTeX sets as it is, in ASCII."""
    return _without_math(plain(text))


def _with_math(text: str) -> str:
    return "".join((_math if at % 2 else _without_math)(part) for at, part in enumerate(math_parts(plain(text))))


def _math(part: str) -> str:
    """Math as it is, if Matplotlib reads it, too, and LaTeX does nothing but set it; anything else is text."""
    known = all(word in CONTROL for word in TOKEN.findall(part) if word) and not TOKEN.sub("", part)
    return f"${part}$" if known and is_math(f"${part}$") else _without_math(f"${part}$")


def _without_math(text: str) -> str:
    return "".join(map(_form, text))


def _form(character: str) -> str:
    if character in FORMS:
        return FORMS[character]
    if character.isascii():
        return character
    letter, *marks = list(unicodedata.normalize("NFD", character))
    if marks and letter.isascii() and {*marks} <= {*ACCENTS}:
        return reduce(lambda inner, mark: rf"\{ACCENTS[mark]}{{{inner}}}", marks, letter)
    return f"{{[}}{ord(character):04X}{{]}}"
