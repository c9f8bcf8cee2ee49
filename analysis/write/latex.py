"""Write a table for a paper as LaTeX: a tabular with booktabs. Text is escaped here."""

import re

from pylatexenc.latexencode import unicode_to_latex

from analysis.figures.style import is_math
from analysis.words import GREEK, math_parts, plain
from analysis.write.table import Column, Shown, Table, label_lines
from experiments.errors import printable

HEAD = r"% written by vit-report --table, which replaces it; needs \usepackage{amsmath,booktabs}; ?: no form in LaTeX"
MARKS = {
    **{"†": r"$^\dagger$", "‡": r"$^\ddagger$", "×": r"$\times$"},
    **{"▲": r"$\bigtriangleup$", "▼": r"$\bigtriangledown$", "■": r"\rule{1ex}{1ex}"},
}
WORDS = """mathrm mathbf mathit mathcal mathbb mathsf mathtt text frac sqrt hat bar tilde vec overline left right times
pm mp cdot cdots ldots dots le leq ge geq neq approx sim to leftarrow rightarrow in ell infty partial nabla prime circ
star dagger sum prod log ln exp sin cos tan max min quad"""
CONTROL = {*WORDS.split(), *GREEK}
"""Control words that math may have. Others could read files, write them or run commands."""
TOKEN = re.compile(r"\\([A-Za-z]+)|\\[,;:! |{}]|\^(?!\^)|[A-Za-z0-9 +\-=*/().,:;|<>!?'\[\]_{}]")  # ^^5c is a backslash


def table(table: Table) -> str:
    r"""Return the table for \input, without its caption and notes."""
    columns, rows = table.shown()
    alignment = "".join("r" if column.numeric else "l" for column in columns)
    lines = [
        HEAD,
        rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}",
        r"\toprule",
        " & ".join(_head(column) for column in columns) + r" \\",
        r"\midrule",
        *(" & ".join(map(_cell, row, columns)) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return text that LaTeX sets as it is. A character that pylatexenc does not know is a question mark."""
    text = printable(re.sub(r"\s+", " ", text))
    shown: str = unicode_to_latex(text, unknown_char_policy="replace", unknown_char_warning=False)
    return re.sub(r"^(\[|\*)", r"{\1}", shown)  # after \\, these are an argument


def _head(column: Column) -> str:
    first, *more = (_text(line, column.math) for line in label_lines(column.label))
    return rf"\shortstack{{{first}\\{more[0]}}}" if more else first


def _cell(cell: Shown, column: Column) -> str:
    text = _text(cell.text, column.math)
    text += f" {MARKS[cell.sign]}" if cell.sign else ""
    return (rf"\textbf{{{text}}}" if cell.bold else text) + MARKS.get(cell.dagger, "")


def _text(text: str, math: bool) -> str:
    parts = math_parts(plain(text)) if math else [plain(text)]
    return "".join(_math(part) if at % 2 else escaped(part) for at, part in enumerate(parts))


def _math(part: str) -> str:
    """Math as it is, if Matplotlib reads it, too, and LaTeX does nothing but set it; anything else is text."""
    known = all(word in CONTROL for word in TOKEN.findall(part) if word) and not TOKEN.sub("", part)
    return f"${part}$" if known and is_math(f"${part}$") else escaped(f"${part}$")
