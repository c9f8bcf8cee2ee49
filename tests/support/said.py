"""Which templates a report fills, with which slots: tests pin the choice of the sentence and its numbers, not its words."""

from contextlib import contextmanager

import pytest

from analysis.report.text import text


@contextmanager
def recorded(*modules):
    """macro -> its slots, for every text that these modules make in the block."""
    slots_by_macro = {}

    def recording(template, macro, /, **slots):
        slots_by_macro[macro] = slots
        return text(template, macro, **slots)

    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "text", recording)
        yield slots_by_macro
