"""Read YAML that somebody else may have written: plain values only, and nothing that two readers take differently."""

import re
from pathlib import Path
from typing import Any

import yaml

from experiments.errors import UserError
from experiments.files import read_bytes


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, except that two things are errors: a repeated key (PyYAML keeps the last one), and a number
    that is not decimal (PyYAML reads 010 as 8 and 1:30 as 90).
    """

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set[str]()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):  # PyYAML refuses other keys
            if key.value in seen:
                raise yaml.MarkedYAMLError(None, None, f"{key.value!r} occurs twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        is_number = isinstance(node, yaml.ScalarNode) and node.tag.endswith((":int", ":float"))
        if is_number and re.match(r"[-+]?0\w|.*:", node.value):
            what = f"{node.value} is not allowed: a number has neither a leading zero nor a colon; a text needs quotes"
            raise yaml.MarkedYAMLError(None, None, what, node.start_mark)
        return super().construct_object(node, deep)


def read_mapping(path: Path, fields: str) -> dict[str, Any]:
    """Read a YAML file that holds a mapping with these `fields`. Raises `UserError` naming file and reason."""
    tree = parse_yaml(read_bytes(path), str(path))
    if not isinstance(tree, dict):
        kind = "nothing" if tree is None else type(tree).__name__
        raise UserError(f"{path}: expected a mapping with {fields}, got {kind}")
    return tree


def parse_yaml(body: bytes, source: str) -> Any:
    """The value that YAML describes. Raises `UserError` naming the source, the line and the reason."""
    try:
        return yaml.load(body.decode(), _Loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise UserError(f"{source}: is not valid YAML: {line}{error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or a date such as 2024-99-99
        raise UserError(f"{source}: is not valid YAML: {error}") from error
