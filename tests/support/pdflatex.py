"""Compile tables with pdflatex, where it is installed."""

import shutil
import subprocess

import pytest

WHY = "needs pdflatex with booktabs (Debian: texlive-latex-recommended)"
found = shutil.which("kpsewhich") and subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True).stdout
needed = pytest.mark.skipif(not (shutil.which("pdflatex") and found), reason=WHY)


def log_of(body, folder, width="5.5in"):
    """The log of a document with this body, in lines of this width, which must compile."""
    packages = rf"\documentclass{{article}}\usepackage{{booktabs,tabularx}}\setlength{{\textwidth}}{{{width}}}"
    (folder / "t.tex").write_text(rf"{packages}\begin{{document}}{body}\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "t.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "t.log").read_text(errors="replace")
