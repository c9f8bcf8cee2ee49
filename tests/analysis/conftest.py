"""Fixtures of the tests of analysis."""

import pytest
from commands import in_process, one_line

from analysis.main import main


@pytest.fixture
def vit_report(capsys):
    """Run `vit-report WORDS` in this process: exit status, stdout and stderr."""
    return in_process(main, capsys)


@pytest.fixture
def refused(vit_report):
    """Run `vit-report WORDS` on bad input; the line on stderr."""
    return one_line(vit_report)
