"""One spelling of a JSON value, for digests and run ids."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def canonical(value: Any) -> bytes:
    """The one spelling of a JSON value that digests and run ids are taken of."""
    return json.dumps(finite(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def finite(value: Any) -> Any:
    """The value with every number that is not finite replaced by None, which JSON can express."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
