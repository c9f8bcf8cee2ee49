"""Canonical forms of values: JSON for digests and run ids, text for command lines."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces: equal values give equal bytes."""
    return json.dumps(finite(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def finite(value: Any) -> Any:
    """The value with every infinite or NaN number replaced by None, because JSON has none of them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def plain(value: Any) -> str:
    """A value as a command line takes it: true, false and none in lower case."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
