"""experiments/REFERENCE.md is what the code says, and has what the code knows."""

import re

import pytest
import reference

from vit.registry import BUILTIN

TEXT = reference.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("part", reference.PARTS)
def test_a_table_of_the_page_is_what_the_code_says(part):
    (shown,) = re.findall(rf"<!-- {part} -->\n(.*?)\n<!-- end -->", TEXT, re.S)
    assert shown == reference.PARTS[part](), "python tests/support/reference.py writes it anew"


def test_every_environment_variable_of_the_code_is_named():
    assert [name for name in sorted(reference.variables()) if f"`{name}`" not in TEXT] == []


def test_every_column_that_is_explained_is_in_a_file_of_a_report():
    explained = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|", TEXT.partition("| column | what it is |")[2], re.M)
    names = re.findall(r"`([a-z_]+)`", " ".join(explained))
    listed = reference.columns()
    assert len(names) > 12 and [name for name in names if f"`{name}`" not in listed] == []


def test_the_picture_has_every_kind():
    texts = re.findall(r">([a-z0-9-]+)</text>", reference.PICTURE.read_text(encoding="utf-8"))
    assert {*texts} >= {*BUILTIN}
