"""Write a table for a paper as LaTeX. Text is escaped here; every character has a form in pdflatex or is replaced."""

import re
import unicodedata

from analysis.figures.style import is_math
from analysis.words import GREEK, math_parts, plain
from analysis.write.table import Column, Shown, Table, label_lines

HEAD = (
    r"% written by vit-report --table, which replaces the whole file; needs \usepackage{booktabs,tabularx}; "
    "a character that pdflatex has no form of is its code, {[}4E2D{]}; the CSV has the text"
)
SMALL = r"\noindent{\small\setlength{\tabcolsep}{4pt}%"  # so that the usual columns fit a page of 5.5 inches
FLEXIBLE = r">{\raggedright\arraybackslash}X"  # gets the width that the other columns leave

COMMANDS = ["textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar", "dag", "dots"]
SYMBOLS = [r"\pm", r"-", r"\times", r"\geq", r"\leq", r"\cdot", r"^2", r"\to", r"\surd"]
FORMS = {
    **{character: "\\" + character for character in "{}$&#%_"},
    **{character: "{" + character + "}" for character in "[]*"},
    **{character: rf"\{command}{{}}" for character, command in zip("\\^~<>|†…", COMMANDS, strict=True)},
    **{character: f"${symbol}$" for character, symbol in zip("±−×≥≤·²→√", SYMBOLS, strict=True)},
    **dict(zip("“”‘’–—", ("``", "''", "`", "'", "--", "---"))),
    **{letter: rf"$\{command}$" for command, letter in GREEK.items()},
    "ß": r"\ss{}",
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
ACCENTS = dict(zip("\u0300\u0301\u0302\u0303\u0308\u030a\u030c\u0327", r"""`'^~"rvc"""))  # mark -> LaTeX's accent


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

    keys = [at for at, column in enumerate(columns) if column.key] or [0]
    widest = max(keys, key=lambda at: max((len(row[at].text) for row in rows), default=0))
    align = [FLEXIBLE if at == widest else "r" if column.numeric else "l" for at, column in enumerate(columns)]
    heads = zip(*(["", *label_lines(coded(column.label))][-2:] for column in columns))
    caption = text(coded(table.caption)) if caption is None else _with_math(plain(caption))
    start = [r"\begin{table}", rf"\caption{{{caption}}}", rf"\label{{{label}}}"]
    lines = [
        HEAD,
        *(start if caption else []),
        SMALL,
        rf"\begin{{tabularx}}{{\linewidth}}{{@{{}}{''.join(align)}@{{}}}}",
        r"\toprule",
        *(" & ".join(map(text, line)) + r" \\" for line in heads if any(line)),
        r"\midrule",
        *(" & ".join(map(_cell, row, columns)) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabularx}}",
        *([r"\end{table}"] if caption else []),
    ]
    return "\n".join(lines) + "\n"


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
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in ACCENTS:
        return rf"\{ACCENTS[parts[1]]}{{{parts[0]}}}"
    return f"{{[}}{ord(character):04X}{{]}}"
