"""Compile tables with pdflatex, where it is installed."""

import shutil
import subprocess

import pytest

WHY = "needs pdflatex with booktabs (Debian: texlive-latex-recommended)"
found = shutil.which("kpsewhich") and subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True).stdout
needed = pytest.mark.skipif(not (shutil.which("pdflatex") and found), reason=WHY)


def compiles(body, folder):
    """A document with this body and the packages that a table names compiles."""
    packages = r"\documentclass{article}\usepackage{amsmath,booktabs}"
    (folder / "t.tex").write_text(rf"{packages}\begin{{document}}{body}\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "t.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
