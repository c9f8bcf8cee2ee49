"""Write a table for a paper as LaTeX. Text is escaped here; every character has a form in pdflatex or is replaced."""

import re
import unicodedata

from analysis.words import plain
from analysis.write.table import Column, Shown, Table

HEAD = (
    r"% written by vit-report --table, which replaces the whole file; needs \usepackage{booktabs}; "
    "a character that pdflatex has no form of is its code, {[}4E2D{]}; the CSV has the text"
)

MATH = re.compile(r"(\$[^$]+\$)")
COMMANDS = ["textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar", "dag", "dots"]
SYMBOLS = [r"\pm", r"-", r"\times", r"\geq", r"\leq", r"\cdot", r"^2", r"\to", r"\surd"]
FORMS = {
    **{character: "\\" + character for character in "{}$&#%_"},
    **{character: "{" + character + "}" for character in "[]*"},
    **{character: rf"\{command}{{}}" for character, command in zip("\\^~<>|†…", COMMANDS, strict=True)},
    **{character: f"${symbol}$" for character, symbol in zip("±−×≥≤·²→√", SYMBOLS, strict=True)},
    **dict(zip("“”‘’–—", ("``", "''", "`", "'", "--", "---"))),
    "ß": r"\ss{}",
    "‡": r"\ddag{}",
    **{'"': r"\char34{}", "`": r"\char96{}", "'": "'{}", "-": "-{}"},  # two in a row would be a quotation mark, a dash
}
FOOTNOTES = {"†": r"$^\dagger$", "‡": r"$^\ddagger$"}
ACCENTS = dict(zip("\u0300\u0301\u0302\u0303\u0308\u030a\u030c\u0327", r"""`'^~"rvc"""))  # mark -> LaTeX's accent


def table(table: Table) -> str:
    """Return a `table` environment for \\input. Notes are left out: the caption of a table for a paper says them."""
    columns, rows = table.shown()
    names = {cell.text for row in rows for cell, column in zip(row, columns) if column.math and MATH.search(cell.text)}
    known = re.compile(f"({'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})")

    def text(shown: str) -> str:  # names of variants in it have their math
        return "".join(_with_math(part) if part in names else _without_math(part) for part in known.split(plain(shown)))

    lines = [
        HEAD,
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{text(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{''.join('r' if column.numeric else 'l' for column in columns)}}}",
        r"\toprule",
        " & ".join(text(column.label) for column in columns) + r" \\",
        r"\midrule",
        *(" & ".join(map(_cell, row, columns)) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _cell(cell: Shown, column: Column) -> str:
    text = (_with_math if column.math else _without_math)(cell.text)
    text += f" {escaped(cell.sign)}" * bool(cell.sign)
    return (rf"\textbf{{{text}}}" if cell.bold else text) + FOOTNOTES.get(cell.dagger, "")


def escaped(text: str) -> str:
    """Return text that LaTeX sets as it is, in ASCII."""
    return _without_math(plain(text))


def _with_math(text: str) -> str:
    return "".join(part if MATH.fullmatch(part) else _without_math(part) for part in MATH.split(text))


def _without_math(text: str) -> str:
    return "".join(map(_form, text))


def _form(character: str) -> str:
    if character in FORMS:
        return FORMS[character]
    if character.isascii():
        return character
    name = unicodedata.name(character, "")
    if name.startswith("GREEK SMALL LETTER ") and name.count(" ") == 3 and character != "ο":
        return rf"$\{name.rpartition(' ')[2].lower()}$"
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in ACCENTS:
        return rf"\{ACCENTS[parts[1]]}{{{parts[0]}}}"
    return f"{{[}}{ord(character):04X}{{]}}"
