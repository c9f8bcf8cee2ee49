"""A table of runs in a file: CSV, TSV, JSON lines or Parquet."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.runs.settings import leaves
from experiments.errors import UserError
from experiments.files import read_bytes, reading

TABLE = "csv:"  # before the path of a table, as a source
FORMATS = (".csv", ".parquet", ".jsonl", ".csv.gz", ".tsv")


def file_of(source: str) -> Path | None:
    """The file of a table of runs; None for any other source."""
    return Path(source.removeprefix(TABLE)).expanduser() if source.startswith(TABLE) else None


def ending_of(file: Path) -> str:
    """The ending of the file's name that is one of `FORMATS`; "" for another file."""
    return next((ending for ending in FORMATS if file.name.lower().endswith(ending)), "")


def read_file(path: Path) -> pd.DataFrame:
    """The table in a file; which format it has follows from its ending. The cells of CSV are text."""
    source, ending = f"{TABLE}{path}", ending_of(path)
    if not ending:
        raise UserError(f"{source}: is no file that ends with {', '.join(FORMATS)}")
    with reading(path):
        try:
            if ending == ".parquet":
                return _parquet(path)
            text = read_bytes(path, gzip.open if ending.endswith(".gz") else open).decode("utf-8-sig")
            return _json_lines(text) if ending == ".jsonl" else _separated(text, source, is_tsv=ending == ".tsv")
        except UserError:
            raise
        except ImportError as error:
            extra = 'needs the extra "parquet"; install it with: pip install "vit-ablation[parquet]"'
            raise UserError(f"{source}: {extra}") from error
        except UnicodeDecodeError as error:
            raise UserError(f"{source}: cannot be read: {error}; save it as UTF-8") from error
        except (ValueError, TypeError, RecursionError, csv.Error, EOFError, zlib.error) as error:
            raise UserError(f"{source}: cannot be read: {error}") from error


def _separated(text: str, source: str, is_tsv: bool) -> pd.DataFrame:
    reader = csv.reader(io.StringIO(text, newline=None), delimiter="\t" if is_tsv else ",")
    head, *rows = [row for row in reader if row] or [[]]
    separators = check_header(head, source, is_tsv)
    for number, row in enumerate(rows, 1):
        if len(row) != len(head):
            raise UserError(f"{source}: row {number} has {len(row)} cells, and the header {len(head)}; {separators}")
    return pd.DataFrame(rows, columns=[name.strip() for name in head], dtype=object)


def check_header(names: Sequence[str], source: str, is_tsv: bool = False) -> str:
    """How cells are separated. Raises `UserError` where the header seems to be separated otherwise."""
    separators = f"cells are separated by {'tabs' if is_tsv else 'commas'}, and decimals have a point"
    if len(names) == 1 and {";", "\t", ",", "|"} & {*names[0]}:
        raise UserError(f"{source}: the header is one cell, {names[0]!r}; {separators}")
    return separators


def _parquet(path: Path) -> pd.DataFrame:
    from pyarrow.parquet import ParquetFile

    return ParquetFile(path).read().to_pandas()


def _json_lines(text: str) -> pd.DataFrame:
    """A row for each line that is not empty. Raises `ValueError` naming the line of the file."""
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            row = json.loads(line) if line.strip() else {}
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number}, column {error.colno}: {error.msg}") from error
        if line.strip():
            rows.append(dict(leaves(row)) if isinstance(row, dict) else row)
    return pd.DataFrame(rows, dtype=object)
